// SPDX-License-Identifier: Apache-2.0
// Small text files as a whole: read with an error for people, replaced so that a reader sees the old one or the new
// one.
#pragma once

#include <string>
#include <string_view>

namespace errand {

// The text, or nothing and what failed in `error`: `cannot open "/x": Permission denied`. A missing file that may be
// missing is an empty text without an error. Over 1 MiB is an error.
std::string read_text_file(const std::string& path, bool may_be_missing, std::string& error);

// Replaces the file, with mode 0600, by way of a new one beside it. An empty text, or what failed.
std::string replace_private_file(const std::string& path, std::string_view text);

}  // namespace errand
