// SPDX-License-Identifier: Apache-2.0
#include "engine/waiter.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/line_pattern.h"
#include "engine/output.h"
#include "engine/paced_pattern.h"
#include "engine/task_text.h"
#include "engine/wake.h"

namespace errand {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Kind = WaitUntil::Kind;
using Came = WaitAnswer::Outcome;

// The output ends a moment before the task does: an answer that names the ending is worth so much patience.
constexpr milliseconds kEndPatience{250};
// A waiting thread looks at lines so long before it looks at the time again.
constexpr milliseconds kAsideFor{20};

// Finds the first line that matches, on the reader loop.
class Seeker : public LineListener {
 public:
  Seeker(std::shared_ptr<const LinePattern> pattern, std::shared_ptr<Wake> wake)
      : pattern_(std::move(pattern)), wake_(std::move(wake)) {}

  void on_line(std::string_view text) override { seek(text); }
  void on_unfinished(std::string_view text) override { seek(text); }
  void on_end() override {
    ended_ = true;
    wake_->set();
  }

  bool ended() const { return ended_; }
  std::optional<std::string> found() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return line_;
  }
  // On the waiting thread: the lines of a slow pattern, for a moment. True when there are more.
  bool look_aside() EXCLUDES(mutex_) {
    const auto until = steady_clock::now() + kAsideFor;
    std::optional<std::string> match;
    while (!found() && pattern_.look_aside(match)) {
      if (match) tell(*match);
      if (steady_clock::now() >= until) return !found();
    }
    return false;
  }
  std::uint64_t take_passed_over() { return pattern_.take_passed_over(); }

 private:
  void seek(std::string_view text) EXCLUDES(mutex_) {
    if (done_) return;
    const auto found = pattern_.look(text);
    if (found == PacedPattern::Found::no) return;
    if (found == PacedPattern::Found::later) return wake_->set();
    done_ = true;
    tell(text);
  }
  void tell(std::string_view text) EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      line_ = text;
    }
    wake_->set();
  }

  PacedPattern pattern_;
  const std::shared_ptr<Wake> wake_;
  std::atomic<bool> ended_ = false;
  bool done_ = false;  // the reader loop's and, before it, the replay's
  mutable Mutex mutex_;
  std::optional<std::string> line_ GUARDED_BY(mutex_);
};

