// SPDX-License-Identifier: Apache-2.0
// All tasks of an engine: ids, slots, the states and who waits for them. Knows no process and no descriptor: it is told
// what happened and says what follows. One mutex guards it all, so a reader never sees a state without its
// notification, or a slot that is free before the state says so.
//
// Inside, a task is named by its serial, which it has from the beginning; "bg-N" and "fg-N" are for the outside, and a
// foreground command gets the former only when it is adopted.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/thread_annotations.h"
#include "engine/output.h"
#include "engine/task_state.h"
#include "engine/wake.h"
#include "errand/engine.h"

namespace errand {

using Serial = std::uint64_t;

// The time `wait` from now; a wait for ever does not overflow the clock.
std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds wait);

// How a task ended; becomes part of its record at the publication.
struct Outcome {
  TaskStatus status = TaskStatus::completed;
  EndCause cause = EndCause::none;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<std::string> error;
};

Outcome outcome_of_wait_status(int status);
Outcome outcome_of_failure(EndCause cause, std::string error);

class TaskTable {
 public:
  using MakeOutput = std::function<std::shared_ptr<Output>(const std::string& id)>;

  TaskTable(const EngineConfig& config, NotificationQueue& notifications, Clocks clocks = {});

  // --- starting ---
  struct Opened {
    Serial serial = 0;
    TaskSnapshot snapshot;
    std::shared_ptr<Output> output;
  };
  // Takes a slot and an id, or says why not. Until end_launch() the task's end is not announced.
  std::variant<Opened, Rejected> open(const LaunchRequest& request, bool foreground, const MakeOutput& make_output)
      EXCLUDES(mutex_);
  // False when it was ended before it could be started: nothing is to be started then.
  bool begin_start(Serial serial) EXCLUDES(mutex_);
  // The launching thread is done with it. True when its end is to be announced now.
  bool end_launch(Serial serial) EXCLUDES(mutex_);

  // --- events ---
  struct Applied {
    TaskAction action = TaskAction::none;
    bool stop_wanted = false;  // the tree is to be ended, by this or an earlier event
  };
  // `survivors` matter for a publication only.
  Applied apply(Serial serial, TaskEvent event, const Outcome& outcome = {}, std::vector<ProcessInfo> survivors = {})
      EXCLUDES(mutex_);
  void keeper_started(Serial serial, pid_t keeper) EXCLUDES(mutex_);
  // True when somebody asked for the tree to be ended before there was one to tell.
  bool stop_wanted(Serial serial) const EXCLUDES(mutex_);
  // A stop has come to its end: `live` processes were alive when it began, these are left.
  void stop_done(Serial serial, int live, std::vector<LeftProcess> left) EXCLUDES(mutex_);
  // No process of it is left. The snapshot when listeners are to hear of it.
  TaskSnapshot tree_gone(Serial serial) EXCLUDES(mutex_);
  void output_ended(Serial serial) EXCLUDES(mutex_);
  // What is known of its processes' use; a figure that is lower than the one before changes nothing.
  void add_usage(Serial serial, double cpu_seconds, std::uint64_t rss_bytes) EXCLUDES(mutex_);
  // The survivors of an ended task are others than before. The snapshot when listeners are to hear of it.
  TaskSnapshot set_survivors(Serial serial, std::vector<ProcessInfo> processes) EXCLUDES(mutex_);

  // What is to be announced of an ended task, once.
  struct Announcement {
    TaskSnapshot snapshot;
    bool started = false;  // on_task_started is due too: it was adopted at its end
  };
  std::optional<Announcement> take_announcement(Serial serial) EXCLUDES(mutex_);
  void announced(Serial serial) EXCLUDES(mutex_);

  // --- foreground commands ---
  // Their numbers go on from `number`, whose file exists.
  void skip_foreground(std::uint64_t number) EXCLUDES(mutex_);
  struct Adoption {
    std::string id;
    Serial serial = 0;
    TaskSnapshot snapshot;  // null: it had been adopted before
    std::shared_ptr<Output> output;
  };
  // Gives it a bg-N. Its end is not announced before end_launch().
  std::optional<Adoption> adopt(std::string_view foreground_id) EXCLUDES(mutex_);
  // The same at its end, for survivors: announced with the end, and without a notification. Nothing when it has an id.
  std::optional<Adoption> adopt_at_end(Serial serial) EXCLUDES(mutex_);
  // The output of the forgotten command, or null.
  std::shared_ptr<Output> forget(std::string_view foreground_id) EXCLUDES(mutex_);

  // --- reading ---
  TaskSnapshot get(std::string_view id) const EXCLUDES(mutex_);
  std::vector<TaskSnapshot> list(std::string_view owner) const EXCLUDES(mutex_);
  std::shared_ptr<Output> output(std::string_view id) const EXCLUDES(mutex_);
  int running_count() const EXCLUDES(mutex_);
  struct Tree {
    Serial serial = 0;
    pid_t keeper = 0;  // 0: it has none
  };
  std::optional<Tree> tree(std::string_view id) const EXCLUDES(mutex_);
  std::string token(Serial serial) const EXCLUDES(mutex_);

