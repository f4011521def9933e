// SPDX-License-Identifier: Apache-2.0
// What a tool is: a name, a schema, whether it only reads, what it needs permission for, and how it runs.
//
// A tool never throws across this border for expected failures; it answers with is_error. The registry turns whatever
// does escape into a failed result, so every tool_use gets exactly one tool_result.
#pragma once

#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "errand/engine.h"
#include "model/model.h"
#include "permission/permission.h"
#include "support/json.h"

namespace errand {

// Lives as long as its conversation; used on the conversation's thread, and by read-only tools from several threads at
// once, which therefore change nothing in it.
struct ToolContext {
  Engine& engine;
  std::string owner = "main";
  std::string project_folder;  // absolute; the root of what is asked about
  std::string cwd;             // of the foreground shell; changed by `bash` only
  std::string session_folder;  // readable unasked; may be empty
  int start_window_ms = 300;
  std::set<std::string> service_tasks;  // started with `service`: these do not hold print mode
};

struct ToolResult {
  std::string text;
  bool is_error = false;
  // Tasks whose end this result shows to the model: their pending notification is dropped once the result is recorded.
  std::vector<std::string> ends_shown;
};

class Tool {
 public:
  virtual ~Tool() = default;
  virtual const ToolSpec& spec() const = 0;
  virtual bool read_only() const = 0;
  // What the pipeline has to decide before run(); nothing for tools without side effects. The input is validated.
  virtual std::optional<PermissionQuery> permission(const json::object& input, const ToolContext& context) const = 0;
  virtual ToolResult run(const json::object& input, ToolContext& context, std::stop_token stop) = 0;
};

}  // namespace errand
