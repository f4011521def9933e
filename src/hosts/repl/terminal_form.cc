// SPDX-License-Identifier: Apache-2.0
#include "repl/terminal_form.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "repl/core.h"
#include "repl/pipe_form.h"
#include "terminal/keys.h"
#include "terminal/line_buffer.h"
#include "terminal/screen.h"
#include "terminal/text.h"
#include "terminal/tty.h"

namespace errand::repl {
namespace {

using terminal::Key;
using terminal::KeyCode;

constexpr std::string_view prompt = "> ";
constexpr std::int64_t escape_ms = 50;
constexpr std::int64_t quit_window_ms = 1000;
// A question takes the keys only after so long without one: what a hand typed before the eyes saw it is no answer.
constexpr std::int64_t typing_pause_ms = 500;
constexpr std::size_t max_unwritten = 256 * 1024;
// The demo's hand: before a line, between two characters, before Enter.
constexpr std::int64_t typist_pause_ms = 1200, typist_key_ms = 28, typist_enter_ms = 350;

// Complete lines go above the block, the unfinished rest is a part of it.
class ScreenOutput : public Output {
 public:
  explicit ScreenOutput(terminal::Screen& screen) : screen_(screen) {}
  const std::string& tail() const { return tail_; }

 protected:
  void put(std::string_view text) override {
    tail_ += text;
    const std::size_t newline = tail_.rfind('\n');
    if (newline == std::string::npos) return;
    std::string lines = tail_.substr(0, newline + 1);
    tail_.erase(0, newline + 1);
    // A tab moves the cursor without drawing: cells left as they were would show through.
    for (std::size_t at = 0; (at = lines.find('\t', at)) != std::string::npos;) lines.replace(at, 1, "    ");
    screen_.print(lines);
  }

 private:
  terminal::Screen& screen_;
  std::string tail_;
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string indented(std::string_view text, std::string_view first, std::string_view rest) {
  std::string all;
  for (const std::string& line : lines_of(text)) {
    all += all.empty() ? first : rest;
    all += line + '\n';
  }
  return all;
}

class TerminalForm : public Core::Form {
 public:
  TerminalForm(ReplOptions& options, terminal::Tty& tty)
      : typist_(options.typist),
        tty_(tty),
        screen_(tty.size().columns, tty.size().rows),
        output_(screen_),
        core_(options, output_, *this) {
    core_.transcript().set_user_mark(std::string(prompt));
    for (const std::string& line : options.banner) output_.line(line);
  }

  int run() {
    while (!result_) {
      if (screen_.pending_output().size() < max_unwritten) core_.pump();
      while (const int signal = signals_.next()) handle_signal(signal);
      if (escape_at_ms_ && now() >= *escape_at_ms_) {
        escape_at_ms_.reset();
        for (const Key& key : decoder_.flush()) handle(key);
      }
      if (hint_until_ms_ && now() >= *hint_until_ms_) clear_hint();
      if (typist_ && !result_) type();
      if (result_) break;
      draw();
      if (open_question()) draw();
      wait();
    }
    return finish();
  }

  void asked(const event::PermissionAsked& question) override {
    question_ = question;
    question_open_ = false;
    const PermissionQuery& query = question.query;
    std::string text =
        fmt::format("[Permission] {} asks: {}\n", terminal::plain_text(query.asker), terminal::plain_text(query.tool));
    text += indented(terminal::visible_text(query.subject), "    ", "    ");
    if (!query.folder.empty()) text += "  in " + terminal::visible_text(query.folder) + "\n";
    if (!question.decision.reason.empty()) text += "  " + terminal::plain_text(question.decision.reason) + "\n";
    text.pop_back();
    output_.line(text);
  }
  void withdrawn(std::uint64_t ask_id) override {
    if (question_ && question_->ask_id == ask_id) question_.reset();
  }
  void queued(const std::vector<std::string>& texts) override { queued_ = texts; }
  void returned(const std::vector<std::string>& texts) override {
    std::string text;
    for (const std::string& one : texts) text += one + '\n';
    text += line_.text();
    if (text.back() == '\n') text.pop_back();
    line_.set(text);
  }

