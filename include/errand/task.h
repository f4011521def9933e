// SPDX-License-Identifier: Apache-2.0
// A task's record, as a value: what a reader of the engine gets is an immutable snapshot, never a live object.
//
// A task is a shell command (or, registered by other layers, an agent or a workflow) that runs while its starter goes
// on. Its life is a state machine of four states; only RUNNING moves, and only once.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace errand {

enum class TaskKind { shell, agent, workflow };
enum class TaskStatus { running, completed, failed, cancelled };

// "shell", "agent", "workflow"
std::string_view to_string(TaskKind kind);
// "RUNNING", "COMPLETED", "FAILED", "CANCELLED"
std::string_view to_string(TaskStatus status);

// "9 (SIGKILL)"; an unnamed signal is "35 (SIGRTMIN+1)" or, outside every name, the bare number.
std::string signal_text(int signal);

// Why a task ended, when it was neither its shell's exit nor a signal from outside.
enum class EndCause {
  none,             // still running
  exited,           // exit_code is set
  signalled,        // signal is set: nobody here sent it
  could_not_start,  // error holds the step and the errno text
  timed_out,        // error is "timed out after 5 s"
  keeper_lost,      // error is "keeper lost" or "keeper lost; processes may be left"
  cancelled,        // by user, model or host, through cancel() or stop()
  session_ended,    // the engine was closed while it ran
};

struct ProcessInfo {
  pid_t pid = 0;
  std::string command;               // argv joined with spaces, or the kernel's name in brackets
  std::vector<std::uint16_t> ports;  // listening TCP ports, ascending
};

struct TaskRecord {
  std::string id;  // "bg-3"; "fg-3" while a foreground command has not been adopted
  TaskKind kind = TaskKind::shell;
  std::string owner;  // the conversation that the task belongs to
  std::string command;
  std::string description;
  std::string cwd;

  TaskStatus status = TaskStatus::running;
  EndCause cause = EndCause::none;
  std::optional<int> exit_code;      // 0..255, only when the shell exited
  std::optional<int> signal;         // only when a signal that nobody here sent ended the shell
  std::optional<std::string> error;  // only when no status could be had; a non-zero exit is no error

  std::int64_t started_at_ms = 0;                  // wall clock, ms since the epoch
  std::optional<std::int64_t> finished_at_ms;      // wall clock
  std::int64_t duration_ms = 0;                    // monotonic: so far, or in all
  std::uint64_t output_bytes = 0;                  // everything that the task's processes printed
  std::uint64_t output_unwritten_bytes = 0;        // of these, what is not in the file
  bool output_truncated = false;                   // the retained tail is not the whole
  std::uint64_t output_bytes_after_end = 0;        // printed by survivors after the task had ended
  std::optional<std::int64_t> last_output_at_ms;   // wall clock
  std::optional<std::int64_t> last_output_age_ms;  // monotonic: how long ago, at the time of the snapshot
  std::string output_file;                         // absolute path; empty when there is no folder for it
  std::optional<std::string> output_error;         // why the file is incomplete, e.g. "write: No space left on device"

  // What it has running: of a running task in the answer of Engine::inspect() alone, which looks; of an ended one
  // always, while any survive.
  std::vector<ProcessInfo> processes;

  // Sampled: the sum over the tree at each look (every 10 s, every second while somebody inspects or lists), and what
  // was reaped. Lower bounds that never decrease.
  double cpu_seconds = 0;  // user and system
  std::uint64_t peak_rss_bytes = 0;
};

// Never null where a function says so; shared freely between threads.
using TaskSnapshot = std::shared_ptr<const TaskRecord>;

// "completed (exit code 0)", "failed (exit code 7)", "failed (signal 9 (SIGKILL))", "failed (timed out after 5 s)",
// "failed (could not start: chdir \"/x\": No such file or directory)", "failed (keeper lost)", "cancelled by user",
// "cancelled (session ended)"; survivors are added as "; 2 processes still running: 4711 node server.js :3000, ...".
// A running task gives "running".
std::string ending_text(const TaskRecord& task);

// "4711 node server.js :3000, 4712 sleep 9" with at most `most` entries, then the separator and "and N more". Commands
// over 200 characters are cut in the middle.
std::string processes_text(const std::vector<ProcessInfo>& processes, std::size_t most = 10,
                           std::string_view separator = ", ");

}  // namespace errand
