// SPDX-License-Identifier: Apache-2.0
#include "permission/shell_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace errand {
namespace {

bool is_plain(const ShellChar& each, char c) {
  return each.mark == ShellChar::Mark::plain && !each.quoted && !each.expanded && each.c == c;
}

void add_code_point(std::uint32_t code, std::string& into) {
  if (code < 0x80) {
    into += static_cast<char>(code);
  } else if (code < 0x800) {
    into += static_cast<char>(0xC0 | (code >> 6));
    into += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    into += static_cast<char>(0xE0 | (code >> 12));
    into += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    into += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    into += static_cast<char>(0xF0 | ((code >> 18) & 7));
    into += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    into += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    into += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// At most `most` digits of the base from `at` on, which moves behind them.
std::uint32_t take_number(std::string_view source, std::size_t& at, std::size_t most, int base) {
  std::uint32_t value = 0;
  for (std::size_t count = 0; count < most && at < source.size(); ++count, ++at) {
    const char c = source[at];
    int digit = 99;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (digit >= base) break;
    value = value * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(digit);
  }
  return value;
}

using Chars = std::vector<ShellChar>;

// The matching "}" of the brace at `open`, and the commas of its level.
std::size_t closing_brace(const Chars& chars, std::size_t open, std::vector<std::size_t>& commas) {
  int depth = 0;
  for (std::size_t i = open; i < chars.size(); ++i) {
    if (is_plain(chars[i], '{')) ++depth;
    if (is_plain(chars[i], ',') && depth == 1) commas.push_back(i);
    if (is_plain(chars[i], '}') && --depth == 0) return i;
  }
  return chars.size();
}

Chars slice(const Chars& chars, std::size_t from, std::size_t to) {
  return Chars(chars.begin() + static_cast<std::ptrdiff_t>(from), chars.begin() + static_cast<std::ptrdiff_t>(to));
}

// "1..3" or "a..c"; empty when it is no range or a long one.
std::vector<std::string> range_items(const Chars& chars, std::size_t from, std::size_t to, std::size_t most) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) {
    if (chars[i].mark != ShellChar::Mark::plain || chars[i].quoted) return {};
    text += chars[i].c;
  }
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos || dots == 0 || dots + 2 >= text.size()) return {};
  const std::string first = text.substr(0, dots), last = text.substr(dots + 2);
  std::vector<std::string> items;
  const bool letters = first.size() == 1 && last.size() == 1 && std::isalpha(static_cast<unsigned char>(first[0])) &&
                       std::isalpha(static_cast<unsigned char>(last[0]));
  char* end_first = nullptr;
  char* end_last = nullptr;
  const long low = letters ? first[0] : std::strtol(first.c_str(), &end_first, 10);
  const long high = letters ? last[0] : std::strtol(last.c_str(), &end_last, 10);
  if (!letters && (*end_first != '\0' || *end_last != '\0')) return {};
  const long step = low <= high ? 1 : -1;
  for (long value = low; items.size() < most; value += step) {
    items.push_back(letters ? std::string(1, static_cast<char>(value)) : std::to_string(value));
    if (value == high) break;
  }
  return items;
}

void brace_into(const ShellText& model, const Chars& chars, std::size_t most, int depth, std::vector<Chars>& into) {
  for (std::size_t i = 0; depth < 8 && i < chars.size(); ++i) {
    if (!is_plain(chars[i], '{')) continue;
    std::vector<std::size_t> commas;
    const std::size_t close = closing_brace(chars, i, commas);
    if (close == chars.size()) continue;
    std::vector<Chars> items;
    if (!commas.empty()) {
      std::size_t from = i + 1;
      commas.push_back(close);
      for (std::size_t comma : commas) {
        items.push_back(slice(chars, from, comma));
        from = comma + 1;
      }
    } else {
      for (const std::string& item : range_items(chars, i + 1, close, most)) {
        ShellText text;
        text.add(item, false);
        items.push_back(text.chars);
      }
    }
    if (items.empty()) continue;
    for (const Chars& item : items) {
      if (into.size() >= most) return;
      Chars whole = slice(chars, 0, i);
      whole.insert(whole.end(), item.begin(), item.end());
      whole.insert(whole.end(), chars.begin() + static_cast<std::ptrdiff_t>(close) + 1, chars.end());
      brace_into(model, whole, most, depth + 1, into);
    }
    return;
  }
  if (into.size() < most) into.push_back(chars);
}

// A word under construction.
struct Field {
  ShellWord word;
  bool any = false;

  void add(const ShellChar& each) {
    any = true;
    if (each.mark == ShellChar::Mark::unknown) {
      word.unresolved = true;
      word.source += kUnresolved;
      return;
    }
    word.text += each.c;
    word.source += each.c;
    // What an unquoted expansion gives is matched against names, too.
    if (!each.quoted && (each.c == '*' || each.c == '?' || each.c == '[')) word.glob = true;
  }
};

void expand_tilde(const ShellText& text, const std::string& home, ShellWord& word) {
  if (text.chars.empty() || !is_plain(text.chars[0], '~')) return;
  if (word.text == "~" || word.text.starts_with("~/")) {
    word.text = home + word.text.substr(1);
    word.source = home + word.source.substr(1);
  } else if (word.text.size() > 1 && (std::isalpha(static_cast<unsigned char>(word.text[1])) || word.text[1] == '_')) {
    // Another user's home: only that it is one matters.
    const bool is_root = word.text == "~root" || word.text.starts_with("~root/");
    word.text = is_root ? "/root" + word.text.substr(5) : "/home/" + word.text.substr(1);
  }
}

