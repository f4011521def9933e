// SPDX-License-Identifier: Apache-2.0
// What the engine, the zygote and the keepers say to each other.
//
// The engine starts `errand-keeper` once. It double-forks, so that the zygote is no child of the host (a host's
// wait(-1) must not reap it), and the zygote waits on a SOCK_SEQPACKET control socket, descriptor 3. With descriptor 4
// it gets a pidfd of the host. The zygote is a child subreaper in a session of its own with its standard descriptors on
// /dev/null.
//
//   engine -> zygote   ZygoteRequest::fork_keeper + SCM_RIGHTS {the keeper's end of a SEQPACKET pair}
//                      the zygote forks a keeper that keeps only this socket and the host's pidfd
//                      ZygoteRequest::sweep: a keeper was killed. What it left is to be ended, also when the zygote
//                      itself cannot know (somebody traces the dead keeper), and its control group (group.h), also when
//                      it was a dead zygote's
//   start -> engine    ZygoteHello: which process the zygote is, there before `errand-keeper` exits
//   engine -> keeper   StartRequest + SCM_RIGHTS {a memfd with the strings, the write end of the output pipe}
//                      StopRequest, any number of times, also after the shell's exit
//   keeper -> engine   KeeperEvent: started | could_not_start, exited, stopped, empty
//
// Every message is one packet: a struct of fixed size in the host's byte order; both ends are built together, and a
// packet of an unexpected size is a protocol error that ends the connection. The keeper takes commands only from the
// host: the pid that the kernel stamped on the packet must be that of the process which made the control socket pair
// (SO_PEERCRED). A forked copy of the host commands nothing. The kernel stamps only what is sent after SO_PASSCRED was
// set, so the engine makes both kinds of pairs with open_channel() below; a packet without a stamp is refused.
//
// The engine ends a connection with shutdown(SHUT_RDWR), then close: a descriptor that a forked copy of the host holds
// would else keep it open. Closing the control socket ends the zygote when its last keeper is gone.
//
// Life of a keeper: idle (a spare) -> shell runs -> shell exited, descendants left -> empty, exits. The host's death
// (its pidfd, or the socket's end of file) is a StopRequest with the grace of the StartRequest; an idle keeper just
// exits. A duplex channel for internal helpers is a third descriptor in StartRequest (has_stdin).
//
// After could_not_start nothing follows but the end of file. A StopRequest is answered before `empty`; one that crosses
// with `empty` on its way gets no answer but the end of file. An idle keeper answers a StopRequest with stopped{0, 0}
// and exits. An end of file without could_not_start or `empty` before it means that the keeper was killed; its
// processes are then ended by the zygote, if that lives. A keeper that goes while a packet of the engine is unread
// makes the kernel say ECONNRESET once, before the last events: the engine reads on. A zygote that cannot fork sends
// could_not_start{fork} and closes, so a StartRequest may meet EPIPE, with the reason waiting to be read.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace errand::keeper {

// `errand-keeper zygote` finds these two descriptors open; it exits with 0 once the zygote runs, else with 1 or 2.
constexpr int kControlFd = 3;
constexpr int kHostPidFd = 4;

// A SEQPACKET pair, close-on-exec, whose packets carry the sender's pid from the first one on. False: errno tells.
inline bool open_channel(int (&ends)[2]) {
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const int on = 1;
  for (const int end : ends) {
    if (::setsockopt(end, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0) continue;
    ::close(ends[0]);
    ::close(ends[1]);
    return false;
  }
  return true;
}

constexpr std::uint32_t kProtocolVersion = 2;

enum class ZygoteCommand : std::uint32_t { fork_keeper = 1, sweep = 2 };

struct ZygoteRequest {
  std::uint32_t version = kProtocolVersion;
  ZygoteCommand command = ZygoteCommand::fork_keeper;
};

// The only word on the control socket in this direction, sent by who forks the zygote and then exits.
struct ZygoteHello {
  std::uint32_t version = kProtocolVersion;
  std::int32_t pid = 0;
};

enum class KeeperCommand : std::uint32_t { start = 1, stop = 2 };

// The memfd holds NUL-terminated strings, one after another: cwd, path, argc x argv, envc x env.
struct StartRequest {
  std::uint32_t version = kProtocolVersion;
  KeeperCommand command = KeeperCommand::start;
  std::uint32_t strings_size = 0;  // bytes in the memfd
  std::uint32_t argc = 0;
  std::uint32_t envc = 0;
  std::uint32_t grace_ms = 2000;  // used when the host is gone
  std::uint32_t has_stdin = 0;    // a third descriptor is the child's 0 and 1 (else 0 is /dev/null, 1 and 2 the pipe)
  std::uint64_t nofile_soft = 0;  // RLIMIT_NOFILE's soft limit of the shell; 0: as it is
};

struct StopRequest {
  std::uint32_t version = kProtocolVersion;
  KeeperCommand command = KeeperCommand::stop;
  std::uint32_t grace_ms = 2000;  // SIGTERM (and SIGCONT) now, SIGKILL rounds after this; 0: SIGKILL at once
  std::uint32_t reserved = 0;
};

enum class KeeperEventKind : std::uint32_t {
  started = 1,      // pid = the shell's
  could_not_start,  // step, error = errno
  exited,           // status = the shell's wait status; live = descendants left at that moment
  stopped,          // answers every StopRequest: live = processes alive when the stop began, left = not ended
  empty,            // no descendant is left; the keeper exits after this
};

// The step at which a start failed.
enum class StartStep : std::uint32_t { none = 0, read_request, setsid, rlimit, stdio, chdir, exec, fork };

struct KeeperEvent {
  std::uint32_t version = kProtocolVersion;
  KeeperEventKind kind = KeeperEventKind::started;
  std::int32_t pid = 0;
  std::int32_t status = 0;
  std::int32_t error = 0;
  StartStep step = StartStep::none;
  std::uint32_t live = 0;
  std::uint32_t left = 0;
  // What the processes that have been reaped so far used: all of them together, the biggest of them.
  std::uint64_t cpu_us = 0;
  std::uint64_t max_rss_bytes = 0;
};

}  // namespace errand::keeper
