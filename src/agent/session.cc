// SPDX-License-Identifier: Apache-2.0
#include "agent/session.h"

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>

#include "agent/bang.h"
#include "agent/history.h"
#include "agent/journal.h"
#include "agent/permission_desk.h"
#include "agent/system_prompt.h"
#include "agent/task_recorder.h"
#include "agent/tool_runner.h"
#include "agent/turn.h"
#include "base/clock.h"
#include "base/thread_annotations.h"
#include "base/utf8.h"
#include "conversation/old_outputs.h"
#include "conversation/turn_queue.h"
#include "support/iso8601.h"
#include "support/paths.h"
#include "support/uuid.h"
#include "tools/registry.h"

namespace errand {

namespace {

constexpr std::int64_t kEndsPatienceMs = 2000;

}  // namespace

std::string_view no_model_text() {
  return "No model is configured. Set ANTHROPIC_API_KEY and start with: errand --model anthropic:NAME\n"
         "Without a key, a script can play the model: errand --model scripted:FILE. What needs no model works: see "
         "/help";
}

// Threads: the conversation's runs turns and `!cmd`s and alone touches the history; the recorder's writes the ends of
// tasks and hands their notices over; the engine's supervisor and the hosts call in. What they share is the TurnQueue,
// with its mutex. That mutex is never held around a call of the engine, whose listener takes locks of its own.
class Session::Impl {
 public:
  Impl(SessionOptions options, std::unique_ptr<Model> model)
      : options_(prepared(std::move(options), id_)),
        model_(std::move(model)),
        journal_(project_folder_in(options_.state_home, options_.project_folder),
                 {id_, options_.project_folder, model_ ? model_->name() : std::string(), wall_ms()}, events_),
        pipeline_(options_.permission_mode),
        queue_({.has_model = model_ != nullptr, .wake_for_user_tasks = options_.wake_for_user_tasks}),
        desk_(pipeline_, events_, options_.can_ask, [this](bool open) { question(open); }),
        history_(journal_, events_),
        recorder_(journal_, events_,
                  [this](auto notice, bool by_hand, std::int64_t ended_ms) {
                    take_notice(std::move(notice), by_hand, ended_ms);
                  }),
        engine_(engine_config(), &recorder_),
        context_{engine_} {
    context_.project_folder = options_.project_folder;
    context_.cwd = options_.project_folder;
    context_.session_folder = journal_.file().session_folder();
    context_.start_window_ms = options_.start_window_ms;
    register_builtin_tools(registry_);
    for (const std::string& pattern : options_.allow) report(pipeline_.add_allow(pattern));
    for (const std::string& pattern : options_.deny) report(pipeline_.add_deny(pattern));
    events_.push(event::SessionIdChange{id_});
    engine_.notifications().set_listener([this] { events_.push(event::UserNotificationsPending{}); });
    recorder_.begin(engine_);
    thread_ = std::thread([this] { converse(); });
  }

  ~Impl() { close(); }

  void submit(std::string text) {
    text = clean_utf8(text);
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return;
    if (!model_) {
      events_.push(event::NoticeAdded{std::string(no_model_text()), true});
      return;
    }
    enqueue([&](TurnQueue& queue) { queue.add_message(std::move(text)); });
  }

  void submit_bang(std::string command) {
    enqueue([&](TurnQueue& queue) { queue.add_bang(clean_utf8(command)); });
  }

  LaunchResult run_by_hand(std::string command) {
    journal_.open();
    const TaskRecorder::ByHand by_hand;
    LaunchRequest request;
    request.command = std::move(command);
    request.cwd = options_.project_folder;
    return engine_.launch(std::move(request));
  }

  bool abort() {
    // The source of the turn that runs now, and no other's: it is replaced under the lock only.
    std::stop_source stop(std::nostopstate);
    {
      const MutexLock lock(mutex_);
      if (closing_ || (queue_.state() == QueueState::running && queue_.aborted())) return false;
      bool was_active = false;
      std::vector<std::string> returned = queue_.abort(was_active, monotonic_ms());
      if (!was_active) return false;
      if (!returned.empty()) events_.push(event::QueueChange{});
      events_.push(event::TurnAborted{std::move(returned)});
      if (queue_.state() == QueueState::idle) {
        events_.push(event::Idle{});
        return true;
      }
      stop = turn_stop_;
    }
    stop.request_stop();
    changed_.notify_all();
    return true;
  }

  bool idle() const {
    const MutexLock lock(mutex_);
    return queue_.state() == QueueState::idle;
  }

  bool waits_for_tasks(bool by_hand) const {
    if (!by_hand && !model_) return false;
    return recorder_.has_open_tasks(by_hand || options_.wake_for_user_tasks);
  }

