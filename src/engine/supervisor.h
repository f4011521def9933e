// SPDX-License-Identifier: Apache-2.0
// The thread that owns all process state: one epoll loop reads every task's output and every keeper's events, keeps the
// deadlines, ends trees, and announces ends. Other threads tell it things through its mailbox; it tells the table what
// happened. It never waits for a disk, a listener's lock or a process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/thread_annotations.h"
#include "engine/ended_outputs.h"
#include "engine/epoll.h"
#include "engine/file_writer.h"
#include "engine/launcher.h"
#include "engine/mailbox.h"
#include "engine/sampler.h"
#include "engine/task_table.h"
#include "engine/timers.h"
#include "engine/zygote_client.h"
#include "keeper/protocol.h"

namespace errand {

class Supervisor {
 public:
  Supervisor(const EngineConfig& config, TaskTable& table, EngineListener* listener, std::string keeper_path);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts the thread, unless it runs. Nothing, or why not.
  std::optional<StartError> start() EXCLUDES(start_mutex_);
  bool running() EXCLUDES(start_mutex_);
  // True on the supervisor's own thread, that is within a listener's call.
  bool on_own_thread() const { return std::this_thread::get_id() == thread_id_.load(); }

  ZygoteClient& zygotes() { return zygotes_; }
  // Before the keeper is told to start it: what happens from now on finds the task as soon as it is added. 0 or errno.
  int watch(Serial serial, int keeper, int pipe);
  void unwatch(int keeper, int pipe);
  // Takes over a task whose keeper was told to start it.
  void add(StartedTask task) { mailbox_->add(std::move(task)); }
  void announce(Serial serial) { mailbox_->post({MailboxMessage::Kind::announce, serial, nullptr}); }
  void stop_tree(Serial serial) { mailbox_->post({MailboxMessage::Kind::stop, serial, nullptr}); }
  // Calls the listener for an end, on the calling thread: for a supervisor that could not be started.
  void announce_here(Serial serial);
  // Somebody looks at the tasks: for some seconds the trees are sampled every second. `now`: at once, too.
  void somebody_looks(bool now = false);
  // A file that ends without ever having been read into.
  void enqueue_file(Serial serial, std::shared_ptr<Output> output) {
    mailbox_->post({MailboxMessage::Kind::enqueue_file, serial, std::move(output)});
  }

  // Ends the loop, lets the zygote go and waits for the files, at most for `files_ms`.
  void shut_down(std::int64_t files_ms) EXCLUDES(start_mutex_);

 private:
  // A task as the loop sees it, from the start message until pipe and keeper are closed.
  struct Live {
    StartedTask task;
    pid_t keeper_pid = 0;
    bool pipe_watched = true;
    bool printed = false;  // anything at all
    std::uint64_t read_bytes = 0;
    std::size_t pipe_size = 0;  // what it was made to hold; 0: as it came
    std::size_t wanted_pipe_size = 0;
    bool batching = false;           // the writer is told after the round
    bool file_due = false;           // and is to be
    bool heard = false;              // the keeper said something
    bool left_unread = false;        // it went without having read what it was told
    int new_starts = 0;              // for that
    bool ended_early = false;        // the pipe's end came before the keeper's first word
    bool empty = false;              // the keeper says that nothing is left
    bool none_left_at_exit = false;  // so did the shell's exit
    bool gone = false;               // the table knows it
    bool decided = false;
    bool published = false;
    bool timed_out = false;
    bool counts_after_end = false;  // what comes now is survivors' output
    std::int64_t settle_at = 0;     // after the end of file: give what is dying a moment
    std::int64_t drain_at = 0;
    std::int64_t flush_at = 0;
    std::int64_t tree_at = 0;  // timed out: publish then even if the tree is not gone
    int stops_sent = 0;
    int stops_answered = 0;
    bool nudged = false;  // a keeper that does not answer was sent SIGCONT
    int swept = 0;        // of a lost keeper: processes found
    int sweeps = 0;
    int clean_sweeps = 0;          // in a row
    std::vector<pid_t> survivors;  // as the table knows them, ascending
  };

  static constexpr std::size_t kChunk = 256 * 1024;  // a read
  static constexpr std::int64_t kSettleMs = 20;      // for what is dying when the output has ended
  // After a start, for what can wait: the spare keeper, the file of what prints nothing.
  static constexpr std::int64_t kSpareIdleMs = 20;

