// SPDX-License-Identifier: Apache-2.0
#include "agent/tool_runner.h"

#include <system_error>
#include <thread>
#include <utility>

namespace errand {
namespace {

using Stage = event::ToolBlockUpdated::Stage;

// More at once than a machine can use well; a model may ask for any number.
constexpr std::size_t kMostSideBySide = 8;

ToolResult aborted_before() { return {"Aborted by the user before it ran.", true, {}}; }

}  // namespace

void ToolRunner::run(const std::string& message_id, const std::vector<ToolUseBlock>& uses, const std::stop_token& stop,
                     const Record& record) {
  for (const ToolUseBlock& use : uses) events_.push(event::ToolBlockUpdated{message_id, use, Stage::start, {}});
  std::vector<Call> group;
  for (const ToolUseBlock& use : uses) {
    Call call;
    call.use = &use;
    // What a tool needs permission for may depend on what the ones before it changed, so it is prepared in its turn.
    const Tool* tool = registry_.find(use.name);
    const bool reads = tool && tool->read_only();
    if (!group.empty() && (!reads || group.size() == kMostSideBySide)) {
      run_group(message_id, group, stop, record);
      group.clear();
    }
    group.push_back(std::move(call));
    if (!reads) {
      run_group(message_id, group, stop, record);
      group.clear();
    }
  }
  if (!group.empty()) run_group(message_id, group, stop, record);
}

void ToolRunner::run_group(const std::string& message_id, std::vector<Call>& group, const std::stop_token& stop,
                           const Record& record) {
  // The questions come one after another, before anything of the group runs.
  for (Call& call : group) {
    if (stop.stop_requested()) {
      call.result = aborted_before();
      call.settled = true;
      continue;
    }
    call.prepared = registry_.prepare(call.use->name, call.use->input, context_);
    if (call.prepared.refused) {
      call.result = *call.prepared.refused;
      call.settled = true;
    } else if (call.prepared.permission) {
      const PermissionDesk::Ruling ruling = desk_.rule(*call.prepared.permission, stop);
      if (!ruling.allowed) {
        call.result = ruling.refusal.empty() ? aborted_before() : ToolResult{ruling.refusal, true, {}};
        call.settled = true;
      }
    }
  }
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < group.size(); ++i) {
    Call& call = group[i];
    // The last one runs here; so does one for which there is no thread.
    if (i + 1 < group.size() && !call.settled) {
      try {
        threads.emplace_back([this, &message_id, &call, &stop] { run_one(message_id, call, stop); });
        continue;
      } catch (const std::system_error&) {
      }
    }
    run_one(message_id, call, stop);
  }
  threads.clear();

  std::vector<ToolResultBlock> results;
  std::vector<std::string> ends_shown;
  for (Call& call : group) {
    results.push_back({call.use->id, std::move(call.result.text), call.result.is_error});
    for (std::string& id : call.result.ends_shown) ends_shown.push_back(std::move(id));
  }
  record(std::move(results), ends_shown);
}

void ToolRunner::run_one(const std::string& message_id, Call& call, const std::stop_token& stop) {
  if (!call.settled && stop.stop_requested()) {
    call.result = aborted_before();
    call.settled = true;
  }
  if (!call.settled) {
    events_.push(event::ToolBlockUpdated{message_id, *call.use, Stage::running, {}});
    call.result = registry_.run(call.prepared, call.use->input, context_, stop);
  }
  events_.push(event::ToolBlockUpdated{message_id, *call.use, Stage::end,
                                       ToolResultBlock{call.use->id, call.result.text, call.result.is_error}});
}

}  // namespace errand
