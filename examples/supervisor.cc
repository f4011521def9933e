// SPDX-License-Identifier: Apache-2.0
// Runs each argument as a shell command and prints their lines as they come, each with its task's id; a command that
// fails is started once more. SIGINT ends all (the engine installs no handler: that is the host's business).
//
//   supervisor 'npm run dev' 'while sleep 1; do date; done'
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "errand/engine.h"

namespace {

volatile std::sig_atomic_t interrupted = 0;

void print(const std::string& id, std::string_view text) {
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(end)) {
    end = text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1;
    const std::string_view line = text.substr(0, end);
    std::printf("%s| %.*s%s", id.c_str(), static_cast<int>(end), line.data(), line.ends_with('\n') ? "" : "\n");
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::signal(SIGINT, [](int) { interrupted = 1; });
  errand::Engine engine(errand::EngineConfig{});
  std::map<std::string, std::uint64_t> cursors;  // by id, of what runs: up to where its output has been printed
  std::map<std::string, int> starts;             // by command
  const auto start = [&](const std::string& command) {
    const auto result = engine.launch({command});
    if (const auto* task = std::get_if<errand::Launched>(&result)) cursors[task->id] = 0;
    ++starts[command];
  };
  for (int i = 1; i < count; ++i) start(arguments[i]);

  while (!cursors.empty() && interrupted == 0) {
    for (auto next = cursors.begin(); next != cursors.end();) {
      const auto current = next++;
      const errand::TaskSnapshot task = engine.get(current->first);  // before the read: then nothing comes after it
      const auto news = engine.read(current->first, current->second);
      if (news->dropped > 0) std::printf("%s| (a flood: bytes left out)\n", task->id.c_str());
      print(task->id, news->text);
      current->second = news->next_cursor;
      if (task->status == errand::TaskStatus::running) continue;
      print(task->id, news->unfinished);
      std::printf("%s %s\n", task->id.c_str(), errand::ending_text(*task).c_str());
      cursors.erase(current);
      if (task->status == errand::TaskStatus::failed && starts[task->command] < 2) start(task->command);
    }
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;  // the engine ends what runs
}
