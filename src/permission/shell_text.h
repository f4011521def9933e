// SPDX-License-Identifier: Apache-2.0
// A word on its way from source to what the shell sees: characters that remember whether they were quoted and whether
// they came out of an expansion. Braces, tilde and splitting are decided by that.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "permission/shell_parse.h"

namespace errand {

// What stands for an unknown part when a word's text is read as a shell text again, and where it is shown.
inline constexpr std::string_view kUnresolvedName = "_unresolved_";
inline constexpr std::string_view kUnresolved = "${_unresolved_}";

struct ShellChar {
  enum class Mark : unsigned char { plain, unknown, field_break };
  char c = 0;
  bool quoted = false;
  bool expanded = false;
  Mark mark = Mark::plain;  // unknown: a part of any length; field_break: the border between two elements of "$@"
};

struct ShellText {
  std::vector<ShellChar> chars;
  bool downloaded = false;
  bool quoted_empty = false;  // "" stands in it: an empty word is a word
  std::shared_ptr<const ShellFlow> process;

  // A NUL in the text is an unknown part: see marked_text().
  void add(std::string_view text, bool quoted, bool expanded = false);
  void add_unknown(bool quoted);
  void add_break();
  void append(const ShellText& other);
};

// \-sequences outside quotes, inside double quotes, and of $'...' (without the quotes).
void add_unquoted(std::string_view source, ShellText& into);
void add_double_quoted(std::string_view source, ShellText& into);
std::string decode_ansi_c(std::string_view source);

// "a{b,c}" gives two texts, "{1..3}" three; at most `most`, the rest is unknown.
std::vector<ShellText> expand_braces(const ShellText& text, std::size_t most);
// Into fields at unquoted expanded white space and at breaks.
std::vector<ShellWord> split_fields(const ShellText& text, const std::string& home);
// One word whatever is in it: the value of an assignment, a redirection's target.
ShellWord join_fields(const ShellText& text, const std::string& home);

// A word's text with a NUL where its unknown parts are: what a variable keeps of it.
std::string marked_text(const ShellWord& word);
// The same for a text in which the unknown parts stand as kUnresolved.
std::string mark_unresolved(std::string_view text);

// The words from `first` on as a text to be read again, as eval and ssh do.
std::string joined_words(const std::vector<ShellWord>& words, std::size_t first);

// In single quotes, whatever it is: one word for every shell.
std::string shell_quote(std::string_view text);
// Single quotes where a shell would need quotes.
std::string quote_for_shell(std::string_view text);

}  // namespace errand
