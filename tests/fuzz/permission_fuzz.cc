// SPDX-License-Identifier: Apache-2.0
// Rooms: permission
// Any bytes as a command, only decided on, never run: the parser neither crashes nor runs on, a decision names its
// rule, an allow pattern never widens what a mode refuses, and what a denied command is put into stays refused.
#include "fuzz.h"
#include "permission/permission.h"
#include "permission/shell_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  const std::string text(as_text(data, size));
  auto decide = [](PermissionMode mode, const std::string& command, const char* allowed) {
    PermissionPipeline pipeline(mode);
    if (allowed) CHECK_THAT(pipeline.add_allow(allowed).empty());
    return pipeline.decide(
        PermissionQuery{ActionKind::command, "bash", command, "/home/tester/project", "main", "/home/tester/project"});
  };

  const ShellScript script = parse_shell(text, own_surroundings("/home/tester/project"));
  for (const ShellCommand& command : script.commands) {
    CHECK_THAT(command.parent < static_cast<int>(script.commands.size()));
    for (const ShellWord& word : command.words)
      CHECK_THAT(word.unresolved || word.text.find('\0') == std::string::npos);
  }

  const Decision bypass = decide(PermissionMode::bypass, text, nullptr);
  CHECK_THAT(!bypass.rule.empty());
  const Decision standard = decide(PermissionMode::default_mode, text, "bash");
  CHECK_THAT(standard.verdict >= bypass.verdict);
  CHECK_THAT(decide(PermissionMode::plan, text, "bash").verdict >= bypass.verdict);
  CHECK_THAT(decide(PermissionMode::default_mode, text, nullptr).verdict != Verdict::allow);

  PermissionPipeline pipeline(PermissionMode::default_mode);
  const std::string always =
      pipeline.pattern_for(PermissionQuery{ActionKind::command, "bash", text, "/home/tester/project"});
  CHECK_THAT(!always.empty());
  pipeline.add_deny(text);
  return 0;
}
