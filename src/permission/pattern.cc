// SPDX-License-Identifier: Apache-2.0
#include "permission/pattern.h"

#include <filesystem>

namespace errand {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTools[] = {"bash", "background_bash", "read", "grep", "glob", "edit", "write"};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// * within a part of the path, ** across parts, ? one character.
bool matches_path_text(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return path.empty();
  if (pattern.starts_with("**")) {
    std::string_view rest = pattern.substr(2);
    if (rest.starts_with("/") && matches_path_text(rest.substr(1), path)) return true;
    for (std::size_t i = 0; i <= path.size(); ++i) {
      if (matches_path_text(rest, path.substr(i))) return true;
    }
    return false;
  }
  if (pattern[0] == '*') {
    for (std::size_t i = 0;; ++i) {
      if (matches_path_text(pattern.substr(1), path.substr(i))) return true;
      if (i == path.size() || path[i] == '/') return false;
    }
  }
  if (path.empty() || (pattern[0] == '?' ? path[0] == '/' : pattern[0] != path[0])) return false;
  return matches_path_text(pattern.substr(1), path.substr(1));
}

}  // namespace

std::string escape_stars(std::string_view text) {
  std::string escaped;
  for (char c : text) escaped += c == '*' ? std::string("\\*") : std::string(1, c);
  return escaped;
}

bool matches_wildcards(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\' && pattern[p + 1] == '*';
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (escaped ? text[t] == '*' : p < pattern.size() && pattern[p] == text[t]) {
      p += escaped ? 2 : 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::optional<PermissionPattern> PermissionPattern::parse(const std::string& text, std::string& error) {
  PermissionPattern pattern;
  pattern.text_ = trimmed(text);
  const std::size_t open = pattern.text_.find('(');
  pattern.tool_ = trimmed(pattern.text_.substr(0, open));
  bool known = false;
  std::string names;
  for (std::string_view tool : kTools) {
    known = known || tool == pattern.tool_;
    names += (names.empty() ? "" : ", ") + std::string(tool);
  }
  if (pattern.tool_.empty()) {
    error = "permission pattern \"" + text + "\": expected tool(pattern), e.g. bash(git status*)";
    return std::nullopt;
  }
  if (!known) {
    error = "permission pattern \"" + text + "\": unknown tool \"" + pattern.tool_ + "\" (known: " + names + ")";
    return std::nullopt;
  }
  if (open == std::string::npos) return pattern;
  if (pattern.text_.back() != ')') {
    error = "permission pattern \"" + text + "\": the closing parenthesis is missing";
    return std::nullopt;
  }
  pattern.body_ = trimmed(std::string_view(pattern.text_).substr(open + 1, pattern.text_.size() - open - 2));
  pattern.restricted_ = true;
  if (pattern.body_.empty()) {
    error = "permission pattern \"" + text + "\": nothing stands between the parentheses; write " + pattern.tool_ +
            " for everything";
    return std::nullopt;
  }
  std::size_t stars = 0;
  for (char c : pattern.body_) stars += c == '*' ? 1 : 0;
  if (pattern.body_.size() > 4096 || (pattern.tool_ != "bash" && pattern.tool_ != "background_bash" && stars > 8)) {
    error = "permission pattern \"" + text + "\": too long, or too many stars in a path";
    return std::nullopt;
  }
  return pattern;
}

bool PermissionPattern::covers_tool(const std::string& tool) const {
  if (tool_ == tool) return true;
  if (tool_ == "bash") return tool == "background_bash";
  if (tool_ == "edit") return tool == "write";
  return tool_ == "read" && (tool == "grep" || tool == "glob");
}

bool PermissionPattern::matches_command(std::string_view command) const {
  if (!restricted_ || matches_wildcards(body_, command)) return true;
  return body_.ends_with(" *") && command == std::string_view(body_).substr(0, body_.size() - 2);
}

bool PermissionPattern::matches_path(const std::string& path, const std::string& project,
                                     const std::string& home) const {
  if (!restricted_) return true;
  std::string pattern = body_;
  if (pattern.starts_with("~/")) {
    pattern = home + pattern.substr(1);
  } else if (!pattern.starts_with("/")) {
    if (pattern.starts_with("./")) pattern = pattern.substr(2);
    pattern = (project.ends_with("/") ? project : project + "/") + pattern;
  }
  return matches_path_text(pattern, fs::path(path).lexically_normal().string());
}

}  // namespace errand