// One task of a wait, with what must be undone at its end.
class Target {
 public:
  Target(TaskTable& table, const std::string& id, std::shared_ptr<Wake> wake) : table_(table), wake_(std::move(wake)) {
    answer_.id = id;
    serial_ = table_.subscribe(id, wake_);
    if (serial_ == 0) answer_.outcome = Came::unknown_task;
  }
  ~Target() {
    if (seeker_) output_->unlisten(seeker_.get());
    if (serial_ != 0) table_.unsubscribe(serial_, wake_.get());
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  void seek(const std::shared_ptr<const LinePattern>& pattern) {
    const TaskTable::Look look = table_.look(serial_);
    if (!look.output || !can_be_waited_for(look.task->kind, Kind::pattern)) return;
    output_ = look.output;
    seeker_ = std::make_shared<Seeker>(pattern, wake_);
    output_->listen(seeker_);
  }

  // Looks whether it has happened, or can no longer. `ports`: it is time to look at ports again.
  void judge(const WaitUntil& until, bool ports, const LookAtPort& look_at_port);
  // What it would be woken for if nobody does: silence, or the end that follows the output's end.
  std::optional<steady_clock::time_point> alarm() const { return alarm_; }

  bool settled() const { return answer_.outcome != Came::pending; }
  const WaitAnswer& answer() const { return answer_; }
  WaitAnswer take(bool look_again) {
    if (serial_ != 0 && (look_again || !answer_.task)) {
      if (TaskTable::Look look = table_.look(serial_); look.task) answer_.task = std::move(look.task);
    }
    return std::move(answer_);
  }

 private:
  void settle(Came outcome, TaskSnapshot task) {
    answer_.outcome = outcome;
    answer_.task = std::move(task);
    alarm_.reset();
  }
  void judge_pattern(const TaskTable::Look& look);
  void judge_port(const TaskTable::Look& look, std::uint16_t port, const LookAtPort& look_at_port);
  void judge_quiet(const TaskTable::Look& look, milliseconds quiet);

  TaskTable& table_;
  const std::shared_ptr<Wake> wake_;
  Serial serial_ = 0;
  WaitAnswer answer_;
  std::optional<steady_clock::time_point> alarm_;
  std::shared_ptr<Output> output_;
  std::shared_ptr<Seeker> seeker_;
  std::optional<steady_clock::time_point> patience_;  // until here the task's end may follow its output's
  int port_looks_ = 0;
  bool stranger_at_start_ = false;
};

void Target::judge(const WaitUntil& until, bool ports, const LookAtPort& look_at_port) {
  if (settled()) return;
  alarm_.reset();
  const TaskTable::Look look = table_.look(serial_);
  if (!look.task) {  // a foreground command that was forgotten meanwhile
    answer_.outcome = Came::unknown_task;
    return;
  }
  if (!can_be_waited_for(look.task->kind, until.kind)) return settle(Came::exit_only, look.task);
  switch (until.kind) {
    case Kind::exit:
      if (look.ended) settle(Came::ended, look.task);
      break;
    case Kind::pattern:
      judge_pattern(look);
      break;
    case Kind::port:
      if (ports || look.tree_gone) judge_port(look, until.port, look_at_port);
      break;
    case Kind::quiet:
      judge_quiet(look, until.quiet);
      break;
  }
}

void Target::judge_pattern(const TaskTable::Look& look) {
  // Whether it has ended is asked first: the end may come with the match.
  const bool ended = !seeker_ || seeker_->ended() || (look.closed && look.ended);
  const bool more = seeker_ && seeker_->look_aside();
  if (seeker_) answer_.passed_over += seeker_->take_passed_over();
  if (auto line = seeker_ ? seeker_->found() : std::nullopt) {
    answer_.line = *std::move(line);
    return settle(Came::matched, look.task);
  }
  const auto now = steady_clock::now();
  if (more) alarm_ = now;
  if (more || !ended) return;
  if (!patience_) patience_ = now + kEndPatience;
  if (look.ended || now >= *patience_) return settle(Came::no_match_possible, look.task);
  alarm_ = patience_;
}

void Target::judge_port(const TaskTable::Look& look, std::uint16_t port, const LookAtPort& look_at_port) {
  if (look.tree_gone || (look.closed && look.ended)) return settle(Came::no_port_possible, look.task);
  if (look.keeper == 0) return;  // it is being started
  const PortState state = look_at_port(look.keeper, port);
  ++port_looks_;
  answer_.port_stranger = state == PortState::stranger;
  if (state == PortState::own) return settle(Came::port_open, look.task);
  if (state == PortState::unknown) return settle(Came::port_owner_unknown, look.task);
  // Seen twice: between two looks at /proc a socket may have passed from a process to its child.
  if (port_looks_ == 1) stranger_at_start_ = answer_.port_stranger;
  if (port_looks_ == 2 && stranger_at_start_ && answer_.port_stranger) settle(Came::port_held, look.task);
}

void Target::judge_quiet(const TaskTable::Look& look, milliseconds quiet) {
  const milliseconds silent(look.task->last_output_age_ms.value_or(look.age_ms));
  if (silent >= quiet) return settle(Came::quiet, look.task);
  if (look.ended && (!look.output_open || look.closed)) return settle(Came::ended, look.task);
  alarm_ = deadline_after(quiet - silent);
}

std::optional<std::string> fault_of(const WaitRequest& request) {
  if (request.ids.empty()) return "no task is named";
  if (request.until.kind == Kind::port && request.until.port == 0) return "port 0 cannot be waited for";
  if (request.until.kind == Kind::quiet && request.until.quiet <= milliseconds(0)) {
    return "the time to be quiet for must be more than 0";
  }
  return std::nullopt;
}

std::optional<WaitResult::End> end_of(const std::vector<std::unique_ptr<Target>>& targets, WaitMode mode) {
  std::size_t happened = 0, impossible = 0;
  for (const auto& target : targets) {
    happened += target->answer().happened();
    impossible += target->answer().impossible();
  }
  const bool any = mode == WaitMode::any;
  if (any ? happened > 0 : happened == targets.size()) return WaitResult::End::happened;
  if (any ? impossible == targets.size() : impossible > 0) return WaitResult::End::impossible;
  return std::nullopt;
}

}  // namespace

