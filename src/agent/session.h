// SPDX-License-Identifier: Apache-2.0
// A session: one engine, one conversation thread, one session file, and the queue that joins them. Hosts drive it with
// the calls below and follow it through its event queue. Every call may come from any thread and none blocks, but for
// close().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/events.h"
#include "errand/engine.h"
#include "model/model.h"
#include "permission/permission.h"

namespace errand {

struct SessionOptions {
  std::string project_folder;  // absolute
  std::string state_home;      // $XDG_STATE_HOME/errand
  EngineConfig engine;         // its output_folder is set by the session
  bool keep_outputs = true;    // false: the output files are removed at the session's end
  PermissionMode permission_mode = PermissionMode::default_mode;
  std::vector<std::string> allow, deny;
  bool can_ask = true;  // false: what would ask is denied (no terminal)
  int start_window_ms = 300;
  int max_steps = 200;
  int max_tokens = 0;
  bool wake_for_user_tasks = false;
  bool pass_keys = false;
};

enum class Answer { once, always, no };

// Two lines: how to configure a model.
std::string_view no_model_text();

class Session {
 public:
  // The model may be null: everything that needs none works, and submit() answers with a notice.
  Session(SessionOptions options, std::unique_ptr<Model> model);
  ~Session();

  const std::string& id() const;
  const std::string& session_file() const;
  const SessionOptions& options() const;
  Model* model() const;
  event::Queue& events();
  Engine& engine();
  PermissionPipeline& permissions();

  // A message of the user. Queued while a turn runs.
  void submit(std::string text);
  // A `!cmd`: runs in the foreground on the conversation's thread, its output goes to the model's context.
  void submit_bang(std::string command);
  // `!cmd &` and `/bg run`: started by hand, so its end goes with the next turn. No permission is asked.
  LaunchResult run_by_hand(std::string command);
  // `/bg stop <id>`: through the engine; here so that hosts need not care whose task it is.
  StopReport stop_task(const std::string& id);

  // Ends the running turn or `!cmd` (Esc, Ctrl+C). False when nothing ran.
  bool abort();
  void answer(std::uint64_t ask_id, Answer answer, std::string reason);

  bool idle() const;
  // True while a task runs whose end would start a turn, or, with `by_hand`, any task runs.
  bool waits_for_tasks(bool by_hand) const;
  // idle() and not waits_for_tasks(), as one observation: nothing can start a turn any more.
  bool finished(bool by_hand) const;

  // Ends the turn, every task, and closes the file.
  CloseReport close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace errand