 private:
  static std::int64_t now() { return monotonic_ms(); }

  bool asks() const { return quitting_ || question_open(); }
  bool question_open() const { return question_ && question_open_; }
  terminal::LineBuffer& edited() { return asks() ? answer_ : line_; }

  std::string prompt_text() const {
    if (quitting_) return "Quit and end them? [y/N] ";
    if (!question_open()) return std::string(prompt);
    std::string always;
    if (!question_->always_pattern.empty())
      always = ", a = always for " + terminal::visible_text(question_->always_pattern);
    return fmt::format("Allow? y = once{}, n [reason] = no: ", always);
  }

  void draw() {
    terminal::Block block;
    if (!output_.tail().empty()) block.lines.push_back(output_.tail());
    for (const std::string& text : queued_) {
      std::string shown = terminal::plain_text(text);
      shown = "(waiting) " + shown.substr(0, shown.find('\n'));
      block.lines.push_back(std::move(shown));
    }
    if (!hint_.empty()) block.lines.push_back(hint_);
    const std::string first = prompt_text();
    const std::string rest(asks() ? 0 : prompt.size(), ' ');
    std::size_t at = 0;
    const terminal::LineBuffer& line = edited();
    bool begin = true;
    for (std::string& text : lines_of(line.text())) {
      const std::string& mark = begin ? first : rest;
      if (line.cursor() >= at && line.cursor() <= at + text.size()) {
        block.cursor_line = block.lines.size();
        block.cursor_byte = mark.size() + line.cursor() - at;
      }
      at += text.size() + 1;
      block.lines.push_back(mark + text);
      begin = false;
    }
    screen_.set_block(std::move(block));
    const terminal::Tty::Size size = tty_.size();
    screen_.update(now(), size.columns, size.rows);
    if (!tty_.write(screen_.pending_output())) lost_terminal();
  }

  void wait() {
    const bool full = screen_.pending_output().size() >= max_unwritten;
    const bool unwritten = !screen_.pending_output().empty();
    std::array<pollfd, 5> polled{{{tty_.input(), POLLIN, 0},
                                  {signals_.descriptor(), POLLIN, 0},
                                  {full ? -1 : core_.events_descriptor(), POLLIN, 0},
                                  {full ? -1 : core_.jobs_descriptor(), POLLIN, 0},
                                  {unwritten ? tty_.output() : -1, POLLOUT, 0}}};
    ::poll(polled.data(), polled.size(), timeout());
    if (polled[0].revents != 0) read_keys();
  }

  void read_keys() {
    std::string bytes;
    if (tty_.read(bytes) == terminal::Tty::Read::closed) return lost_terminal();
    typed_at_ms_ = now();
    for (const Key& key : decoder_.feed(bytes)) {
      if (!result_) handle(key);
    }
    escape_at_ms_.reset();
    if (decoder_.waiting()) escape_at_ms_ = now() + escape_ms;
  }

  bool question_waits() { return question_ && !question_open_ && !quitting_ && screen_.pending_output().empty(); }

  // A question stands on the screen before it takes keys, and what was typed until then goes where it was meant to go.
  bool open_question() {
    if (!question_waits()) return false;
    pollfd keys{tty_.input(), POLLIN, 0};
    if (::poll(&keys, 1, 0) > 0) return false;  // comes first
    if (now() < typed_at_ms_ + typing_pause_ms) return false;
    question_open_ = true;
    answer_.set({});
    return true;
  }

