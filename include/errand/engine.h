// SPDX-License-Identifier: Apache-2.0
// The engine starts shell commands in the background, watches them, keeps a bounded record of what they print, ends
// them completely, and tells others when they end.
//
// One engine is one session. Its supervisor thread owns all process state; every member function may be called from
// any thread, and none but stop(), wait(), wait_end() and close() blocks for longer than a start takes. Expected
// outcomes are values, never exceptions.
//
// Dangers:
// - A process that forks without exec holds copies of the engine's descriptors. The copy's engine is dead: its calls
//   do nothing, and the tasks end with the original, not with the copy.
// - The engine installs no signal handler and reaps no child that it did not start.
// - A listener runs on the thread that caused the event; it must not block and must not call stop(), wait(), wait_end()
//   or close().
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "errand/engine_config.h"
#include "errand/notification_queue.h"
#include "errand/task.h"
#include "errand/wait.h"
#include "errand/watch.h"

namespace errand {

struct LaunchRequest {
  std::string command;      // run by the shell's -c
  std::string script;       // what the shell is given instead, when not empty; records and lists show `command`
  std::string description;  // for people; may be empty
  std::string cwd;          // empty: the host's folder at the time of the call
  std::string owner = "main";
  std::optional<std::chrono::milliseconds> timeout;  // the tree is ended when it strikes: FAILED, timed out
};

struct Launched {
  std::string id;
};
struct Rejected {
  std::string reason;  // complete sentence for a person or a model
};
using LaunchResult = std::variant<Launched, Rejected>;

struct LeftProcess {
  ProcessInfo process;
  std::string reason;  // "not permitted", "uninterruptible"
};

struct StopReport {
  enum class Outcome {
    unknown,           // no such task; the other fields are empty
    stopped,           // it ran, and was moved to CANCELLED by this or a concurrent stop
    already_finished,  // it had ended before and nothing of it was left
    survivors_ended,   // it had ended before; what survived was ended
  };
  Outcome outcome = Outcome::unknown;
  TaskSnapshot task;              // as it is afterwards; null when unknown
  int ended = 0;                  // processes alive when the stop began, the shell included, that are gone now
  std::vector<LeftProcess> left;  // what could not be ended
};

// What a task printed is shown as a terminal would show it, line by line and as valid UTF-8: \r, backspace and cursor
// moves within the line act, all other escape sequences and control characters (but tabs) are removed, invalid bytes
// are U+FFFD, and lines over 2,000 characters are cut in the middle with a count. The output file has the raw bytes.
struct OutputTail {
  std::string text;        // starts at a line's begin unless one line is all; a last line without newline is shown
  bool truncated = false;  // lines are gone that are no longer retained (not: more than was asked for)
  bool lines_cut = false;  // some line of the output was cut in the middle
};

// What is new behind a cursor: the absolute offset, in raw bytes, of the end of a line. 0 is the begin of the output.
// One within a line reads that line whole; one beyond the end reads as the end.
struct OutputRead {
  std::string text;               // complete new lines, each with its newline
  std::string unfinished;         // the last line, while it has no newline; it comes again
  std::uint64_t next_cursor = 0;  // the end of the last complete line
  std::uint64_t dropped = 0;      // raw bytes between the cursor and the text that can no longer be read
  bool ended = false;             // nothing follows: what is unfinished stays so
};

struct CloseReport {
  std::vector<LeftProcess> left;
};

// Told of every change. Order for one task: started before ended, each once. See "Dangers" above.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  // On the launching thread, before any process exists. Not called for foreground commands until their adoption.
  virtual void on_task_started(const TaskSnapshot& task) = 0;
  // On the supervisor thread; the state is committed and the user's notification pushed.
  virtual void on_task_ended(const TaskSnapshot& task) = 0;
  // The last survivor of an ended task is gone, or an ended task's survivors changed. On the supervisor thread.
  virtual void on_task_changed(const TaskSnapshot& task) = 0;
};

class Engine {
 public:
  // The listener may be null; it must outlive the engine. Starts threads at the first launch, not here.
  explicit Engine(EngineConfig config, EngineListener* listener = nullptr);
  // close(), unless it was called.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes a slot and an id and starts the command, or says why not. A command that cannot be started is Launched too:
  // its task is FAILED with an error, at once.
  LaunchResult launch(LaunchRequest request);

  // The same for a foreground command: no slot, no limit, in no list, no notification, id "fg-N", output in
  // fg-N.output, no ERRAND_TASK_ID. If descendants outlive its shell it is adopted when it ends: see adopt().
  LaunchResult launch_foreground(LaunchRequest request);
  // Gives a foreground command the next bg-N, which it returns; its file is renamed, it stands in the lists, and if it
  // runs its end will be notified. Nothing for an unknown or forgotten id; the bg-N when it was adopted before.
  std::optional<std::string> adopt(std::string_view foreground_id);
  // Forgets an ended foreground command and removes its file, unless keep_file. No-op for an adopted one.
  void forget(std::string_view foreground_id, bool keep_file = false);

  // A snapshot, or null for an unknown id. A foreground id answers with the adopted record after an adoption.
  TaskSnapshot get(std::string_view id) const;
  // The same, with `processes` and what they use looked up now (reads /proc).
  TaskSnapshot inspect(std::string_view id) const;
  // All tasks with ids, in the order in which these were given; `owner` empty: every owner's.
  std::vector<TaskSnapshot> list(std::string_view owner = {}) const;
  int running_count() const;

  // True only if this call moved a RUNNING task to CANCELLED. Ends its processes (and an ended task's survivors)
  // without waiting for them.
  bool cancel(std::string_view id);
  // cancel(), then waits until the tree is gone: at most grace + 5 s. A second stop waits for the first.
  StopReport stop(std::string_view id);

  // The last `lines` lines of what is retained; 0: all of it. Null when the id is unknown.
  std::optional<OutputTail> tail(std::string_view id, std::size_t lines) const;

  // What was printed behind the cursor, as far as it is retained. Null when the id is unknown.
  std::optional<OutputRead> read(std::string_view id, std::uint64_t cursor) const;

  // Waits until the task has ended, the time is over, or stop is requested; answers with the snapshot as it is then,
  // null for an unknown id.
  TaskSnapshot wait_end(std::string_view id, std::chrono::milliseconds timeout, std::stop_token stop = {}) const;

  // Waits for what the request names, on the calling thread; see wait.h. A close() of the engine ends it early.
  WaitResult wait(const WaitRequest& request, std::stop_token stop = {}) const;
  // Hands every line of the task's output that matches to the callback, those that are retained first, until the
  // output ends or the handle is destroyed; see watch.h. Or why not: unknown id, bad pattern, not a shell command.
  std::variant<Watch, Rejected> watch(std::string_view id, std::string_view regex, WatchCallback callback) const;

  NotificationQueue& notifications();

  // Ends every task (CANCELLED, session ended) and what survives of the ended ones, and refuses later launches.
  // Returns when the trees are gone, at most after grace + 5 s; names what is left.
  CloseReport close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace errand