  // What an epoll event is about stands in the low bits of its key; above them the serial, or the zygote's generation.
  enum class Source : std::uint64_t { wake, pipe, keeper, control };
  struct Origin {
    std::uint64_t number = 0;
    Source source = Source::wake;
  };
  static std::uint64_t key_of(std::uint64_t number, Source source) {
    return number << 2 | static_cast<std::uint64_t>(source);
  }
  static Origin source_of(std::uint64_t key) { return {key >> 2, static_cast<Source>(key & 3)}; }

  // The loop (supervisor.cc).
  void run();
  void take_started();
  void handle_messages();
  void handle_timer(Timers::Due due);
  void handle_event(std::uint64_t key);
  // Removes it when nothing more can come. `live` is invalid after true.
  bool finished(Live& live);

  // What tasks print (supervisor_output.cc).
  void read_pipe(Live& live);
  // Reads what is there now, at most one full pipe.
  void read_rest(Live& live);
  // False when there was nothing to read.
  bool read_chunk(Live& live);
  void widen_pipe(Live& live, std::size_t size);
  void close_pipe(Live& live);
  void pause_pipe(Live& live);
  void resume_pipe(Live& live);
  void queue_file(Live& live);
  void look_after_writers(std::int64_t at_ms);

  // Keepers and zygotes (supervisor_keepers.cc).
  void read_keeper(Live& live);
  void on_keeper_event(Live& live, const keeper::KeeperEvent& event);
  void on_keeper_closed(Live& live);
  // Nothing, or why not.
  std::optional<StartError> start_anew(Live& live);
  void no_status(Live& live);
  void sweep_lost();
  void tree_gone(Live& live);
  void send_stop(Live& live);
  void check_stop(Live& live);
  void refill_spare();
  // Looks whether starts are still unanswered, and when it is next to be asked.
  void plan_guard();
  // Continues helpers that somebody has stopped.
  void guard();

  // Ends (supervisor_end.cc).
  void decide(Live& live, TaskEvent event, const Outcome& outcome);
  void try_publish(Live& live);
  std::vector<ProcessInfo> survivors_of(const Live& live) const;
  // A foreground command whose descendants live on becomes a task. True when its file is to be renamed first.
  bool adopt_survivors(Live& live);

  // Looks at the trees of all tasks, a slice at a time (supervisor_look.cc).
  void look();
  void plan_look();
  void on_sample(Live& live, const Sample& sample);

  const EngineConfig& config_;
  TaskTable& table_;
  EngineListener* const listener_;
  const std::shared_ptr<Mailbox> mailbox_;
  ZygoteClient zygotes_;
  Epoll epoll_;

  Mutex start_mutex_;
  std::thread thread_ GUARDED_BY(start_mutex_);
  std::atomic<std::thread::id> thread_id_{};

  // The loop's own.
  std::unique_ptr<FileWriter> writer_;
  std::unordered_map<Serial, std::unique_ptr<Live>> lives_;
  std::set<Serial> unheard_;  // started lately; some may have been heard or be over meanwhile
  std::shared_ptr<Zygote> latest_;
  bool guard_soon_ = false;
  std::set<Serial> lost_;  // tasks of lost keepers, whose processes are being looked for
  Timers timers_;
  EndedOutputs ended_outputs_;
  std::vector<char> chunk_;
  std::uint64_t flooded_ = 0;  // bytes that this round read from wide pipes
  bool quiet_events_ = false;  // it had to do with others too
  Sampler sampler_;
  std::atomic<std::int64_t> looked_at_ms_{INT64_MIN / 2};  // when somebody did so last
  bool quit_ = false;
};

// Watches a start on behalf of one task.
class SupervisedStart : public ProcessWatch {
 public:
  SupervisedStart(Supervisor& supervisor, Serial serial) : supervisor_(supervisor), serial_(serial) {}
  int watch(int keeper, int pipe) override { return supervisor_.watch(serial_, keeper, pipe); }
  void unwatch(int keeper, int pipe) override { supervisor_.unwatch(keeper, pipe); }

 private:
  Supervisor& supervisor_;
  const Serial serial_;
};

}  // namespace errand
