// SPDX-License-Identifier: Apache-2.0
// Patterns of the configuration and of "always": "bash(git status*)", "edit(src/**)", "read".
//
// In a command pattern * is any text, spaces and slashes too, and \* a star; a pattern that ends in " *" matches the
// command alone, too. In a path pattern * stays within a folder's name and ** does not; relative ones stand in the
// project. "bash" covers background_bash, "edit" covers write, "read" covers grep and glob.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "permission/permission.h"

namespace errand {

// The text as a pattern that matches nothing but it.
std::string escape_stars(std::string_view text);

class PermissionPattern {
 public:
  // Nothing, and why in `error`, for a text that is no pattern.
  static std::optional<PermissionPattern> parse(const std::string& text, std::string& error);

  const std::string& text() const { return text_; }
  bool covers_tool(const std::string& tool) const;
  // A pattern without parentheses matches all that its tool does.
  bool matches_command(std::string_view command) const;
  // Exactly this command, whatever characters are in it.
  bool is_exactly(std::string_view command) const { return restricted_ && escape_stars(command) == body_; }
  bool matches_path(const std::string& path, const std::string& project, const std::string& home) const;

 private:
  std::string text_;
  std::string tool_;
  std::string body_;
  bool restricted_ = false;
};

// * is any text, \* a star; all else stands for itself. Linear in both but for the number of stars.
bool matches_wildcards(std::string_view pattern, std::string_view text);

}  // namespace errand
