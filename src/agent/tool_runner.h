// SPDX-License-Identifier: Apache-2.0
// Runs the tool uses of one answer: neighbours that only read side by side, the others one after another, in order.
// Every use gets exactly one result, whatever happens: an unknown tool, bad arguments, a refusal, a tool that throws,
// an abort before or while it runs.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/events.h"
#include "agent/permission_desk.h"
#include "conversation/message.h"
#include "tools/registry.h"

namespace errand {

class ToolRunner {
 public:
  // `record` takes the results of one group, in the order of their uses, and the tasks whose end they show.
  using Record = std::function<void(std::vector<ToolResultBlock> results, const std::vector<std::string>& ends_shown)>;

  ToolRunner(const Registry& registry, ToolContext& context, PermissionDesk& desk, event::Queue& events)
      : registry_(registry), context_(context), desk_(desk), events_(events) {}

  void run(const std::string& message_id, const std::vector<ToolUseBlock>& uses, const std::stop_token& stop,
           const Record& record);

 private:
  struct Call {
    const ToolUseBlock* use = nullptr;
    PreparedCall prepared;
    ToolResult result;
    bool settled = false;  // has its result without running
  };
  void run_group(const std::string& message_id, std::vector<Call>& group, const std::stop_token& stop,
                 const Record& record);
  void run_one(const std::string& message_id, Call& call, const std::stop_token& stop);

  const Registry& registry_;
  ToolContext& context_;
  PermissionDesk& desk_;
  event::Queue& events_;
};

}  // namespace errand