  // --- stopping and waiting ---
  struct Cancelled {
    Serial serial = 0;       // 0: unknown
    bool moved = false;      // RUNNING -> CANCELLED, by this call
    bool post_stop = false;  // the supervisor is to end the tree
  };
  // Waits for the publication when the outcome has been decided already; `may_wait` false: leaves it to the supervisor.
  Cancelled cancel(std::string_view id, bool may_wait) EXCLUDES(mutex_);
  // Waits until the stop in progress has come to its end.
  StopReport wait_stopped(Serial serial, const Cancelled& cancelled, std::chrono::milliseconds at_most) const
      EXCLUDES(mutex_);
  TaskSnapshot wait_end(std::string_view id, std::chrono::milliseconds timeout, const std::stop_token& stop) const
      EXCLUDES(mutex_);

  // What a wait goes by. The task is null for an unknown serial.
  struct Look {
    TaskSnapshot task;
    std::shared_ptr<Output> output;
    bool ended = false;        // published
    bool output_open = false;  // somebody holds the pipe
    bool tree_gone = false;    // none of its processes is left, and none can come
    bool closed = false;       // the engine is being closed
    pid_t keeper = 0;
    std::int64_t age_ms = 0;  // since its start, also after its end
  };
  Look look(Serial serial) const EXCLUDES(mutex_);
  // From now on `wake` is set at every change of the task, until unsubscribe(). 0: unknown, nothing is subscribed.
  Serial subscribe(std::string_view id, std::shared_ptr<Wake> wake) EXCLUDES(mutex_);
  void unsubscribe(Serial serial, const Wake* wake) EXCLUDES(mutex_);
  // Of all tasks.
  std::size_t subscriptions() const EXCLUDES(mutex_);

  // Refuses launches from now on and ends all that runs. The serials that the supervisor is to announce and stop.
  std::vector<Serial> close() EXCLUDES(mutex_);
  // Waits until no tree lives and every end has been announced. What is left.
  std::vector<LeftProcess> wait_closed(std::chrono::milliseconds at_most) const EXCLUDES(mutex_);

 private:
  enum class TreeState { none, alive, gone };
  struct Entry {
    Serial serial = 0;
    TaskRecord record;
    TaskPhase phase = TaskPhase::running;
    Outcome outcome;  // valid from `decided` on
    bool foreground = false;
    bool adopted = false;
    bool adopted_at_end = false;
    std::uint64_t number = 0;  // N of bg-N
    std::string token;
    std::shared_ptr<Output> output;
    std::int64_t started_ms = 0;  // monotonic
    std::int64_t ended_ms = 0;
    bool launching = true;
    bool announced = false;  // taken for announcement
    bool announcement_done = false;
    TreeState tree = TreeState::none;
    pid_t keeper = 0;
    bool output_open = false;
    bool stopping = false;    // the tree is being ended
    bool stop_moved = false;  // by a stop that moved it from RUNNING
    int stop_live = 0;
    std::vector<LeftProcess> left;
    std::vector<std::shared_ptr<Wake>> subscribers;
    bool has_id() const { return !foreground || adopted; }
  };

  Entry* find(std::string_view id) REQUIRES(mutex_);
  const Entry* find(std::string_view id) const REQUIRES(mutex_);
  Entry* find(Serial serial) REQUIRES(mutex_);
  const Entry* find(Serial serial) const REQUIRES(mutex_);
  std::optional<Rejected> refusal(const LaunchRequest& request, bool foreground) const REQUIRES(mutex_);
  void give_id(Entry& entry) REQUIRES(mutex_);
  // What `event` does; true when a notification was appended.
  bool step(Entry& entry, TaskEvent event, const Outcome& outcome, std::vector<ProcessInfo> survivors,
            TaskAction& action) REQUIRES(mutex_);
  void decide(Entry& entry, const Outcome& outcome) REQUIRES(mutex_);
  bool publish(Entry& entry, std::vector<ProcessInfo> survivors) REQUIRES(mutex_);
  bool begin_stop(Entry& entry) REQUIRES(mutex_);
  void count_survivor(const Entry& entry) REQUIRES(mutex_);
  // Takes it out of live_ when nothing more will happen to it.
  void retire(const Entry& entry) REQUIRES(mutex_);
  TaskSnapshot snapshot(const Entry& entry) const REQUIRES(mutex_);
  // Whoever waits for it is to look again.
  void changed(const Entry& entry) REQUIRES(mutex_);

  const EngineConfig& config_;
  NotificationQueue& notifications_;
  const Clocks clocks_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool closed_ GUARDED_BY(mutex_) = false;
  Serial last_serial_ GUARDED_BY(mutex_) = 0;
  std::uint64_t last_number_ GUARDED_BY(mutex_);
  std::uint64_t last_foreground_ GUARDED_BY(mutex_) = 0;
  int running_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<Serial, std::unique_ptr<Entry>> entries_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, Serial> by_id_ GUARDED_BY(mutex_);
  std::map<std::uint64_t, Serial> by_number_ GUARDED_BY(mutex_);  // bg-N in order
  std::set<Serial> live_ GUARDED_BY(mutex_);                      // not wholly over: for close()
  std::set<std::uint64_t> survivors_ GUARDED_BY(mutex_);          // numbers of ended tasks with living processes
};

}  // namespace errand
