// SPDX-License-Identifier: Apache-2.0
// A keeper owns one task: it starts the shell, reaps everything, reports to the engine, and ends the whole tree when it
// is told to or when the host is gone.
//
// It is a process of its own, forked by the zygote, with one thread and one loop. What it waits for: signals (a child's
// end; SIGTERM and its like, which mean "end your task": whoever kills a keeper does not free its processes), its
// channel, the host's pidfd, and the next step of an ending.
//
//   ending     begins with                    leaves to
//   none                                      grace
//   grace      SIGTERM and SIGCONT to all     killing: time is over, or the tree grew
//   killing    a round every 10 ms            left: only what we may not signal, or 3 s have passed
//   left       stops are answered             a round every second; a new stop begins anew
//
// From all of them the end is the same: wait4 says that there is no child, `empty` is reported, the keeper exits.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "protocol.h"
#include "shared.h"
#include "sys.h"
#include "tree.h"
#include "wire.h"

namespace errand::keeper {

struct KeeperWorld {
  int host_pidfd = -1;
  pid_t host = 0;  // the only one that commands
  pid_t zygote = 0;
  Shared* shared = nullptr;
  std::uint32_t slot = Shared::kNoSlot;
  Census* census = nullptr;  // none: there are children files
  int group = -1;            // its control group, if it has one
};

class Keeper {
 public:
  // All signals are blocked already.
  Keeper(UniqueFd channel, const KeeperWorld& world);
  // Returns the exit status of the keeper: 0 when nothing is left below it.
  int run();

 private:
  enum class Ending : std::uint8_t { none, grace, killing, left };

  void on_signals();
  void on_channel();
  void on_packet(Packet& packet);
  void on_host_gone();
  void on_hang_up();
  void start(Packet& packet);
  void refuse_start(StartStep step, int error);
  void reap();
  void begin_ending(std::uint32_t grace_ms, std::int64_t since, bool answer);
  void step();
  void kill_round(std::int64_t now);
  bool end_group();
  void answer_stops(std::uint32_t left);
  void wake_zygote() const;
  void leave(int status);
  int wait_ms() const;
  // CPU time of what has been reaped, since the keeper began.
  static std::uint64_t reaped_cpu_us(std::uint64_t* max_rss_bytes = nullptr);
  // What cannot be sent now is sent later: an end that the engine never hears of would run for ever.
  void report(const KeeperEvent& event);
  // True when nothing is left to be sent.
  bool flush();
  void report(KeeperEventKind kind, pid_t pid = 0, int status = 0, std::uint32_t live = 0, std::uint32_t left = 0);

  KeeperWorld world_;
  UniqueFd channel_;
  UniqueFd signals_;
  Tree tree_;
  Array<KeeperEvent> unsent_;
  Array<std::uint32_t> stops_;  // not answered yet: what was alive when each came

  bool started_ = false;
  bool childless_ = false;
  bool host_gone_ = false;
  bool abandoned_ = false;  // nobody listens any more
  bool done_ = false;
  bool grew_ = false;  // at the last look of the grace
  Ending ending_ = Ending::none;
  int exit_status_ = 0;
  std::uint64_t rehearsed_cpu_us_ = 0;  // not the task's
  pid_t shell_ = -1;                    // -1: none, or reaped
  std::uint32_t grace_ms_ = 2000;
  std::uint32_t live_at_begin_ = 0;
  std::int64_t grace_end_ = 0;
  std::int64_t give_up_at_ = 0;
  std::int64_t next_look_ = 0;
  std::int64_t look_every_ = 0;
  int rounds_ = 0;             // of killing
  bool group_ended_ = false;   // tried
  bool group_killed_ = false;  // done: what we may not signal is dying as well
};

}  // namespace errand::keeper
