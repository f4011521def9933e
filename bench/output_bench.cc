// SPDX-License-Identifier: Apache-2.0
// What output costs: capture below the file's cap and far past it, the host's memory during floods and with many
// tasks, and whether one task's flood delays another's end.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench.h"
#include "errand/engine.h"

namespace {

using namespace errand;
using namespace errand::bench;
namespace fs = std::filesystem;

EngineConfig config_for(const std::string& folder) {
  EngineConfig config;
  config.shell = "/bin/bash";
  config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
  config.output_folder = folder;
  config.max_concurrent_background = 2000;
  return config;
}

std::string start(Engine& engine, const std::string& command) {
  LaunchRequest request;
  request.command = command;
  const LaunchResult result = engine.launch(request);
  if (const auto* rejected = std::get_if<Rejected>(&result)) give_up("launch: " + rejected->reason);
  return std::get<Launched>(result).id;
}

TaskSnapshot wait_end(Engine& engine, const std::string& id) {
  TaskSnapshot task = engine.wait_end(id, std::chrono::seconds(120));
  if (task->status == TaskStatus::running) give_up("a task did not end");
  return task;
}

double bare_time(const std::string& command) {
  const double begin = now_us();
  Bare bare = start_bare("/bin/bash", command);
  finish_bare(bare);
  return now_us() - begin;
}

std::string rate_text(double bytes, double us) { return std::to_string(static_cast<long>(bytes / us)) + " MB/s"; }

bool same_bytes(const std::string& a, const std::string& b) {
  std::ifstream x(a, std::ios::binary), y(b, std::ios::binary);
  std::vector<char> p(1 << 20), q(1 << 20);
  for (;;) {
    x.read(p.data(), static_cast<std::streamsize>(p.size()));
    y.read(q.data(), static_cast<std::streamsize>(q.size()));
    if (x.gcount() != y.gcount() || !std::equal(p.begin(), p.begin() + x.gcount(), q.begin())) return false;
    if (x.gcount() == 0) return true;
  }
}

// The file counts as captured when its last byte is in it, not when the task has ended.
void capture(const std::string& folder) {
  const std::string source = folder + "/source", copy = folder + "/copy";
  std::size_t size = 0;
  {
    std::ofstream out(source, std::ios::binary);
    for (int line = 0; size < 60'000'000; ++line) {
      const std::string text = "line " + std::to_string(line) + ": some output of a test that prints what it does\n";
      out << text;
      size += text.size();
    }
    if (!out.flush()) give_up("cannot write " + source);
  }
  Engine engine(config_for(folder + "/capture"));
  std::vector<double> ours, bares;
  bool same = true;
  for (int i = 0; i < 11; ++i) {
    const double bare = bare_time("cat " + source + " | cat > " + copy);
    fs::remove(copy);
    const double begin = now_us();
    const std::string id = start(engine, "cat " + source);
    const TaskSnapshot task = wait_end(engine, id);
    while (fs::file_size(task->output_file) < size && now_us() - begin < 60e6) pause_between_looks();
    const double own = now_us() - begin;
    same = same && same_bytes(source, task->output_file);
    fs::remove(task->output_file);
    if (i == 0) continue;
    bares.push_back(bare);
    ours.push_back(own);
  }
  fs::remove(source);
  const double bare = percentile(bares, 50), own = percentile(ours, 50), bytes = static_cast<double>(size);
  row(std::string("capture of 60 MB, below the file's cap, bytes ") + (same ? "equal" : "DIFFERENT"),
      "cat > file " + rate_text(bytes, bare), rate_text(bytes, own), ratio_text(bare / own), ">= 0.90",
      same && bare / own >= 0.9);
}

void flood(const std::string& folder) {
  const std::string command = "yes 'a line that is printed again and again and again' | head -c 1000000000";
  Engine engine(config_for(folder + "/flood"));
  std::vector<double> ours, bares;
  for (int i = 0; i < 6; ++i) {
    const double bare = bare_time("(" + command + ") | cat > /dev/null");
    const double begin = now_us();
    const TaskSnapshot task = wait_end(engine, start(engine, command));
    const double own = now_us() - begin;
    if (task->output_bytes != 1'000'000'000)
      give_up("the flood was not counted: " + std::to_string(task->output_bytes));
    fs::remove(task->output_file);
    if (i == 0) continue;
    bares.push_back(bare);
    ours.push_back(own);
  }
  const double bare = percentile(bares, 50), own = percentile(ours, 50);
  row("capture of 1 GB, far past the cap", "cat > /dev/null " + rate_text(1e9, bare), rate_text(1e9, own),
      ratio_text(bare / own), ">= 0.80", bare / own >= 0.8);
}

void memory(const std::string& folder) {
  EngineConfig config = config_for(folder + "/memory");
  config.keeper_path = own_keeper(folder + "/memory-keeper");
  Engine engine(config);
  wait_end(engine, start(engine, "true"));
  const std::int64_t idle = host_memory_kib(config.keeper_path);
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(start(engine, "yes"));
  std::int64_t most = 0;
  for (const double begin = now_us(); now_us() - begin < 10e6;) {
    most = std::max(most, host_memory_kib(config.keeper_path));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (const std::string& id : ids) engine.stop(id);
  const std::int64_t more = most - idle;
  row("memory of the host while 5 tasks flood for 10 s", "idle " + std::to_string(idle / 1024) + " MB",
      "+ " + std::to_string(more / 1024) + " MB", "-", "+ <= 16 MB", more <= 16 * 1024);
}

void end_beside_flood(const std::string& folder) {
  Engine engine(config_for(folder + "/beside"));
  const auto once = [&] {
    const double begin = now_us();
    wait_end(engine, start(engine, "true"));
    return now_us() - begin;
  };
  std::vector<double> quiet, loud;
  for (int block = 0; block < 4; ++block) {
    for (int i = 0; i < 25; ++i) quiet.push_back(once());
    const std::string id = start(engine, "yes");
    for (int i = 0; i < 25; ++i) loud.push_back(once());
    engine.stop(id);
  }
  const double difference = percentile(loud, 50) - percentile(quiet, 50);
  row("one task's start and end while another floods: p50 of 100", "without " + time_text(percentile(quiet, 50)),
      time_text(percentile(loud, 50)), "+ " + time_text(difference), "+ <= 50 ms", difference <= 50000);
}

void many(const std::string& folder) {
  EngineConfig config = config_for(folder + "/many");
  config.keeper_path = own_keeper(folder + "/many-keeper");
  Engine engine(config);
  wait_end(engine, start(engine, "true"));
  const std::int64_t before = host_memory_kib(config.keeper_path);
  for (int i = 0; i < 1000; ++i) start(engine, "exec sleep 1000");
  std::this_thread::sleep_for(std::chrono::seconds(3));  // the shells exec, the spare is made
  if (engine.running_count() != 1000) give_up("only " + std::to_string(engine.running_count()) + " tasks run");
  const double each = static_cast<double>(host_memory_kib(config.keeper_path) - before) / 1000.0;
  row("1,000 running tasks: memory a task, host's share and keeper", "-",
      std::to_string(static_cast<long>(each)) + " KB", "-", "<= 100 KB", each <= 100);
  const double cpu = host_cpu_seconds(config.keeper_path);
  std::this_thread::sleep_for(std::chrono::seconds(10));
  const double used = host_cpu_seconds(config.keeper_path) - cpu;
  row("1,000 running silent tasks: CPU over 10 s", "-", ratio_text(used) + " s", "-", "<= 0.1 s", used <= 0.1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) give_up("usage: output_bench FOLDER [capture] [flood] [memory] [beside] [many]");
  prepare();
  const std::string folder = argv[1];
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  const std::pair<const char*, void (*)(const std::string&)> parts[] = {
      {"capture", capture}, {"flood", flood}, {"memory", memory}, {"beside", end_beside_flood}, {"many", many}};
  for (const auto& [name, part] : parts) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) part(folder);
  }
}
