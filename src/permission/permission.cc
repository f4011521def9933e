// SPDX-License-Identifier: Apache-2.0
#include "permission/permission.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "permission/danger_paths.h"
#include "permission/dangerous_command.h"
#include "permission/pattern.h"
#include "permission/read_only_commands.h"
#include "permission/shell_text.h"

namespace errand {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string_view>;

// Variables by which a command is made to run something else.
bool steers_programs(const std::string& name) {
  static const Names kNames = {"PATH",     "BASH_ENV",       "ENV",          "IFS",    "SHELLOPTS",
                               "BASHOPTS", "PROMPT_COMMAND", "PS4",          "PAGER",  "EDITOR",
                               "VISUAL",   "BROWSER",        "NODE_OPTIONS", "CDPATH", "SHELL",
                               "HOME",     "MAKEFLAGS",      "CC",           "CXX",    "RUSTC_WRAPPER"};
  return kNames.contains(name) || name.starts_with("LD_") || name.starts_with("DYLD_") || name.starts_with("GIT_") ||
         name.starts_with("PYTHON") || name.starts_with("PERL5") || name.starts_with("RUBY") ||
         name.starts_with("npm_");
}

bool sets_only_plain_variables(const ShellCommand& command) {
  return std::none_of(command.assignments.begin(), command.assignments.end(),
                      [](const auto& assignment) { return steers_programs(assignment.first); });
}

fs::path resolved(const std::string& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  return error ? fs::path(path).lexically_normal() : real;
}

bool is_within(const std::string& path, const std::string& folder) {
  if (folder.empty()) return false;
  const fs::path relative = resolved(path).lexically_relative(resolved(folder));
  return !relative.empty() && *relative.begin() != "..";
}

std::string project_of(const PermissionQuery& query) { return query.project.empty() ? query.folder : query.project; }

// Edits there could make later runs do what nobody agreed to.
bool is_own_machinery(const std::string& path, const std::string& project) {
  const fs::path relative = resolved(path).lexically_relative(resolved(project));
  return !relative.empty() && (*relative.begin() == ".git" || *relative.begin() == ".errand");
}

// A word on its own that changes nothing and is not worth a rule: it must not keep `cd x && git status` from matching.
bool is_neutral(const ShellCommand& command, const std::string& project) {
  if (command.inert) return sets_only_plain_variables(command);
  if (!command.assignments.empty() || command.words.empty()) return false;
  static const Names kNames = {"true", "false", ":", "wait", "exit", "return", "break", "continue"};
  const std::string& name = command.words.front().text;
  if (kNames.contains(name)) return true;
  if (name != "cd" || command.words.size() != 2 || command.words[1].unresolved || command.folders.empty()) return false;
  return std::all_of(command.folders.begin(), command.folders.end(), [&](const std::string& folder) {
    return is_within((fs::path(folder) / command.words[1].text).string(), project);
  });
}

// With the program's bare name, so that /usr/bin/curl is curl.
std::string text_with_bare_name(const ShellCommand& command) {
  if (command.words.empty()) return command.text;
  std::string text;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    text += (i > 0 ? " " : "") + quote_for_shell(i == 0 ? command_name(command) : command.words[i].source);
  }
  return text;
}

}  // namespace

std::string to_string(PermissionMode mode) {
  switch (mode) {
    case PermissionMode::default_mode:
      return "default";
    case PermissionMode::accept_edits:
      return "accept-edits";
    case PermissionMode::plan:
      return "plan";
    case PermissionMode::bypass:
      return "bypass";
  }
  return "default";
}

struct PermissionPipeline::State {
  mutable std::mutex mutex;
  PermissionMode mode = PermissionMode::default_mode;
  std::vector<PermissionPattern> allowed, denied;
  DangerousCommandRule dangerous;

  // ---- all under the mutex
  Decision command(const PermissionQuery& query) const {
    const ShellSurroundings surroundings = own_surroundings(query.folder);
    const ShellScript script = parse_shell(query.subject, surroundings);
    if (std::optional<Decision> denial = denied_command(query, script)) return *denial;
    const std::vector<Decision> votes = dangerous.votes(query, script, surroundings.home);
    for (Verdict verdict : {Verdict::deny, Verdict::ask}) {
      if (verdict == Verdict::ask && mode == PermissionMode::plan) {
        if (std::optional<Decision> denial = denied_by_plan(query, script)) return *denial;
      }
      for (const Decision& vote : votes) {
        if (vote.verdict == verdict) return vote;
      }
    }
    if (mode == PermissionMode::bypass) return by_mode(Verdict::allow, query.subject, "");
    return allowed_command(query, script, surroundings.home);
  }

  Decision by_mode(Verdict verdict, const std::string& part, std::string reason) const {
    return Decision{verdict, "mode " + to_string(mode), part, std::move(reason)};
  }