void finish(const ShellText& text, Field& field, std::vector<ShellWord>& into) {
  field.word.downloaded = text.downloaded;
  field.word.process = text.process;
  into.push_back(std::move(field.word));
  field = Field{};
}

}  // namespace

void ShellText::add(std::string_view text, bool quoted, bool expanded) {
  for (char c : text) {
    if (c == '\0') {
      add_unknown(quoted);
    } else {
      chars.push_back(ShellChar{c, quoted, expanded, ShellChar::Mark::plain});
    }
  }
}
void ShellText::add_unknown(bool quoted) { chars.push_back(ShellChar{0, quoted, true, ShellChar::Mark::unknown}); }
void ShellText::add_break() { chars.push_back(ShellChar{0, true, true, ShellChar::Mark::field_break}); }

void ShellText::append(const ShellText& other) {
  chars.insert(chars.end(), other.chars.begin(), other.chars.end());
  downloaded = downloaded || other.downloaded;
  quoted_empty = quoted_empty || other.quoted_empty;
  if (other.process) process = other.process;
}

void add_unquoted(std::string_view source, ShellText& into) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\\' || i + 1 == source.size()) {
      into.add(source.substr(i, 1), false);
    } else if (source[++i] != '\n') {
      into.add(source.substr(i, 1), true);
    }
  }
}

void add_double_quoted(std::string_view source, ShellText& into) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool escape = source[i] == '\\' && i + 1 < source.size() &&
                        std::string_view("$`\"\\\n").find(source[i + 1]) != std::string_view::npos;
    if (escape && source[++i] == '\n') continue;
    into.add(source.substr(i, 1), true);
  }
}

std::string decode_ansi_c(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size();) {
    if (source[i] != '\\' || i + 1 == source.size()) {
      text += source[i++];
      continue;
    }
    const char kind = source[i + 1];
    i += 2;
    switch (kind) {
      case 'a':
        text += '\a';
        break;
      case 'b':
        text += '\b';
        break;
      case 'e':
      case 'E':
        text += '\033';
        break;
      case 'f':
        text += '\f';
        break;
      case 'n':
        text += '\n';
        break;
      case 'r':
        text += '\r';
        break;
      case 't':
        text += '\t';
        break;
      case 'v':
        text += '\v';
        break;
      case 'x':
        text += static_cast<char>(take_number(source, i, 2, 16));
        break;
      case 'u':
        add_code_point(take_number(source, i, 4, 16), text);
        break;
      case 'U':
        add_code_point(take_number(source, i, 8, 16) & 0x1FFFFF, text);
        break;
      case 'c':
        text += i < source.size() ? static_cast<char>(source[i++] & 0x1F) : '\0';
        break;
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7':
        --i;
        text += static_cast<char>(take_number(source, i, 3, 8));
        break;
      default:
        text += kind;
        break;
    }
  }
  // The shell's strings end at a NUL.
  return text.substr(0, std::min(text.size(), text.find('\0')));
}

std::vector<ShellText> expand_braces(const ShellText& text, std::size_t most) {
  std::vector<Chars> expanded;
  brace_into(text, text.chars, most, 0, expanded);
  std::vector<ShellText> result;
  for (Chars& chars : expanded) {
    ShellText each = text;
    each.chars = std::move(chars);
    if (expanded.size() >= most) each.add_unknown(false);
    result.push_back(std::move(each));
  }
  return result;
}

std::vector<ShellWord> split_fields(const ShellText& text, const std::string& home) {
  std::vector<ShellWord> words;
  Field field;
  field.any = text.quoted_empty;
  for (const ShellChar& each : text.chars) {
    const bool space = each.mark == ShellChar::Mark::plain && each.expanded && !each.quoted &&
                       (each.c == ' ' || each.c == '\t' || each.c == '\n');
    if (each.mark == ShellChar::Mark::field_break || space) {
      if (field.any) finish(text, field, words);
    } else {
      field.add(each);
    }
  }
  if (field.any) finish(text, field, words);
  if (!words.empty()) expand_tilde(text, home, words.front());
  return words;
}

ShellWord join_fields(const ShellText& text, const std::string& home) {
  Field field;
  for (const ShellChar& each : text.chars) {
    if (each.mark == ShellChar::Mark::field_break) {
      field.add(ShellChar{' ', true, true, ShellChar::Mark::plain});
    } else {
      field.add(each);
    }
  }
  std::vector<ShellWord> words;
  finish(text, field, words);
  expand_tilde(text, home, words.front());
  return words.front();
}

std::string mark_unresolved(std::string_view text) {
  std::string marked;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kUnresolved)) {
      marked += '\0';
      at += kUnresolved.size();
    } else {
      marked += text[at++];
    }
  }
  return marked;
}

std::string marked_text(const ShellWord& word) { return word.unresolved ? mark_unresolved(word.source) : word.text; }

std::string joined_words(const std::vector<ShellWord>& words, std::size_t first) {
  std::string text;
  for (std::size_t i = first; i < words.size(); ++i) text += (i > first ? " " : "") + words[i].source;
  return text;
}

std::string shell_quote(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string quote_for_shell(std::string_view text) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-~*?[]{}^$!#";
  if (!text.empty() && text.find_first_not_of(kSafe) == std::string_view::npos) return std::string(text);
  return shell_quote(text);
}

}  // namespace errand
