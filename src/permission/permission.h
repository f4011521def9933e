// SPDX-License-Identifier: Apache-2.0
// A pipeline of rules decides deny > ask > allow before every tool with side effects, in the foreground and in the
// background alike, for every command inside a compound one.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace errand {

enum class PermissionMode { default_mode, accept_edits, plan, bypass };
// "default", "accept-edits", "plan", "bypass"
std::string to_string(PermissionMode mode);

enum class Verdict { allow, ask, deny };

enum class ActionKind { command, edit, read_outside, stop_own_task };

struct PermissionQuery {
  ActionKind kind = ActionKind::command;
  std::string tool;     // "bash", "background_bash", "read"
  std::string subject;  // the exact command, or the absolute path
  std::string folder;   // where it would run
  std::string asker = "main";
  std::string project;  // the root that reads and edits are judged by; empty: the folder
};

struct Decision {
  Verdict verdict = Verdict::ask;
  std::string rule;    // "DangerousCommandRule", "mode plan", "allow bash(git status*)"
  std::string part;    // the part of the command that the rule saw
  std::string reason;  // for the model and the user
};

class PermissionRule {
 public:
  virtual ~PermissionRule() = default;
  virtual std::string name() const = 0;
  // Nothing to say: allow with an empty rule name is not a vote. See Pipeline for how votes combine.
  virtual std::vector<Decision> votes(const PermissionQuery& query, PermissionMode mode) const = 0;
};

// Safe from any thread.
class PermissionPipeline {
 public:
  explicit PermissionPipeline(PermissionMode mode);
  ~PermissionPipeline();
  PermissionMode mode() const;
  void set_mode(PermissionMode mode);
  // Patterns of the form "bash(git status*)"; a bad one is reported, not ignored.
  // Returns an empty text, or what is wrong.
  std::string add_allow(const std::string& pattern);
  std::string add_deny(const std::string& pattern);
  Decision decide(const PermissionQuery& query) const;
  // The pattern that "always" would add for this query, shown to the user in the prompt: "bash(npm test*)".
  std::string pattern_for(const PermissionQuery& query) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace errand
