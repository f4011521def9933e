// SPDX-License-Identifier: Apache-2.0
#include "engine/output.h"

#include <utility>

#include "base/clock.h"
#include "base/utf8.h"

namespace errand {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Bytes at the end that may be the beginning of a code point: 0 when the text ends with a whole one, or with garbage.
std::size_t unfinished_code_point(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    if (byte < 0xC2 || byte > 0xF4) return 0;  // nothing begins so
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if (length <= back) return 0;
    // A maximal subpart of an ill-formed sequence is one U+FFFD; only a prefix of a well-formed one is held back.
    std::string_view tail = bytes.substr(bytes.size() - back);
    return clean_utf8(tail) == "\xEF\xBF\xBD" ? back : 0;
  }
  return 0;
}

}  // namespace

Output::Output(std::size_t max_retained, std::unique_ptr<OutputFile> file)
    : file_(std::move(file)), retained_(max_retained) {}

OutputFile::Appended Output::append(std::string_view bytes, std::size_t chunk, bool after_end) {
  {
    const MutexLock lock(mutex_);
    retained_.append(bytes);
    bytes_ += bytes.size();
    if (after_end) bytes_after_end_ += bytes.size();
    last_at_ms_ = wall_ms();
    last_at_monotonic_ms_ = monotonic_ms();
  }
  return file_ ? file_->append(bytes, chunk) : OutputFile::Appended{};
}

void Output::finish() {
  {
    const MutexLock lock(mutex_);
    finished_ = true;
  }
  if (file_) file_->finish();
}

OutputTail Output::tail(std::size_t lines) const {
  std::string bytes;
  OutputTail tail;
  bool finished = false;
  {
    const MutexLock lock(mutex_);
    bytes = retained_.contents();
    tail.truncated = bytes_ > bytes.size();
    finished = finished_;
  }
  tail.text = tail_text(bytes, lines, tail.truncated, finished);
  return tail;
}

void Output::describe(TaskRecord& record) const {
  {
    const MutexLock lock(mutex_);
    record.output_bytes = bytes_;
    record.output_bytes_after_end = bytes_after_end_;
    record.output_truncated = bytes_ > retained_.size();
    record.last_output_at_ms = last_at_ms_;
    if (last_at_ms_) record.last_output_age_ms = monotonic_ms() - last_at_monotonic_ms_;
  }
  if (file_) {
    record.output_file = file_->path();
    record.output_unwritten_bytes = file_->unwritten_bytes();
    record.output_error = file_->error();
  } else {
    record.output_unwritten_bytes = record.output_bytes;
  }
}

std::string tail_text(std::string_view bytes, std::size_t lines, bool truncated, bool finished) {
  if (!finished) bytes.remove_suffix(unfinished_code_point(bytes));
  if (truncated) {
    const std::size_t newline = bytes.find('\n');
    if (newline != std::string_view::npos && newline + 1 < bytes.size()) {
      bytes.remove_prefix(newline + 1);
    } else {
      std::size_t cut = 0;
      while (cut < 3 && cut < bytes.size() && is_continuation(bytes[cut])) ++cut;
      bytes.remove_prefix(cut);
    }
  }
  if (lines > 0 && !bytes.empty()) {
    std::size_t at = bytes.size() - (bytes.back() == '\n' ? 1 : 0);
    for (std::size_t seen = 0; at > 0; --at) {
      if (bytes[at - 1] == '\n' && ++seen == lines) break;
    }
    bytes.remove_prefix(at);
  }
  return clean_utf8(bytes);
}

}  // namespace errand
