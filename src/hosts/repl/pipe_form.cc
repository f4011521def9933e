// SPDX-License-Identifier: Apache-2.0
#include "repl/pipe_form.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "repl/core.h"
#include "terminal/text.h"
#include "terminal/tty.h"

namespace errand::repl {
namespace {

constexpr std::int64_t typist_pause_ms = 1200;

// Waits for a slow reader, but not past a signal: what a stalled one has not taken by then is lost.
class PipeOutput : public Output {
 public:
  explicit PipeOutput(int signal_descriptor) : signal_descriptor_(signal_descriptor) {}
  bool broken() const { return broken_; }

 protected:
  void put(std::string_view text) override {
    while (!text.empty() && !broken_) {
      std::array<pollfd, 2> polled{{{STDOUT_FILENO, POLLOUT, 0}, {signal_descriptor_, POLLIN, 0}}};
      if (::poll(polled.data(), polled.size(), -1) < 0) continue;
      if (polled[0].revents == 0) return;
      // No more than a pipe that is ready takes without blocking.
      const ssize_t put = ::write(STDOUT_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
      if (put > 0) {
        text.remove_prefix(static_cast<std::size_t>(put));
      } else if (put < 0 && errno != EINTR && errno != EAGAIN) {
        broken_ = true;
      }
    }
  }

 private:
  int signal_descriptor_;
  bool broken_ = false;
};

class PipeForm : public Core::Form {
 public:
  explicit PipeForm(ReplOptions& options)
      : typist_(options.typist), wait_limit_ms_(options.wait_limit.count()), core_(options, output_, *this) {
    for (const std::string& line : options.banner) output_.line(line);
  }

  int run() {
    while (!result_) {
      core_.pump();
      if (output_.broken()) return finish(1);
      if (const int signal = signals_.next()) return finish(128 + signal);
      if (core_.idle()) {
        core_.pump();  // the last events of a turn precede its idleness
        if (step()) continue;
      }
      if (!result_) limit_waits();
      if (!result_) wait();
    }
    return finish(*result_);
  }

  // With can_ask off the session decides alone; a question that comes all the same is denied.
  void asked(const event::PermissionAsked& question) override {
    core_.session().answer(question.ask_id, Answer::no, "nobody can be asked: standard input is no terminal");
  }
  void withdrawn(std::uint64_t) override {}
  void queued(const std::vector<std::string>&) override {}
  void returned(const std::vector<std::string>& texts) override {
    for (const std::string& text : texts) output_.line("(dropped: " + terminal::plain_text(text) + ")");
  }

 private:
  // What an idle REPL does next; false when there is nothing to do but wait.
  bool step() {
    if (typist_) return type();
    const std::size_t newline = input_.find('\n');
    if (newline != std::string::npos || (at_end_ && !input_.empty())) {
      const std::string line = input_.substr(0, newline);
      input_.erase(0, newline == std::string::npos ? newline : newline + 1);
      enter(line);
      return true;
    }
    if (at_end_) return end_of_input();
    return false;
  }

  bool type() {
    if (!next_line_) {
      next_line_ = typist_->next(core_.session());
      if (!next_line_) return false;
      type_at_ms_ = monotonic_ms() + typist_pause_ms;
    }
    if (monotonic_ms() < type_at_ms_) return false;
    const std::string line = *std::exchange(next_line_, std::nullopt);
    output_.line("> " + line);
    enter(line);
    return true;
  }

  void enter(const std::string& line) {
    if (core_.enter(line) == Core::Next::quit) result_ = 0;
  }

  bool end_of_input() {
    if (core_.session().finished(true)) {
      result_ = 0;
      return true;
    }
    const std::int64_t now = monotonic_ms();
    if (!give_up_at_ms_) give_up_at_ms_ = now + wait_limit_ms_;
    if (now < *give_up_at_ms_) return false;
    for (const TaskSnapshot& task : core_.living_tasks())
      std::fprintf(stderr, "errand: %s: stopped: still running %lld s after the end of the input: %s\n",
                   task->id.c_str(), static_cast<long long>(wait_limit_ms_ / 1000),
                   short_command(task->command).c_str());
    result_ = 1;
    return true;
  }

  // What waits for a task may wait for something that never happens.
  void limit_waits() {
    if (!core_.only_waits()) return waits_until_ms_.reset();
    if (!waits_until_ms_) waits_until_ms_ = monotonic_ms() + wait_limit_ms_;
    if (monotonic_ms() < *waits_until_ms_) return;
    waits_until_ms_ = monotonic_ms() + std::max<std::int64_t>(wait_limit_ms_, 1000);
    if (!core_.interrupt_waits()) return;
    std::fprintf(stderr, "errand: /bg: ended: nothing came for which it could end within %lld s\n",
                 static_cast<long long>(wait_limit_ms_ / 1000));
  }

  void wait() {
    const bool reads = !typist_ && !at_end_ && input_.find('\n') == std::string::npos;
    // stdout is watched for the reader's going away, which is only reported as an error.
    std::array<pollfd, 5> polled{{{reads ? STDIN_FILENO : -1, POLLIN, 0},
                                  {signals_.descriptor(), POLLIN, 0},
                                  {core_.events_descriptor(), POLLIN, 0},
                                  {core_.jobs_descriptor(), POLLIN, 0},
                                  {STDOUT_FILENO, 0, 0}}};
    ::poll(polled.data(), polled.size(), timeout());
    if (polled[4].revents & POLLERR) result_ = 1;
    if (polled[0].revents == 0) return;
    std::array<char, 65536> buffer{};
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) {
      input_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      at_end_ = true;
    }
  }

  int timeout() const {
    std::int64_t until = -1;
    if (next_line_) until = type_at_ms_;
    for (const auto& time : {give_up_at_ms_, waits_until_ms_}) {
      if (time) until = until < 0 ? *time : std::min(until, *time);
    }
    if (typist_ && !next_line_) return 50;  // a typist may wait for anything
    return until < 0 ? -1 : static_cast<int>(std::clamp<std::int64_t>(until - monotonic_ms(), 0, 60'000));
  }

  int finish(int code) {
    core_.pump();
    const std::vector<std::string> left = core_.close();
    core_.pump();
    output_.end_line();
    for (const std::string& line : left) std::fprintf(stderr, "%s\n", line.c_str());
    return code;
  }

  Typist* typist_;
  std::int64_t wait_limit_ms_;
  terminal::SignalPipe signals_{terminal::SignalPipe::For::ending};
  PipeOutput output_{signals_.descriptor()};
  std::string input_;
  bool at_end_ = false;
  std::optional<std::string> next_line_;
  std::int64_t type_at_ms_ = 0;
  std::optional<std::int64_t> give_up_at_ms_;
  std::optional<std::int64_t> waits_until_ms_;
  std::optional<int> result_;
  Core core_;
};

}  // namespace

int run_on_pipe(ReplOptions options) {
  options.session.can_ask = false;
  return PipeForm(options).run();
}

}  // namespace errand::repl
