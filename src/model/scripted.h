// SPDX-License-Identifier: Apache-2.0
// A model that reads its answers from a JSON file: offline, for the demo and for tests. It says that it is a script.
//
//   {"turns": [{"text": "...", "tools": [{"name": "bash", "input": {"command": "make"}}], "when": "regex", "delay_ms":
//   0}]}
//
// Every field of a turn is optional. A request takes the first unused turn whose `when` (RE2, sought anywhere) matches
// the newest user turn (its texts and tool results, joined by newlines), else the first unused turn without `when`,
// else the text "(end of script)".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "model/model.h"

namespace errand {

// The model, or what is wrong: `scripted: "demo.json": line 4: turns[1].tools[0].name: must be a string`.
std::variant<std::unique_ptr<Model>, std::string> load_scripted(const std::string& file);

}  // namespace errand
