// SPDX-License-Identifier: Apache-2.0
// One pass of the loop: request, stream, tools, results, request ..., until the model stops. Runs on the conversation's
// thread; the history is legal whenever it returns.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/events.h"
#include "agent/history.h"
#include "agent/tool_runner.h"
#include "model/model.h"

namespace errand {

class Turn {
 public:
  enum class Ending { done, failed, out_of_steps, aborted };

  struct Options {
    std::string system;
    std::vector<ToolSpec> tools;
    int max_steps = 200;
    int max_tokens = 0;
  };
  // `ends_shown` is told, after the record of a tool result was written, which ends of tasks it showed to the model.
  using EndsShown = std::function<void(const std::vector<std::string>& task_ids)>;

  Turn(Model& model, Options options, History& history, ToolRunner& tools, event::Queue& events, EndsShown ends_shown)
      : model_(model),
        options_(std::move(options)),
        history_(history),
        tools_(tools),
        events_(events),
        ends_shown_(std::move(ends_shown)) {}

  Ending pass(const std::stop_token& stop);

 private:
  class Stream;
  Ending fail(ModelFailure failure, Stream& stream);
  void tell_why_it_stopped(const ModelReply& reply, bool empty);
  void notice(std::string text, bool is_error);

  Model& model_;
  const Options options_;
  History& history_;
  ToolRunner& tools_;
  event::Queue& events_;
  const EndsShown ends_shown_;
};

}  // namespace errand
