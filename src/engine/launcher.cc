// SPDX-License-Identifier: Apache-2.0
#include "engine/launcher.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "keeper/protocol.h"

namespace errand {
namespace {

// Read before main(): a host that raises its own limit later does not raise its tasks'.
const std::uint64_t kNofileAtStart = [] {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::uint64_t>(limit.rlim_cur) : 0;
}();

constexpr int kAttempts = 3;

void add(std::string& strings, std::string_view text) {
  strings += text;
  strings += '\0';
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A keeper that could not be, or could not go on, may have said why before it went.
std::optional<StartError> last_words(int channel) {
  keeper::KeeperEvent event;
  ssize_t got = 0;
  do {
    got = ::recv(channel, &event, sizeof event, MSG_DONTWAIT);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got != static_cast<ssize_t>(sizeof event) || event.kind != keeper::KeeperEventKind::could_not_start) {
    return std::nullopt;
  }
  return StartError{"fork", "", event.error};
}

}  // namespace

std::variant<StartedProcess, StartError> start_process(ZygoteClient& zygotes, const StartSpec& spec,
                                                       ProcessWatch& watch) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return StartError{"pipe", "", errno};
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  // The read end only: a shell must find an ordinary, blocking pipe.
  if (::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return StartError{"fcntl", "", errno};

  std::string strings;
  add(strings, spec.cwd);
  add(strings, spec.shell);
  add(strings, spec.shell.substr(spec.shell.rfind('/') + 1));
  add(strings, "-c");
  add(strings, spec.command);
  for (const std::string& entry : spec.environment) add(strings, entry);
  const UniqueFd memory(::memfd_create("errand-start", MFD_CLOEXEC));
  if (!memory || !write_all(memory.get(), strings)) return StartError{"memfd", "", errno};

  keeper::StartRequest request;
  request.strings_size = static_cast<std::uint32_t>(strings.size());
  request.argc = 3;
  request.envc = static_cast<std::uint32_t>(spec.environment.size());
  request.grace_ms = static_cast<std::uint32_t>(spec.grace.count());
  request.nofile_soft = kNofileAtStart;
  const int fds[] = {memory.get(), write_end.get()};

  auto taken = zygotes.take();
  for (int attempt = 1;; ++attempt) {
    if (auto* error = std::get_if<StartError>(&taken)) return std::move(*error);
    KeeperChannel& keeper = std::get<KeeperChannel>(taken);
    if (const int error = watch.watch(keeper.channel.get(), read_end.get()); error != 0) {
      return StartError{"epoll_ctl", "", error};
    }
    const int error = send_packet(keeper.channel.get(), &request, sizeof request, fds, 2);
    if (error == 0) return StartedProcess{std::move(keeper), std::move(read_end)};
    watch.unwatch(keeper.channel.get(), read_end.get());
    if (error != EPIPE && error != ECONNRESET) return StartError{"fork", "", error};
    // One that was killed while it waited, could not be forked, or died with its zygote before, has started nothing.
    if (attempt == kAttempts) return last_words(keeper.channel.get()).value_or(StartError{"fork", "", error});
    taken = zygotes.fork_one();
  }
}

}  // namespace errand