  std::optional<Decision> denied_command(const PermissionQuery& query, const ShellScript& script) const {
    for (const PermissionPattern& pattern : denied) {
      if (!pattern.covers_tool(query.tool)) continue;
      const std::string rule = "deny " + pattern.text();
      const std::string reason = "the configuration forbids it";
      if (pattern.matches_command(query.subject)) return Decision{Verdict::deny, rule, query.subject, reason};
      for (const ShellCommand& each : script.commands) {
        if (each.words.empty()) continue;
        if (pattern.matches_command(each.text) || pattern.matches_command(text_with_bare_name(each))) {
          return Decision{Verdict::deny, rule, each.text, reason};
        }
      }
    }
    return std::nullopt;
  }

  std::optional<Decision> denied_by_plan(const PermissionQuery& query, const ShellScript& script) const {
    const std::string reason = "in mode plan only commands run that plainly read only";
    if (!script.findings.empty()) return by_mode(Verdict::deny, query.subject, reason);
    for (const ShellCommand& each : script.commands) {
      const bool assigns =
          each.inert && each.words.empty() && sets_only_plain_variables(each) && each.redirects.empty();
      if (!assigns && !is_plainly_read_only(each)) return by_mode(Verdict::deny, each.text, reason);
    }
    return std::nullopt;
  }

  Decision allowed_command(const PermissionQuery& query, const ShellScript& script, const std::string& home) const {
    const std::string reason = "commands need permission in mode " + to_string(mode);
    for (const PermissionPattern& pattern : allowed) {
      if (pattern.covers_tool(query.tool) && pattern.is_exactly(query.subject)) {
        return Decision{Verdict::allow, "allow " + pattern.text(), query.subject, ""};
      }
    }
    std::string rule;
    for (const ShellCommand& each : script.commands) {
      const PermissionPattern* match = nullptr;
      for (const PermissionPattern& pattern : allowed) {
        if (!pattern.covers_tool(query.tool) || each.words.empty() || !pattern.matches_command(each.text)) continue;
        match = &pattern;
        break;
      }
      if (match && rule.empty()) rule = "allow " + match->text();
      if (!match && !is_neutral(each, project_of(query))) return by_mode(Verdict::ask, each.text, reason);
      for (const ShellRedirect& redirect : each.redirects) {
        if (redirect.kind == ShellRedirect::Kind::write && !may_write(query, each, redirect.target, home)) {
          return by_mode(Verdict::ask, each.text, "it writes to " + redirect.target.source);
        }
      }
    }
    if (rule.empty()) return by_mode(Verdict::ask, query.subject, reason);
    return Decision{Verdict::allow, rule, query.subject, ""};
  }

  // A command that is allowed may not write a file by a redirection that an edit of it would be asked for.
  bool may_write(const PermissionQuery& query, const ShellCommand& command, const ShellWord& target,
                 const std::string& home) const {
    if (is_harmless_sink(target.text)) return true;
    if (target.unresolved || target.text.empty() || command.folders.empty() || command.remote) return false;
    return std::all_of(command.folders.begin(), command.folders.end(), [&](const std::string& folder) {
      const std::string path = (fs::path(folder) / target.text).lexically_normal().string();
      return edit_verdict(path, project_of(query), home).verdict == Verdict::allow;
    });
  }

  Decision edit_verdict(const std::string& path, const std::string& project, const std::string& home) const {
    const std::string real = resolved(path).string();
    const std::string real_project = resolved(project).string();
    for (const PermissionPattern& pattern : allowed) {
      if (pattern.covers_tool("edit") && pattern.matches_path(real, real_project, home)) {
        return Decision{Verdict::allow, "allow " + pattern.text(), path, ""};
      }
    }
    if (mode == PermissionMode::accept_edits && is_within(path, project) && !is_own_machinery(path, project)) {
      return by_mode(Verdict::allow, path, "");
    }
    return by_mode(Verdict::ask, path, "edits need permission in mode " + to_string(mode));
  }

  std::optional<Decision> path_rule(const std::vector<PermissionPattern>& patterns, Verdict verdict,
                                    const PermissionQuery& query, const std::string& home) const {
    const std::string real = resolved(query.subject).string();
    for (const PermissionPattern& pattern : patterns) {
      if (!pattern.covers_tool(query.tool) || !pattern.matches_path(real, resolved(project_of(query)).string(), home))
        continue;
      const bool deny = verdict == Verdict::deny;
      return Decision{verdict, (deny ? "deny " : "allow ") + pattern.text(), query.subject,
                      deny ? "the configuration forbids it" : ""};
    }
    return std::nullopt;
  }

  Decision edit(const PermissionQuery& query) const {
    const std::string home = own_surroundings(query.folder).home;
    if (auto denial = path_rule(denied, Verdict::deny, query, home)) return *denial;
    const std::vector<Decision> votes = dangerous.votes(query, mode);
    for (const Decision& vote : votes) {
      if (vote.verdict == Verdict::deny) return vote;
    }
    if (mode == PermissionMode::plan) return by_mode(Verdict::deny, query.subject, "in mode plan nothing is changed");
    if (!votes.empty()) return votes.front();
    if (mode == PermissionMode::bypass) return by_mode(Verdict::allow, query.subject, "");
    if (auto permit = path_rule(allowed, Verdict::allow, query, home)) return *permit;
    return edit_verdict(query.subject, project_of(query), home);
  }

