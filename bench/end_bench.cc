// SPDX-License-Identifier: Apache-2.0
// How long the end of a shell takes to become a notification in the queue, against a thread that does nothing but
// wait in waitpid. The shell execs this very program as its child's last act, which notes the clock in shared memory
// just before _exit; so both sides contain the kernel's own time for the exit.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "bench.h"
#include "errand/engine.h"

namespace {

using namespace errand;
using namespace errand::bench;

struct Shared {
  std::atomic<double> exit_at;
};

Shared* map_shared(const std::string& file) {
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0) give_up("cannot open \"" + file + "\": " + std::strerror(errno));
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) give_up(std::string("mmap: ") + std::strerror(errno));
  return static_cast<Shared*>(memory);
}

// The child: lets its start settle, then ends.
[[noreturn]] void be_child(const std::string& file) {
  Shared* shared = map_shared(file);
  usleep(3000);
  shared->exit_at = now_us();
  _exit(0);
}

// When the queue's listener was called, for whoever waits for it.
class Arrival {
 public:
  void note() {
    const double now = now_us();
    const std::lock_guard lock(mutex_);
    at_ = now;
    changed_.notify_all();
  }
  double take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return at_ > 0; })) give_up("no notification came");
    return std::exchange(at_, 0);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  double at_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "child") be_child(argv[2]);
  if (argc != 2) give_up("usage: end_bench FOLDER");
  const std::string folder = argv[1], file = folder + "/exit";
  Shared* shared = map_shared(file);
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) give_up("cannot read /proc/self/exe");
  const std::string command = "exec '" + std::string(self, static_cast<std::size_t>(n)) + "' child '" + file + "'";

  EngineConfig config;
  config.shell = "/bin/bash";
  config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
  config.output_folder = folder + "/tasks";
  Arrival arrival;
  Engine engine(config);
  engine.notifications().set_listener([&] { arrival.note(); });

  std::vector<double> ours, bares;
  for (int i = 0; i < 520; ++i) {
    Bare bare = start_bare("/bin/bash", command);
    while (waitpid(bare.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    const double bare_took = now_us() - shared->exit_at;
    close(bare.out);

    LaunchRequest request;
    request.command = command;
    const LaunchResult result = engine.launch(request);
    if (const auto* rejected = std::get_if<Rejected>(&result)) give_up("launch: " + rejected->reason);
    const double took = arrival.take() - shared->exit_at;
    engine.notifications().drain();
    if (i < 20) continue;
    bares.push_back(bare_took);
    ours.push_back(took);
  }
  const double ratio = percentile(ours, 50) / percentile(bares, 50);
  row("end: the shell's exit to the notification in the queue, p50 of 500",
      "blocking waitpid " + time_text(percentile(bares, 50)), time_text(percentile(ours, 50)), ratio_text(ratio),
      "<= 1.60", ratio <= 1.6);
  const double p99 = percentile(ours, 99);
  row("the same, p99", "blocking waitpid " + time_text(percentile(bares, 99)), time_text(p99),
      ratio_text(p99 / percentile(bares, 99)), "<= 10 ms", p99 <= 10000);
}
