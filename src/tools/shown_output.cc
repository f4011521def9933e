// SPDX-License-Identifier: Apache-2.0
#include "tools/shown_output.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/view.h"
#include "tools/task_text.h"

namespace errand {
namespace {

constexpr std::size_t kEdgeCharacters = kMostShownCharacters / 2;

std::string_view first_characters(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (at < text.size() && count > 0) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    --count;
  }
  return text.substr(0, at);
}

std::string_view last_characters(std::string_view text, std::size_t count) {
  std::size_t at = text.size();
  while (at > 0 && count > 0) {
    --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    --count;
  }
  return text.substr(at);
}

// Edges are cut at line ends where there is one in their outer half.
std::string_view whole_lines_at_end(std::string_view head) {
  const std::size_t newline = head.rfind('\n');
  return newline == std::string_view::npos || newline < head.size() / 2 ? head : head.substr(0, newline);
}

std::string_view whole_lines_at_start(std::string_view tail) {
  const std::size_t newline = tail.find('\n');
  return newline == std::string_view::npos || newline > tail.size() / 2 ? tail : tail.substr(newline + 1);
}

// The file's first bytes. Its writer works behind the reader of the output, so what is known to have been printed may
// take a moment to stand in it.
std::string read_head(const std::string& path, std::size_t bytes) {
  const std::int64_t deadline = monotonic_ms() + 2000;
  for (;;) {
    std::ifstream file(path, std::ios::binary);
    std::string head(bytes, '\0');
    file.read(head.data(), static_cast<std::streamsize>(bytes));
    head.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    if (head.size() == bytes || monotonic_ms() > deadline) return head;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

ShownOutput shown_output(const TaskRecord& task, const OutputTail& tail) {
  const std::string_view retained = trim_end(tail.text);
  if (!tail.truncated && utf8_length(retained) <= kMostShownCharacters) {
    if (!tail.lines_cut || task.output_file.empty()) return {std::string(retained), false};
    return {std::string(retained) + "\n... (lines are cut; the whole output is in " + task.output_file + ") ...", true};
  }

  std::string file_head;
  std::string_view head;
  if (!tail.truncated) {
    head = first_characters(retained, kEdgeCharacters);
  } else if (!task.output_file.empty()) {
    file_head = view_text(read_head(task.output_file, kEdgeCharacters));
    head = first_characters(file_head, kEdgeCharacters);
  }
  head = whole_lines_at_end(head);
  const std::string_view end = whole_lines_at_start(last_characters(retained, kEdgeCharacters));
  const std::uint64_t shown = head.size() + end.size();
  const std::uint64_t missing = task.output_bytes > shown ? task.output_bytes - shown : 0;
  std::string text(head);
  if (!text.empty()) text += "\n";
  text += "... (" + std::to_string(missing) + " bytes left out";
  if (!task.output_file.empty()) text += "; the whole output is in " + task.output_file;
  if (task.output_error) text += ", incomplete: " + *task.output_error;
  text += ") ...\n";
  text += end;
  return {text, true};
}

}  // namespace errand