  Decision read(const PermissionQuery& query) const {
    const std::string home = own_surroundings(query.folder).home;
    if (auto denial = path_rule(denied, Verdict::deny, query, home)) return *denial;
    if (mode == PermissionMode::bypass) return by_mode(Verdict::allow, query.subject, "");
    if (auto permit = path_rule(allowed, Verdict::allow, query, home)) return *permit;
    return by_mode(Verdict::ask, query.subject, "it lies outside the project");
  }
};

PermissionPipeline::PermissionPipeline(PermissionMode mode) : state_(std::make_unique<State>()) { state_->mode = mode; }
PermissionPipeline::~PermissionPipeline() = default;

PermissionMode PermissionPipeline::mode() const {
  const std::lock_guard lock(state_->mutex);
  return state_->mode;
}

void PermissionPipeline::set_mode(PermissionMode mode) {
  const std::lock_guard lock(state_->mutex);
  state_->mode = mode;
}

std::string PermissionPipeline::add_allow(const std::string& pattern) {
  std::string error;
  std::optional<PermissionPattern> parsed = PermissionPattern::parse(pattern, error);
  if (!parsed) return error;
  const std::lock_guard lock(state_->mutex);
  state_->allowed.push_back(std::move(*parsed));
  return {};
}

std::string PermissionPipeline::add_deny(const std::string& pattern) {
  std::string error;
  std::optional<PermissionPattern> parsed = PermissionPattern::parse(pattern, error);
  if (!parsed) return error;
  const std::lock_guard lock(state_->mutex);
  state_->denied.push_back(std::move(*parsed));
  return {};
}

Decision PermissionPipeline::decide(const PermissionQuery& query) const {
  const std::lock_guard lock(state_->mutex);
  switch (query.kind) {
    case ActionKind::command:
      return state_->command(query);
    case ActionKind::edit:
      return state_->edit(query);
    case ActionKind::read_outside:
      return state_->read(query);
    case ActionKind::stop_own_task:
      return Decision{Verdict::allow, "own task", query.subject, ""};
  }
  return Decision{Verdict::ask, "", query.subject, "unknown kind of action"};
}

std::string PermissionPipeline::pattern_for(const PermissionQuery& query) const {
  if (query.kind == ActionKind::read_outside) {
    const fs::path path(query.subject);
    const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
    return "read(" + (folder / "**").string() + ")";
  }
  if (query.kind == ActionKind::edit) {
    const fs::path relative = resolved(query.subject).lexically_relative(resolved(project_of(query)));
    const bool inside = !relative.empty() && *relative.begin() != "..";
    const fs::path folder = inside ? relative.parent_path() : resolved(query.subject).parent_path();
    return "edit(" + (folder / "**").string() + ")";
  }
  std::string exact = "bash(" + escape_stars(query.subject) + ")";
  const ShellScript script = parse_shell(query.subject, own_surroundings(query.folder));
  const ShellCommand* only = nullptr;
  for (const ShellCommand& command : script.commands) {
    if (is_neutral(command, project_of(query))) continue;
    if (only) return exact;
    only = &command;
  }
  if (!only || !script.findings.empty() || only->words.empty() || !only->redirects.empty() ||
      !only->assignments.empty())
    return exact;
  // What runs anything, or destroys, is not allowed wholesale by one answer.
  static const Names kBroad = {"sudo",    "doas",    "rm",   "rmdir",  "mv",   "dd",     "chmod", "chown", "xargs",
                               "find",    "ssh",     "eval", "source", ".",    "sh",     "bash",  "zsh",   "dash",
                               "python",  "python3", "node", "perl",   "ruby", "php",    "env",   "kill",  "pkill",
                               "killall", "curl",    "wget", "tee",    "cp",   "docker", "awk",   "sed"};
  static const Names kWithVerbs = {"git",       "npm",    "yarn",    "pnpm",   "cargo", "go",    "make",
                                   "ninja",     "gradle", "gradlew", "mvn",    "pip",   "apt",   "kubectl",
                                   "systemctl", "bundle", "rake",    "dotnet", "cmake", "bazel", "just",
                                   "task",      "gh",     "poetry",  "uv"};
  const std::string name = command_name(*only);
  const std::string& first = only->words.front().source;
  if (kBroad.contains(name) || only->words.front().unresolved) return exact;
  const std::string quoted = escape_stars(quote_for_shell(first));
  if (kWithVerbs.contains(name) && only->words.size() > 1) {
    const ShellWord& verb = only->words[1];
    if (verb.unresolved || verb.text.empty() || verb.text[0] == '-') return exact;
    return "bash(" + quoted + " " + escape_stars(quote_for_shell(verb.source)) + "*)";
  }
  return "bash(" + quoted + " *)";
}

}  // namespace errand
