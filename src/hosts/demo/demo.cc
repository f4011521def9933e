// SPDX-License-Identifier: Apache-2.0
#include "demo/demo.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "demo/project.h"
#include "model/factory.h"
#include "repl/repl.h"

namespace errand::demo {
namespace {

constexpr std::int64_t step_limit_ms = 60'000;

volatile std::sig_atomic_t interrupted_by = 0;
void note_signal(int signal) { interrupted_by = signal; }

// The folder has to go whenever a signal comes, also before and after the REPL, which has handlers of its own.
class SignalsNoted {
 public:
  SignalsNoted() {
    struct sigaction action{};
    action.sa_handler = note_signal;
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &action, &before_[i]);
  }
  ~SignalsNoted() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before_[i], nullptr);
  }
  SignalsNoted(const SignalsNoted&) = delete;
  SignalsNoted& operator=(const SignalsNoted&) = delete;

 private:
  static constexpr std::array<int, 4> signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, signals.size()> before_{};
};

bool has_compiler() {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string folder(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    for (const char* name : {"/cc", "/gcc", "/clang"}) {
      if (::access((folder + name).c_str(), X_OK) == 0) return true;
    }
  }
  return false;
}

// The user's part. Each line is typed once the REPL is idle and what the line before it began has happened.
class Player : public repl::Typist {
 public:
  void observe(const event::HostEvent& event) override {
    if (const auto* tool = std::get_if<event::ToolBlockUpdated>(&event)) {
      if (!tool->result) return;
      const std::string& text = tool->result->text;
      const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
      if (tool->use.name == "background_bash" && has("Background task started: bg-1")) started_ = true;
      if (tool->use.name == "bash" && has("src/words.c") && has("TODO")) searched_ = true;
      if (tool->use.name == "bash" && has("hello from the dev server")) served_ = true;
      if (tool->use.name == "background_output" && has("Task bg-2 is RUNNING") && has("GET / ")) looked_at_ = true;
      if (tool->use.name == "background_stop" && has("Task bg-2 stopped")) stopped_ = true;
    } else if (const auto* notice = std::get_if<event::NotificationMessageAdded>(&event)) {
      if (notice->task_id == "bg-1") notified_ = true;
    } else if (const auto* ended = std::get_if<event::AssistantMessageEnded>(&event)) {
      for (const Block& block : ended->message.blocks) {
        const auto* text = std::get_if<TextBlock>(&block);
        if (text && notified_ && text->text.starts_with("All tests passed")) reported_ = true;
      }
    }
  }

  std::optional<std::string> next(Session& session) override {
    if (interrupted_by != 0) return "/quit";
    const Step& step = steps_[at_];
    if (!step.ready(session)) {
      const std::int64_t now = monotonic_ms();
      if (waiting_since_ms_ < 0) waiting_since_ms_ = now;
      if (now - waiting_since_ms_ < step_limit_ms) return std::nullopt;
      failure_ = step.expected;
      return "/quit";
    }
    waiting_since_ms_ = -1;
    if (at_ + 1 == steps_.size()) done_ = true;
    return steps_[done_ ? at_ : at_++].line;
  }

  // What did not happen; empty when all did.
  std::string failure() const {
    if (!failure_.empty()) return failure_;
    return done_ ? "" : "the conversation broke off";
  }

 private:
  struct Step {
    std::string line;
    std::string expected;
    std::function<bool(Session&)> ready;
  };

  static bool ended_as(Session& session, const char* id, TaskStatus status) {
    const TaskSnapshot task = session.engine().get(id);
    return task && task->status == status;
  }

  bool started_ = false, searched_ = false, notified_ = false, reported_ = false, served_ = false, looked_at_ = false,
       stopped_ = false, done_ = false;
  std::int64_t waiting_since_ms_ = -1;
  std::string failure_;
  std::size_t at_ = 0;
  const std::vector<Step> steps_{
      {"Run all the tests, and see whether there are TODOs in src meanwhile.", "", [](Session&) { return true; }},
      {"/bg", "the tests did not start, or grep found nothing", [this](Session&) { return started_ && searched_; }},
      {"/bg output bg-1", "", [](Session&) { return true; }},
      {"Start the dev server and look whether it answers.", "the end of the tests was not reported",
       [this](Session& session) { return reported_ && ended_as(session, "bg-1", TaskStatus::completed); }},
      {"/bg output bg-2", "the dev server did not answer", [this](Session&) { return served_ && looked_at_; }},
      {"Good, stop it.", "", [](Session&) { return true; }},
      {"/bg", "the dev server was not stopped",
       [this](Session& session) { return stopped_ && ended_as(session, "bg-2", TaskStatus::cancelled); }},
      {"/quit", "", [](Session&) { return true; }},
  };
};

int fail(const std::string& why) {
  std::fprintf(stderr, "errand: demo: %s\n", why.c_str());
  return 1;
}

}  // namespace

int run_demo(const std::string& version) {
  if (!has_compiler())
    return fail("no C compiler (cc, gcc or clang) in PATH; the demo builds a small project: install one, e.g. gcc");
  const SignalsNoted signals;
  std::string error;
  const TemporaryFolder folder(error);
  if (folder.path().empty()) return fail(error);
  const std::string project = folder.path() + "/words", script = folder.path() + "/demo.json";
  if (::mkdir(project.c_str(), 0755) != 0)
    return fail("cannot make folder \"" + project + "\": " + std::strerror(errno));
  if (error = write_project(project); !error.empty()) return fail(error);
  if (error = write_script(script); !error.empty()) return fail(error);

  repl::ReplOptions options;
  auto model = make_model("scripted:" + script);
  if (const auto* why = std::get_if<std::string>(&model)) return fail(*why);
  options.model = std::move(std::get<std::unique_ptr<Model>>(model));
  options.session.project_folder = project;
  options.session.state_home = folder.path() + "/state";
  options.session.allow = {"bash(sh run-tests.sh)", "bash(sh dev.sh)", "bash(sh get.sh *)", "bash(grep *)"};
  options.banner = {
      "errand " + version + " - demo",
      "Only the model is a script here: every command, process, output and notice below is real.",
      "No key and no network are used. The project, made for this in " + project + ", goes away at the end.",
      "The script's own commands were allowed beforehand; in your sessions you are asked. Ctrl+C leaves.",
      "",
  };
  Player player;
  options.typist = &player;
  const int code = repl::run_repl(std::move(options));
  if (interrupted_by != 0) return 128 + interrupted_by;
  if (code != 0) return code;
  return player.failure().empty() ? 0 : fail(player.failure());
}

}  // namespace errand::demo