  bool finished(bool by_hand) const {
    // In this order: a task's notice is queued before the task stops counting as open, and a turn that starts a task
    // counts it before the turn ends. The second look catches the turn that began and ended between the first two.
    for (;;) {
      const std::uint64_t before = turns_ended();
      if (waits_for_tasks(by_hand) || !idle()) return false;
      if (turns_ended() == before) return true;
    }
  }

  CloseReport close() {
    const MutexLock once(close_mutex_);
    if (closed_) return close_report_;
    closed_ = true;
    std::stop_source stop(std::nostopstate);
    {
      const MutexLock lock(mutex_);
      closing_ = true;
      stop = turn_stop_;
    }
    stop.request_stop();
    changed_.notify_all();
    thread_.join();
    close_report_ = engine_.close();
    recorder_.finish();
    if (!options_.keep_outputs) remove_outputs(options_.engine.output_folder);
    return close_report_;
  }

  const std::string id_ = new_uuid();
  const SessionOptions options_;
  event::Queue events_;

 private:
  friend class Session;

  static SessionOptions prepared(SessionOptions options, const std::string& id) {
    std::string error;
    if (auto resolved = real_path(options.project_folder, error)) options.project_folder = std::move(*resolved);
    options.engine.output_folder = project_folder_in(options.state_home, options.project_folder) + "/" + id + "/tasks";
    if (!options.pass_keys) {
      for (const char* key : {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}) {
        options.engine.hidden_environment.emplace_back(key);
      }
    }
    return options;
  }
  EngineConfig engine_config() const { return options_.engine; }

  void report(const std::string& error) {
    if (!error.empty()) events_.push(event::NoticeAdded{error, true});
  }

  std::uint64_t turns_ended() const {
    const MutexLock lock(mutex_);
    return turns_ended_;
  }

