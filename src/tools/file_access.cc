// SPDX-License-Identifier: Apache-2.0
#include "tools/file_access.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace errand {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const std::string& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  if (error) real = fs::path(path).lexically_normal();
  // "/a/b/" and "/a/b" are one folder, with and without an empty last part.
  if (!real.has_filename() && real.has_relative_path()) real = real.parent_path();
  return real;
}

}  // namespace

std::string absolute_path(const std::string& path, const ToolContext& context) {
  if (path == "~" || path.starts_with("~/")) {
    const char* home = std::getenv("HOME");
    if (home && *home) return (fs::path(home + path.substr(1))).lexically_normal().string();
  }
  return (fs::path(context.cwd) / path).lexically_normal().string();
}

bool is_inside(const std::string& path, const std::string& folder) {
  if (folder.empty()) return false;
  const fs::path inner = resolved(path);
  const fs::path outer = resolved(folder);
  const fs::path relative = inner.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

std::optional<PermissionQuery> read_query(const std::string& tool, const std::string& path,
                                          const ToolContext& context) {
  const std::string absolute = absolute_path(path, context);
  if (is_inside(absolute, context.project_folder) || is_inside(absolute, context.session_folder)) return std::nullopt;
  return PermissionQuery{ActionKind::read_outside, tool, resolved(absolute).string(), context.cwd, context.owner,
                         context.project_folder};
}

}  // namespace errand
