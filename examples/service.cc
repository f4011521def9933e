// SPDX-License-Identifier: Apache-2.0
// A service that goes on with its own work while its tasks flood it: what each prints is bounded in memory and on disk,
// and nobody has to read it. Runs three floods for the given time and says what that cost.
//
//   service [seconds, 2 by default] [folder for the tasks' output files, none by default]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <variant>

#include "errand/engine.h"

namespace {

long resident_kib() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4;
}

}  // namespace

int main(int count, char** arguments) {
  using Clock = std::chrono::steady_clock;
  const std::chrono::seconds time(count > 1 ? std::atoi(arguments[1]) : 2);
  errand::EngineConfig config;
  config.max_output_chars = 16384;             // of each task, in memory
  config.max_output_file_bytes = 1024 * 1024;  // of each task, on disk
  if (count > 2) config.output_folder = arguments[2];
  errand::Engine engine(config);
  const long before = resident_kib();
  for (const char* flood : {"yes", "yes 'a longer line than the other' >&2", "tr '\\0' x </dev/zero"})
    engine.launch({flood});

  long beats = 0;
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {  // the service's own work, never held up by its tasks
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++beats;
  }

  for (const errand::TaskSnapshot& task : engine.list()) {
    const errand::StopReport report = engine.stop(task->id);
    const std::size_t kept = engine.tail(task->id, 0)->text.size();
    std::printf("%s: %s, printed %llu bytes, %zu of them kept\n", task->id.c_str(),
                errand::ending_text(*report.task).c_str(), static_cast<unsigned long long>(report.task->output_bytes),
                kept);
  }
  std::printf("%ld beats, %ld KiB more memory\n", beats, std::max(0L, resident_kib() - before));
  return 0;
}
