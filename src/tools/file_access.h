// SPDX-License-Identifier: Apache-2.0
// Which files a tool means, and whether looking at them needs to be asked for.
#pragma once

#include <optional>
#include <string>

#include "tools/tool.h"

namespace errand {

// The path as an absolute one without "." and "..": relative paths stand in the conversation's folder, "~/" is the
// home.
std::string absolute_path(const std::string& path, const ToolContext& context);
// Both resolved first, symlinks too, so that a link does not lead out of the folder unseen. What does not exist yet is
// judged by the part that does. A folder is inside itself; nothing is inside an empty one.
bool is_inside(const std::string& path, const std::string& folder);
// Nothing for what lies in the project or in the session's own folder; else a query for the path as it resolves.
std::optional<PermissionQuery> read_query(const std::string& tool, const std::string& path, const ToolContext& context);

}  // namespace errand
