// SPDX-License-Identifier: Apache-2.0
// The rule that holds in every mode, bypass too: what would destroy the machine, a home or a shared history is denied
// or asked for. It reads commands as the shell would, see shell_parse.h.
#pragma once

#include <string>
#include <vector>

#include "permission/permission.h"
#include "permission/shell_parse.h"

namespace errand {

class DangerousCommandRule : public PermissionRule {
 public:
  std::string name() const override { return "DangerousCommandRule"; }
  // Of commands, and of edits of system files.
  std::vector<Decision> votes(const PermissionQuery& query, PermissionMode mode) const override;
  // The same for a command that has been parsed.
  std::vector<Decision> votes(const PermissionQuery& query, const ShellScript& script, const std::string& home) const;
};

}  // namespace errand