  template <class Add>
  void enqueue(Add add) EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (closing_) return;
      const bool waits = queue_.state() == QueueState::running;
      add(queue_);
      if (waits) events_.push(event::QueueChange{queue_.queued()});
    }
    changed_.notify_all();
  }

  void question(bool open) {
    const MutexLock lock(mutex_);
    queue_.set_question_open(open);
  }

  void take_notice(std::optional<TaskNotificationBlock> notice, bool by_hand, std::int64_t ended_ms) {
    bool read = false;
    {
      const MutexLock lock(mutex_);
      recorder_.end_arrived();
      read = notice && !queue_.add_notice(*notice, by_hand, ended_ms);
    }
    changed_.notify_all();
    if (read) journal_.read(*notice);
  }

  void ends_shown(const std::vector<std::string>& task_ids) {
    std::vector<TaskNotificationBlock> read;
    {
      const MutexLock lock(mutex_);
      read = queue_.mark_shown(task_ids);
    }
    for (const TaskNotificationBlock& notice : read) journal_.read(notice);
  }

  struct Begun {
    TurnQueue::Turn turn;
    std::stop_token stop;
  };

  // The conversation's thread.
  void converse() {
    while (auto begun = next_turn()) {
      if (begun->turn.bang) {
        bang(*begun->turn.bang, begun->stop);
      } else {
        run(std::move(begun->turn), begun->stop);
      }
      if (begun->stop.stop_requested()) journal_.aborted();
      end_turn();
    }
  }

  // Waits for it; nothing when the session closes.
  std::optional<Begun> next_turn() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!closing_) {
      if (wait_for_ends()) continue;
      auto turn = queue_.begin(monotonic_ms());
      if (!turn) {
        wait(queue_.due());
        continue;
      }
      // One source a turn: an abort of this one can neither miss it nor reach the next.
      turn_stop_ = std::stop_source();
      events_.push(event::LoadingChange{true});
      if (turn->message || turn->bang) events_.push(event::QueueChange{queue_.queued()});
      return Begun{std::move(*turn), turn_stop_.get_token()};
    }
    return std::nullopt;
  }

  // Who sees that the session is idle finds all events of the turn in the queue: one lock for both.
  void end_turn() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++turns_ended_;
    events_.push(event::LoadingChange{false});
    queue_.end();
    if (queue_.state() == QueueState::idle) events_.push(event::Idle{});
  }

  // For a change, or until something is due.
  void wait(std::optional<std::int64_t> until_ms) REQUIRES(mutex_) {
    if (!until_ms) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_for(mutex_, std::chrono::milliseconds(std::max<std::int64_t>(0, *until_ms - monotonic_ms())));
    }
  }

  // A window that is over waits for the ends that came within it: a disk that is slow to record the second must not
  // part two tasks that ended together. Bounded, so that ends without end cannot hold a turn back; a message of the
  // user waits for none. True when it waited.
  bool wait_for_ends() REQUIRES(mutex_) {
    const auto due = queue_.due();
    const std::int64_t now = monotonic_ms();
    if (!due || *due > now || *due < now - kEndsPatienceMs || !recorder_.has_ends_underway()) return false;
    changed_.wait_for(mutex_, std::chrono::milliseconds(kEndsPatienceMs));
    return true;
  }

  void deliver(std::vector<TaskNotificationBlock> notices) {
    for (TaskNotificationBlock& notice : notices) history_.add_notification(std::move(notice));
  }

  void run(TurnQueue::Turn start, const std::stop_token& stop) {
    deliver(std::move(start.notices));
    if (start.message) history_.add_user({TextBlock{std::move(*start.message)}});
    if (system_.empty()) {
      system_ = system_prompt(options_.project_folder, to_iso8601(wall_ms()).substr(0, 10),
                              project_instructions(options_.project_folder));
    }
    ToolRunner tools(registry_, context_, desk_, events_);
    Turn turn(*model_, {system_, registry_.specs(), options_.max_steps, options_.max_tokens}, history_, tools, events_,
              [this](const std::vector<std::string>& ids) { ends_shown(ids); });
    while (turn.pass(stop) == Turn::Ending::done) {
      std::vector<TaskNotificationBlock> more = fold(stop);
      if (more.empty()) break;
      deliver(std::move(more));
    }
  }

  // What has come while the turn ran; waits out the window of the first of them.
  std::vector<TaskNotificationBlock> fold(const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    while (!closing_ && !stop.stop_requested()) {
      const auto due = queue_.due();
      if (!due) break;
      if (wait_for_ends()) continue;
      if (auto notices = queue_.fold(monotonic_ms()); !notices.empty()) return notices;
      wait(due);
    }
    return {};
  }

  void bang(const std::string& command, const std::stop_token& stop) {
    journal_.open();
    BangOutcome outcome = run_bang(engine_, command, options_.project_folder, stop,
                                   [this](std::string text) { events_.push(event::BangOutput{std::move(text)}); });
    if (!outcome.started) {
      events_.push(event::NoticeAdded{outcome.block.ending, true});
      return;
    }
    history_.add_user({std::move(outcome.block)});
    // The ending has told of it; a notification would say it again.
    if (!outcome.adopted_id.empty()) ends_shown({outcome.adopted_id});
  }

  std::unique_ptr<Model> model_;
  Journal journal_;
  PermissionPipeline pipeline_;

  mutable Mutex mutex_;
  CondVar changed_;
  TurnQueue queue_ GUARDED_BY(mutex_);
  std::stop_source turn_stop_ GUARDED_BY(mutex_){std::nostopstate};
  std::uint64_t turns_ended_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;

  PermissionDesk desk_;
  History history_;
  Registry registry_;
  std::string system_;
  TaskRecorder recorder_;
  Engine engine_;
  ToolContext context_;
  std::thread thread_;

  Mutex close_mutex_;
  bool closed_ GUARDED_BY(close_mutex_) = false;
  CloseReport close_report_ GUARDED_BY(close_mutex_);
};

Session::Session(SessionOptions options, std::unique_ptr<Model> model)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(model))) {}
Session::~Session() = default;

const std::string& Session::id() const { return impl_->id_; }
const std::string& Session::session_file() const { return impl_->journal_.file().path(); }
const SessionOptions& Session::options() const { return impl_->options_; }
Model* Session::model() const { return impl_->model_.get(); }
event::Queue& Session::events() { return impl_->events_; }
Engine& Session::engine() { return impl_->engine_; }
PermissionPipeline& Session::permissions() { return impl_->pipeline_; }

void Session::submit(std::string text) { impl_->submit(std::move(text)); }
void Session::submit_bang(std::string command) { impl_->submit_bang(std::move(command)); }
LaunchResult Session::run_by_hand(std::string command) { return impl_->run_by_hand(std::move(command)); }
StopReport Session::stop_task(const std::string& id) { return impl_->engine_.stop(id); }

bool Session::abort() { return impl_->abort(); }
void Session::answer(std::uint64_t ask_id, Answer answer, std::string reason) {
  impl_->desk_.answer(ask_id, answer, std::move(reason));
}

bool Session::idle() const { return impl_->idle(); }
bool Session::waits_for_tasks(bool by_hand) const { return impl_->waits_for_tasks(by_hand); }
bool Session::finished(bool by_hand) const { return impl_->finished(by_hand); }

CloseReport Session::close() { return impl_->close(); }

}  // namespace errand
