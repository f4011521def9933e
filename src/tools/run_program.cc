// SPDX-License-Identifier: Apache-2.0
#include "tools/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/fd.h"

namespace errand {
namespace {

constexpr std::size_t kMostErrors = 4096;

std::string errno_text(const std::string& step, int number) { return step + ": " + std::strerror(number); }

class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// Kills and reaps on every way out, so that a stop or a full buffer leaves no process.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() { kill_and_reap(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill_and_reap() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    reap();
  }
  std::optional<int> reap() {
    int status = 0;
    pid_t got;
    do {
      got = ::waitpid(pid_, &status, 0);
    } while (got < 0 && errno == EINTR);
    const bool known = got == pid_;
    pid_ = -1;
    if (known && WIFEXITED(status)) return WEXITSTATUS(status);
    return std::nullopt;
  }

 private:
  pid_t pid_;
};

bool make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return true;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// False at the end of the stream. What comes over the bound is read and dropped; `cut` tells.
bool drain(int fd, std::string& into, std::size_t most, bool& cut) {
  char buffer[65536];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  const std::size_t room = most - into.size();
  const auto count = static_cast<std::size_t>(got);
  into.append(buffer, count < room ? count : room);
  cut = cut || count > room;
  return true;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& argv, const std::string& folder, std::size_t most_bytes,
                          std::stop_token stop) {
  ProgramResult result;
  auto fail = [&result](const std::string& step, int number) {
    result.error = errno_text(step, number);
    return result;
  };
  UniqueFd out_read, out_write, err_read, err_write;
  if (!make_pipe(out_read, out_write) || !make_pipe(err_read, err_write)) return fail("pipe", errno);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fail("eventfd", errno);

  SpawnPlan plan;
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&plan.actions, out_write.get(), 1);
  posix_spawn_file_actions_adddup2(&plan.actions, err_write.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, 3);
  posix_spawn_file_actions_addchdir_np(&plan.actions, folder.c_str());
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "LANG", "LC_ALL", "LC_CTYPE"}) {
    if (const char* value = std::getenv(name)) environment.push_back(std::string(name) + "=" + value);
  }
  pid_t pid = -1;
  const int fault = ::posix_spawn(&pid, argv[0].c_str(), &plan.actions, &plan.attributes, pointers(arguments).data(),
                                  pointers(environment).data());
  if (fault != 0) return fail("cannot start " + argv[0] + " in " + folder, fault);
  Child child(pid);
  out_write.reset();
  err_write.reset();

  std::stop_callback on_stop(stop, [&wake] {
    const std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wake.get(), &one, sizeof one);
  });
  bool errors_cut = false;
  bool out_open = true, err_open = true;
  while ((out_open || err_open) && !result.cut) {
    pollfd fds[3] = {{out_open ? out_read.get() : -1, POLLIN, 0},
                     {err_open ? err_read.get() : -1, POLLIN, 0},
                     {wake.get(), POLLIN, 0}};
    if (::poll(fds, 3, -1) < 0) {
      if (errno == EINTR) continue;
      return fail("poll", errno);
    }
    if (fds[2].revents != 0) {
      result.stopped = true;
      return result;
    }
    if (fds[0].revents != 0) out_open = drain(out_read.get(), result.out, most_bytes, result.cut);
    if (fds[1].revents != 0) err_open = drain(err_read.get(), result.err, kMostErrors, errors_cut);
  }
  if (result.cut) {
    child.kill_and_reap();
  } else {
    result.exit_code = child.reap();
  }
  return result;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty() || folder[0] != '/') continue;
    const std::string candidate = folder + "/" + name;
    struct stat status{};
    if (::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

}  // namespace errand
