// SPDX-License-Identifier: Apache-2.0
// What a foreground command printed, as a model gets it: all of it, or its head and tail with the path of the whole.
#pragma once

#include <cstddef>
#include <string>

#include "errand/engine.h"

namespace errand {

inline constexpr std::size_t kMostShownCharacters = 30000;

struct ShownOutput {
  std::string text;  // without the whitespace at its end
  bool cut = false;  // then the output file is worth keeping
};

// `tail` is all that the engine retains. May wait a moment for the file's writer, when the head is no longer retained.
ShownOutput shown_output(const TaskRecord& task, const OutputTail& tail);

}  // namespace errand
