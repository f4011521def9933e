// SPDX-License-Identifier: Apache-2.0
// How long a start takes: from the call to the first byte of `echo x` in the host's hands, against a bare posix_spawn
// of the same shell. Both sides look for the byte in the same way (poll, pause, poll), so that looking costs both the
// same.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "bench.h"
#include "errand/engine.h"

namespace {

using namespace errand;
using namespace errand::bench;

constexpr const char* kCommand = "echo x";

std::string start(Engine& engine) {
  LaunchRequest request;
  request.command = kCommand;
  const LaunchResult result = engine.launch(request);
  if (const auto* rejected = std::get_if<Rejected>(&result)) give_up("launch: " + rejected->reason);
  return std::get<Launched>(result).id;
}

bool printed(Engine& engine, const std::string& id) {
  const TaskSnapshot task = engine.get(id);
  if (task->status == TaskStatus::failed) give_up("the task failed: " + ending_text(*task));
  return task->output_bytes > 0;
}

void wait_end(Engine& engine, const std::string& id) {
  if (engine.wait_end(id, std::chrono::seconds(60))->status == TaskStatus::running) give_up("a task did not end");
}

double engine_once(Engine& engine) {
  const double begin = now_us();
  const std::string id = start(engine);
  while (!printed(engine, id)) pause_between_looks();
  const double took = now_us() - begin;
  wait_end(engine, id);
  return took;
}

bool first_byte(Bare& bare) {
  char byte = 0;
  return read(bare.out, &byte, 1) == 1;
}

double bare_once(const std::string& shell) {
  const double begin = now_us();
  Bare bare = start_bare(shell, kCommand);
  while (!first_byte(bare)) pause_between_looks();
  const double took = now_us() - begin;
  finish_bare(bare);
  return took;
}

double engine_burst(Engine& engine, int count) {
  const double begin = now_us();
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(start(engine));
  for (const std::string& id : ids) {
    while (!printed(engine, id)) pause_between_looks();
  }
  const double took = now_us() - begin;
  for (const std::string& id : ids) wait_end(engine, id);
  return took;
}

double bare_burst(const std::string& shell, int count) {
  const double begin = now_us();
  std::vector<Bare> all;
  for (int i = 0; i < count; ++i) all.push_back(start_bare(shell, kCommand));
  for (Bare& bare : all) {
    while (!first_byte(bare)) pause_between_looks();
  }
  const double took = now_us() - begin;
  for (Bare& bare : all) finish_bare(bare);
  return took;
}

EngineConfig config_for(const std::string& shell, const std::string& folder) {
  EngineConfig config;
  config.max_concurrent_background = 64;
  config.shell = shell;
  config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
  config.output_folder = folder;
  return config;
}

void one_at_a_time(const std::string& shell, const std::string& name, const std::string& folder, double goal) {
  Engine engine(config_for(shell, folder));
  std::vector<double> ours, bares;
  for (int i = 0; i < 520; ++i) {
    const double bare = bare_once(shell);
    const double own = engine_once(engine);
    if (i < 20) continue;  // both warm
    bares.push_back(bare);
    ours.push_back(own);
  }
  engine.notifications().drain();
  const double ratio = percentile(ours, 50) / percentile(bares, 50);
  row("start, one at a time, " + name + ": p50 of 500", "posix_spawn " + time_text(percentile(bares, 50)),
      time_text(percentile(ours, 50)), ratio_text(ratio), "<= " + ratio_text(goal), ratio <= goal);
}

void twenty_at_once(const std::string& shell, const std::string& name, const std::string& folder) {
  Engine engine(config_for(shell, folder));
  std::vector<double> ours, bares;
  for (int i = 0; i < 42; ++i) {
    const double bare = bare_burst(shell, 20);
    const double own = engine_burst(engine, 20);
    if (i < 2) continue;
    bares.push_back(bare);
    ours.push_back(own);
  }
  const double ratio = percentile(ours, 50) / percentile(bares, 50);
  row("start, 20 at once, " + name + ": all first bytes, p50 of 40", "posix_spawn " + time_text(percentile(bares, 50)),
      time_text(percentile(ours, 50)), ratio_text(ratio), "<= 1.35", ratio <= 1.35);
}

// The host's memory comes and goes in turns, in pages of 4 KiB, which are the dearest to copy.
void with_memory(const std::string& shell, const std::string& name, const std::string& folder) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  Engine engine(config_for(shell, folder));
  for (int i = 0; i < 20; ++i) engine_once(engine);
  std::vector<double> lean, fat;
  for (int block = 0; block < 5; ++block) {
    for (int i = 0; i < 50; ++i) lean.push_back(engine_once(engine));
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) give_up(std::string("mmap of 2 GB: ") + std::strerror(errno));
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    std::memset(memory, 1, kBytes);
    for (int i = 0; i < 50; ++i) fat.push_back(engine_once(engine));
    munmap(memory, kBytes);
  }
  const double ratio = percentile(fat, 50) / percentile(lean, 50);
  row("start, 2 GB resident in the host, " + name + ": p50 of 250", "itself without " + time_text(percentile(lean, 50)),
      time_text(percentile(fat, 50)), ratio_text(ratio), "<= 1.15", ratio <= 1.15);
}

bool has_memory_for_2_gb() {
  std::ifstream info("/proc/meminfo");
  std::string key;
  long kib = 0;
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) kib = std::strtol(line.c_str() + 13, nullptr, 10);
  }
  return kib > 3 * 1024 * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) give_up("usage: start_bench FOLDER");
  prepare();
  const std::string folder = argv[1];
  const std::string bash = "/bin/bash", dash = "/bin/dash";
  one_at_a_time(bash, "bash", folder + "/a", 1.10);
  if (access(dash.c_str(), X_OK) == 0) {
    one_at_a_time(dash, "dash", folder + "/b", 1.15);
  } else {
    row("start, one at a time, dash: p50 of 500", "dash is not on this machine", "-", "-", "<= 1.15", false);
  }
  twenty_at_once(bash, "bash", folder + "/c");
  if (has_memory_for_2_gb()) {
    with_memory(bash, "bash", folder + "/d");
  } else {
    row("start, 2 GB resident in the host, bash", "itself without", "less than 3 GB are free here", "-", "<= 1.15",
        false);
  }
}