  int timeout() {
    std::optional<std::int64_t> until;
    for (const std::optional<std::int64_t>& time : {escape_at_ms_, hint_until_ms_, screen_.deadline(), type_at_ms_}) {
      if (time && (!until || *time < *until)) until = time;
    }
    if (question_waits())
      until = std::min(until.value_or(typed_at_ms_ + typing_pause_ms), typed_at_ms_ + typing_pause_ms);
    if (typist_ && !type_at_ms_) until = std::min(until.value_or(now() + 50), now() + 50);
    return until ? static_cast<int>(std::clamp<std::int64_t>(*until - now(), 0, 60'000)) : -1;
  }

  void handle_signal(int signal) {
    switch (signal) {
      case SIGWINCH:
        screen_.resized(now());
        break;
      case SIGCONT:
        tty_.enter_raw();
        screen_.resized(now());
        break;
      case SIGINT:
        interrupt();
        break;
      default:
        result_ = 128 + signal;
        break;
    }
  }

  void handle(const Key& key) {
    if (typist_ && key.code != KeyCode::interrupt && key.code != KeyCode::end_of_input) return;
    if (key.code != KeyCode::interrupt) clear_hint();
    switch (key.code) {
      case KeyCode::enter:
        asks() ? answer() : submit();
        break;
      case KeyCode::interrupt:
        interrupt();
        break;
      case KeyCode::escape:
        if (quitting_) {
          quitting_ = false;
        } else {
          core_.session().abort();
        }
        break;
      case KeyCode::end_of_input:
        if (!edited().empty()) {
          edited().apply({KeyCode::remove, {}});
        } else if (quitting_ || typist_) {
          result_ = typist_ ? 130 : 0;
        } else {
          ask_to_quit();
        }
        break;
      case KeyCode::clear_screen:
        screen_.clear();
        break;
      case KeyCode::suspend:
        suspend();
        break;
      default:
        edited().apply(key);
        break;
    }
  }

  void submit() {
    const std::string line = line_.take();
    if (line.find_first_not_of(" \t\n") == std::string::npos) return;
    line_.remember(line);
    const bool command = line[0] == '/' || line[0] == '!';
    // A message that has to wait is shown as waiting, and here when its turn comes.
    if (command || core_.idle()) {
      std::string shown = indented(terminal::plain_text(line), prompt, "  ");
      shown.pop_back();
      if (output_.open_line()) {
        screen_.print(shown);  // above what is being streamed
      } else {
        output_.line(shown);
      }
      if (!command) core_.transcript().shown_already(std::string(trimmed(line)));
    }
    if (core_.enter(line) == Core::Next::quit) ask_to_quit();
  }

  void answer() {
    const std::string text = answer_.take();
    const std::string_view words = trimmed(text);
    // Only no takes a reason: "a test for that" is no answer, and surely not "always".
    const std::string_view word = words.substr(0, words.find_first_of(" ,"));
    const auto is = [&](std::string_view one, std::string_view other) { return words == one || words == other; };
    output_.line(prompt_text() + text);
    if (quitting_) {
      quitting_ = false;
      if (is("y", "yes") || words == "Y") result_ = 0;
      return;
    }
    Answer decision = Answer::no;
    std::string reason;
    if (is("y", "yes")) {
      decision = Answer::once;
    } else if (is("a", "always") && !question_->always_pattern.empty()) {
      decision = Answer::always;
    } else if (word == "n" || word == "no") {
      const std::size_t from = words.find_first_not_of(" ,", word.size());
      if (from != std::string_view::npos) reason = words.substr(from);
    } else {
      return hint("Please answer y, a or n.");
    }
    const std::uint64_t id = question_->ask_id;
    question_.reset();
    core_.session().answer(id, decision, std::move(reason));
  }

  void interrupt() {
    const std::int64_t since = now() - interrupted_at_ms_;
    interrupted_at_ms_ = now();
    clear_hint();
    if (typist_) {
      result_ = 130;
      return;
    }
    if (quitting_) {
      result_ = 0;
      return;
    }
    if (core_.session().abort() || core_.interrupt_waits()) return;
    if (!line_.empty()) {
      line_.set({});
      return;
    }
    if (since <= quit_window_ms && core_.idle()) return ask_to_quit();
    hint("(Ctrl+C again to quit)");
  }

  void ask_to_quit() {
    const std::vector<TaskSnapshot> tasks = core_.living_tasks();
    if (tasks.empty()) {
      result_ = 0;
      return;
    }
    std::string text = fmt::format("{} background task{} {} running and will end with the session:", tasks.size(),
                                   tasks.size() == 1 ? "" : "s", tasks.size() == 1 ? "is" : "are");
    for (const TaskSnapshot& task : tasks) text += fmt::format("\n  {}  {}", task->id, short_command(task->command));
    if (output_.open_line()) {
      screen_.print(text);
    } else {
      output_.line(text);
    }
    answer_.set({});
    quitting_ = true;
  }

  void hint(std::string text) {
    hint_ = std::move(text);
    hint_until_ms_ = now() + 2 * quit_window_ms;
  }
  void clear_hint() {
    hint_.clear();
    hint_until_ms_.reset();
  }

  void suspend() {
    screen_.leave(false);
    tty_.write_all(screen_.pending_output(), 500);
    tty_.leave_raw();
    // Only this process: its helpers may share its group and have to go on.
    ::kill(::getpid(), SIGTSTP);
    tty_.enter_raw();
  }

  // One key of the typist, when its time has come.
  void type() {
    if (!typed_) {
      if (!core_.idle() || asks()) return;
      core_.pump();
      typed_ = typist_->next(core_.session());
      if (!typed_) return;
      type_at_ms_ = now() + typist_pause_ms;
    }
    if (now() < *type_at_ms_) return;
    if (typed_->empty()) {
      typed_.reset();
      type_at_ms_.reset();
      if (line_.text() == "/quit") {
        output_.line(std::string(prompt) + line_.take());
        result_ = 0;
      } else {
        submit();
      }
      return;
    }
    const std::size_t length = terminal::cluster_length(*typed_);
    line_.insert(typed_->substr(0, length));
    typed_->erase(0, length);
    type_at_ms_ = now() + (typed_->empty() ? typist_enter_ms : typist_key_ms);
  }

  void lost_terminal() { result_ = 128 + SIGHUP; }

  int finish() {
    const std::size_t tasks = core_.living_tasks().size();
    output_.end_line();
    terminal::Block block;
    if (tasks > 0) block.lines.push_back(fmt::format("(ending {} task{} ...)", tasks, tasks == 1 ? "" : "s"));
    screen_.set_block(std::move(block));
    const terminal::Tty::Size size = tty_.size();
    screen_.update(now(), size.columns, size.rows);
    tty_.write_all(screen_.pending_output(), 500);
    const std::vector<std::string> left = core_.close();
    core_.pump();
    screen_.leave(false);
    tty_.write_all(screen_.pending_output(), 500);
    tty_.leave_raw();
    for (const std::string& line : left) std::fprintf(stderr, "%s\n", line.c_str());
    return *result_;
  }

  Typist* typist_;
  terminal::Tty& tty_;
  terminal::SignalPipe signals_{terminal::SignalPipe::For::terminal};
  terminal::KeyDecoder decoder_;
  terminal::LineBuffer line_, answer_;
  terminal::Screen screen_;
  ScreenOutput output_;
  std::optional<event::PermissionAsked> question_;
  bool question_open_ = false;
  bool quitting_ = false;
  std::vector<std::string> queued_;
  std::string hint_;
  std::int64_t typed_at_ms_ = -typing_pause_ms;
  std::int64_t interrupted_at_ms_ = -2 * quit_window_ms;
  std::optional<std::int64_t> hint_until_ms_, escape_at_ms_, type_at_ms_;
  std::optional<std::string> typed_;  // what the typist has yet to type of its line
  std::optional<int> result_;
  Core core_;
};

}  // namespace

bool terminal_is_usable() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO) && term && *term && std::string_view(term) != "dumb";
}

int run_in_terminal(ReplOptions options) {
  std::string error;
  std::optional<terminal::Tty> tty = terminal::Tty::open(STDIN_FILENO, STDOUT_FILENO, error);
  if (!tty) return run_on_pipe(std::move(options));
  return TerminalForm(options, *tty).run();
}

int run_repl(ReplOptions options) {
  return terminal_is_usable() ? run_in_terminal(std::move(options)) : run_on_pipe(std::move(options));
}

}  // namespace errand::repl
