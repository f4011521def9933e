// SPDX-License-Identifier: Apache-2.0
#include "agent/permission_desk.h"

#include <utility>

#include "base/utf8.h"

namespace errand {
namespace {

// "Permission denied by DangerousCommandRule (rm -rf /): removes the root": what the model reads.
std::string refusal_text(const std::string& who, const Decision& decision) {
  std::string text = "Permission denied by " + who;
  if (!decision.part.empty()) text += " (" + decision.part + ")";
  if (!decision.reason.empty()) text += ": " + decision.reason;
  return text + (text.ends_with('.') ? "" : ".") + " It was not run.";
}

}  // namespace

PermissionDesk::Ruling PermissionDesk::rule(const PermissionQuery& query, const std::stop_token& stop) {
  const Decision decision = pipeline_.decide(query);
  switch (decision.verdict) {
    case Verdict::allow:
      return {true, {}};
    case Verdict::deny:
      return {false, refusal_text(decision.rule.empty() ? "the rules" : decision.rule, decision)};
    case Verdict::ask:
      break;
  }
  if (!can_ask_) {
    std::string text = "Permission denied: this needs the user's permission, and there is nobody to ask here";
    if (!decision.rule.empty())
      text += " (" + decision.rule + (decision.reason.empty() ? "" : ": " + decision.reason) + ")";
    return {false, text + ". It was not run."};
  }
  return ask(query, decision, stop);
}

PermissionDesk::Ruling PermissionDesk::ask(const PermissionQuery& query, const Decision& decision,
                                           const std::stop_token& stop) {
  if (stop.stop_requested()) return {};
  const std::string pattern = pipeline_.pattern_for(query);
  on_question_(true);
  std::optional<Reply> reply;
  {
    const MutexLock lock(mutex_);
    open_ = ++last_;
    reply_.reset();
    events_.push(event::PermissionAsked{open_, query, decision, pattern});
    answered_.wait(mutex_, stop, [&]() NO_THREAD_SAFETY_ANALYSIS { return reply_.has_value(); });
    reply = std::move(reply_);
    if (!reply) events_.push(event::PermissionWithdrawn{open_});
    open_ = 0;
  }
  on_question_(false);
  if (!reply) return {};
  if (reply->answer == Answer::no) {
    std::string text = "Permission denied by the user";
    if (!reply->reason.empty()) text += ": " + clean_utf8(reply->reason);
    return {false, text + (text.ends_with('.') ? "" : ".") + " It was not run."};
  }
  if (reply->answer == Answer::always && !pattern.empty()) {
    if (const std::string error = pipeline_.add_allow(pattern); !error.empty()) {
      events_.push(event::NoticeAdded{"allowed this once only: " + error, true});
    }
  }
  return {true, {}};
}

void PermissionDesk::answer(std::uint64_t ask_id, Answer answer, std::string reason) {
  {
    const MutexLock lock(mutex_);
    if (open_ == 0 || ask_id != open_ || reply_) return;
    reply_ = Reply{answer, std::move(reason)};
  }
  answered_.notify_all();
}

}  // namespace errand
