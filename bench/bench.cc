// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;

namespace errand::bench {

double now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(std::lround(p / 100.0 * static_cast<double>(values.size() - 1)));
  return values[at];
}

std::string time_text(double us) {
  char text[64];
  if (us < 10000) {
    std::snprintf(text, sizeof text, "%.0f us", us);
  } else if (us < 1e6) {
    std::snprintf(text, sizeof text, "%.1f ms", us / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.2f s", us / 1e6);
  }
  return text;
}

std::string ratio_text(double ratio) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", ratio);
  return text;
}

void row(const std::string& what, const std::string& reference, const std::string& measured, const std::string& ratio,
         const std::string& goal, bool reached) {
  std::printf("| %s | %s | %s | %s | %s | %s |\n", what.c_str(), reference.c_str(), measured.c_str(), ratio.c_str(),
              goal.c_str(), reached ? "yes" : "no");
  std::fflush(stdout);
}

void give_up(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

Bare start_bare(const std::string& shell, const std::string& command) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) give_up(std::string("pipe2: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const char* argv[] = {shell.c_str(), "-c", command.c_str(), nullptr};
  Bare bare;
  const int error = posix_spawn(&bare.pid, shell.c_str(), &actions, &attributes, const_cast<char**>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(pipe_ends[1]);
  if (error != 0) give_up("posix_spawn " + shell + ": " + std::strerror(error));
  fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
  bare.out = pipe_ends[0];
  return bare;
}

void finish_bare(Bare& bare) {
  char buffer[65536];
  for (;;) {
    const ssize_t n = read(bare.out, buffer, sizeof buffer);
    if (n == 0) break;
    if (n < 0 && errno == EAGAIN) {
      pollfd wait{bare.out, POLLIN, 0};
      poll(&wait, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      break;
    }
  }
  close(bare.out);
  while (waitpid(bare.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  bare = {};
}

void pause_between_looks() {
  const timespec t{0, 20000};
  nanosleep(&t, nullptr);
}

void prepare() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, 8192);
  setrlimit(RLIMIT_NOFILE, &descriptors);
}

namespace {

std::string exe_of(pid_t pid) {
  char path[4096];
  const ssize_t n = readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

// The zygote is nobody's child but init's, so its kind is known by the program.
std::vector<pid_t> host_processes(const std::string& keeper) {
  std::vector<pid_t> host{getpid()};
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid > 0 && exe_of(pid) == keeper) host.push_back(pid);
  }
  return host;
}

}  // namespace

std::string own_keeper(const std::string& folder) {
  std::filesystem::create_directories(folder);
  const std::string copy = std::filesystem::canonical(folder) / "errand-keeper";
  std::filesystem::copy_file(ERRAND_BUILD_DIR "/errand-keeper", copy);
  return copy;
}

std::int64_t host_memory_kib(const std::string& keeper) {
  std::int64_t sum = 0;
  for (const pid_t pid : host_processes(keeper)) {
    std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string line; std::getline(rollup, line);) {
      if (line.rfind("Pss:", 0) == 0) sum += std::strtoll(line.c_str() + 4, nullptr, 10);
    }
  }
  return sum;
}

double host_cpu_seconds(const std::string& keeper) {
  double ns = 0;
  for (const pid_t pid : host_processes(keeper)) {
    std::error_code gone;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
      std::ifstream file(thread.path() / "schedstat");
      double on_cpu = 0;
      if (file >> on_cpu) ns += on_cpu;
    }
  }
  return ns / 1e9;
}

}  // namespace errand::bench