bool PortClock::due(steady_clock::time_point now) {
  constexpr milliseconds kFast{100}, kSlow{500}, kFastFor{10'000};
  if (now < next_) return false;
  next_ = now + (now - start_ < kFastFor ? kFast : kSlow);
  return true;
}

bool can_be_waited_for(TaskKind task, Kind until) { return until == Kind::exit || task == TaskKind::shell; }

WaitResult wait_for_tasks(TaskTable& table, const WaitRequest& request, const std::stop_token& stop,
                          const LookAtPort& look_at_port) {
  WaitResult result;
  result.until = request.until;
  if (auto fault = fault_of(request)) {
    result.fault = *std::move(fault);
    return result;
  }
  std::shared_ptr<const LinePattern> pattern;
  if (request.until.kind == Kind::pattern) {
    auto compiled = LinePattern::compile(request.until.pattern);
    if (auto* fault = std::get_if<std::string>(&compiled)) {
      result.fault = std::move(*fault);
      return result;
    }
    pattern = std::make_shared<const LinePattern>(std::get<LinePattern>(std::move(compiled)));
  }

  const auto wake = std::make_shared<Wake>();
  std::vector<std::unique_ptr<Target>> targets;
  for (const std::string& id : request.ids) {
    targets.push_back(std::make_unique<Target>(table, id, wake));
    if (pattern) targets.back()->seek(pattern);
  }
  const std::stop_callback on_stop(stop, [&] { wake->set(); });
  const auto deadline = deadline_after(request.timeout);
  PortClock ports(steady_clock::now());
  for (;;) {
    const auto now = steady_clock::now();
    auto until = deadline;
    // The last look is at ports too, whatever their pace.
    const bool look_at_ports = request.until.kind == Kind::port && (ports.due(now) || now >= deadline);
    for (const auto& target : targets) {
      target->judge(request.until, look_at_ports, look_at_port);
      if (const auto alarm = target->alarm()) until = std::min(until, *alarm);
    }
    if (const auto end = end_of(targets, request.mode)) {
      result.end = *end;
      break;
    }
    if (stop.stop_requested()) {
      result.end = WaitResult::End::stopped;
      break;
    }
    if (now >= deadline) {
      result.end = WaitResult::End::timed_out;
      break;
    }
    if (request.until.kind == Kind::port) until = std::min(until, ports.next());
    wake->wait_until(until);
  }
  for (const auto& target : targets) result.answers.push_back(target->take(!target->settled()));
  return result;
}

namespace {

// "completed (exit code 0)", "still running"
std::string state_text(const WaitAnswer& answer) {
  if (!answer.task) return "no such task";
  return answer.task->status == TaskStatus::running ? "still running" : ending_text(*answer.task);
}

}  // namespace

std::string wait_text(const WaitResult& result, const WaitAnswer& answer) {
  const std::string port = "port " + std::to_string(result.until.port);
  const std::string passed_over =
      answer.passed_over == 0
          ? ""
          : "; the pattern was too slow for " + std::to_string(answer.passed_over) + " lines, which were passed over";
  const std::string stranger = port + " is held by a process that is not the task's";
  switch (answer.outcome) {
    case Came::ended:
      return state_text(answer);
    case Came::matched:
      return "matched: " + answer.line;
    case Came::port_open:
      return port + " open, by one of its processes";
    case Came::port_owner_unknown:
      return "port open, owner unknown";
    case Came::quiet:
      return "quiet for " + seconds_text(result.until.quiet);
    case Came::no_match_possible:
      return "no match: its output has ended; " + state_text(answer) + passed_over;
    case Came::no_port_possible:
      return port + " not opened: none of its processes is left; " + state_text(answer);
    case Came::port_held:
      return port + " is already held by a process that is not the task's; " + state_text(answer);
    case Came::unknown_task:
      return "no such task";
    case Came::exit_only:
      return "agents and workflows can be waited for until exit only";
    case Came::pending:
      break;
  }
  std::string text = state_text(answer);
  if (result.end == WaitResult::End::timed_out) text = "timed out, " + text;
  if (result.end == WaitResult::End::stopped) text = "the wait was ended, " + text;
  if (answer.port_stranger) text += "; " + stranger;
  return text + passed_over;
}

}  // namespace errand
