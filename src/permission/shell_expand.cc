// SPDX-License-Identifier: Apache-2.0
// Words: quotes, variables, substitutions.
#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "permission/shell_walker.h"

namespace errand {
namespace {

constexpr std::size_t kMostWays = 16;
constexpr std::size_t kMostBraces = 64;
constexpr std::size_t kMostChars = 100000;

std::vector<ShellText> one(ShellText text) {
  std::vector<ShellText> texts;
  texts.push_back(std::move(text));
  return texts;
}

ShellText unknown_text(bool quoted) {
  ShellText text;
  text.add_unknown(quoted);
  return text;
}

// Every way of the left with every way of the right. What the bound leaves out becomes one unknown way.
void multiply(std::vector<ShellText>& left, const std::vector<ShellText>& right) {
  if (right.size() == 1) {
    for (ShellText& text : left) {
      if (text.chars.size() + right[0].chars.size() > kMostChars) continue;
      text.append(right[0]);
    }
    return;
  }
  std::vector<ShellText> result;
  for (const ShellText& first : left) {
    for (const ShellText& second : right) {
      if (result.size() == kMostWays) {
        result.back().add_unknown(true);
        left = std::move(result);
        return;
      }
      ShellText both = first;
      both.append(second);
      result.push_back(std::move(both));
    }
  }
  left = std::move(result);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string strip_prefix(const std::string& value, const std::string& pattern, bool longest) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    if (::fnmatch(pattern.c_str(), value.substr(0, length).c_str(), 0) == 0) return value.substr(length);
  }
  return value;
}

std::string strip_suffix(const std::string& value, const std::string& pattern, bool longest) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t from = longest ? i : value.size() - i;
    if (::fnmatch(pattern.c_str(), value.substr(from).c_str(), 0) == 0) return value.substr(0, from);
  }
  return value;
}

// ${X:1:2}; nothing when a bound is no plain number.
std::optional<std::string> substring(const std::string& value, std::string_view bounds) {
  const std::size_t colon = bounds.find(':');
  std::string from_text(bounds.substr(0, colon));
  from_text.erase(std::remove(from_text.begin(), from_text.end(), ' '), from_text.end());
  if (!is_number(from_text)) return std::nullopt;
  const auto from = static_cast<std::size_t>(std::strtoul(from_text.c_str(), nullptr, 10));
  if (from > value.size()) return std::string();
  if (colon == std::string_view::npos) return value.substr(from);
  std::string count(bounds.substr(colon + 1));
  count.erase(std::remove(count.begin(), count.end(), ' '), count.end());
  if (!is_number(count)) return std::nullopt;
  return value.substr(from, static_cast<std::size_t>(std::strtoul(count.c_str(), nullptr, 10)));
}

}  // namespace

ShellValue ShellWalker::lookup(const std::string& name, const ShellState& state) const {
  const auto found = state.variables.find(name);
  if (found != state.variables.end()) return found->second;
  if (name == kUnresolvedName) return ShellValue{{}, true, false};
  if (name == "IFS") return ShellValue{{{" \t\n"}}, false, false};
  if (state.remote)
    return ShellValue{name == "HOME" ? std::vector<std::vector<std::string>>{{surroundings_.home}}
                                     : std::vector<std::vector<std::string>>{},
                      name != "HOME", false};
  if (name == "HOME") return ShellValue{{{surroundings_.home}}, false, false};
  if (name == "PWD") {
    ShellValue value;
    for (const std::string& folder : state.folders) value.choices.push_back({folder});
    value.unknown = state.folders.empty();
    return value;
  }
  if (state.environment_known && surroundings_.variable) {
    if (std::optional<std::string> text = surroundings_.variable(name)) return ShellValue{{{*text}}, false, false};
  }
  return ShellValue{{}, true, false};
}

// index: "" the first element, "@" all as fields, "*" all as one, a number that one.
std::vector<ShellText> ShellWalker::texts_of(const ShellValue& value, bool quoted, std::string_view index) {
  std::vector<ShellText> texts;
  for (const std::vector<std::string>& choice : value.choices) {
    ShellText text;
    if (index == "@" || index == "*") {
      for (std::size_t i = 0; i < choice.size(); ++i) {
        if (i > 0 && (index == "@" || !quoted)) text.add_break();
        if (i > 0 && index == "*" && quoted) text.add(" ", true, true);
        text.add(choice[i], quoted, true);
      }
    } else {
      const std::size_t at =
          is_number(index) ? static_cast<std::size_t>(std::strtoul(std::string(index).c_str(), nullptr, 10)) : 0;
      if (!index.empty() && !is_number(index)) text.add_unknown(quoted);
      if (at < choice.size()) text.add(choice[at], quoted, true);
    }
    text.downloaded = value.downloaded;
    texts.push_back(std::move(text));
    if (texts.size() == kMostWays) break;
  }
  if (value.unknown || texts.empty()) {
    ShellText text = unknown_text(quoted);
    text.downloaded = value.downloaded;
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<ShellText> ShellWalker::expand_children(const ShellNode& node, ShellState& state, bool quoted) {
  std::vector<ShellText> result = one(ShellText{});
  std::uint32_t at = node.begin();
  auto literal = [&](std::uint32_t to) {
    if (to <= at) return;
    const std::string_view gap = node.tree()->text().substr(at, to - at);
    ShellText text;
    if (quoted) {
      add_double_quoted(gap, text);
    } else {
      add_unquoted(gap, text);
    }
    multiply(result, one(std::move(text)));
  };
  for (const ShellNode& child : node.children()) {
    const std::string_view type = child.type();
    if (quoted) {
      if (type == "\"") {
        literal(child.begin());
        at = child.end();
        continue;
      }
      if (type == "simple_expansion" || type == "expansion") {
        literal(child.begin());
        multiply(result, expand_parameter(child, state, true));
        at = child.end();
      } else if (type == "command_substitution" || type == "arithmetic_expansion") {
        literal(child.begin());
        multiply(result, one(substitution(child, state, true)));
        at = child.end();
      }
      continue;  // the rest is text, taken with the next gap
    }
    literal(child.begin());
    at = child.end();
    multiply(result, expand(child, state));
  }
  literal(node.end());
  return result;
}

std::vector<ShellText> ShellWalker::expand(const ShellNode& node, ShellState& state) {
  ++depth_;
  const bool good = within_bounds();
  std::vector<ShellText> result;
  const std::string_view type = node.type();
  const std::string_view source = node.text();
  if (!good) {
    result = one(unknown_text(false));
  } else if (type == "string") {
    result = expand_children(node, state, true);
    for (ShellText& text : result) text.quoted_empty = true;
  } else if (type == "translated_string" || type == "concatenation" || type == "command_name" || type == "ERROR") {
    result = expand_children(node, state, false);
  } else if (type == "raw_string") {
    ShellText text;
    if (source.size() >= 2) text.add(source.substr(1, source.size() - 2), true);
    text.quoted_empty = true;
    result = one(std::move(text));
  } else if (type == "ansi_c_string") {
    ShellText text;
    if (source.size() >= 3) text.add(decode_ansi_c(source.substr(2, source.size() - 3)), true);
    text.quoted_empty = true;
    result = one(std::move(text));
  } else if (type == "simple_expansion" || type == "expansion") {
    result = expand_parameter(node, state, false);
  } else if (type == "command_substitution" || type == "process_substitution" || type == "arithmetic_expansion") {
    result = one(substitution(node, state, false));
  } else if (type == "$" && node.begin() + 1 < node.tree()->text().size() &&
             node.tree()->text()[node.begin() + 1] == '"') {
    result = one(ShellText{});  // $"...": a string to be translated
  } else if (type == "word" || type == "number" || !node.named() || node.children().empty()) {
    ShellText text;
    add_unquoted(source, text);
    result = one(std::move(text));
  } else {
    result = expand_children(node, state, false);
  }
  --depth_;
  return result;
}

ShellText ShellWalker::substitution(const ShellNode& node, ShellState& state, bool quoted) {
  ShellText text;
  if (node.is("arithmetic_expansion")) {
    walk_substitutions_in(node, state);
    text.add_unknown(quoted);
    return text;
  }
  ShellState copy = state;
  const int outer_parent = parent_;
  ShellFlow flow = statements(node, copy, ShellFlow{});
  parent_ = outer_parent;
  state.from_net.insert(copy.from_net.begin(), copy.from_net.end());
  state.written.insert(copy.written.begin(), copy.written.end());
  if (node.is("process_substitution")) {
    if (node.text().starts_with(">(")) flow = ShellFlow{};
    text.add_unknown(quoted);
    text.process = std::make_shared<const ShellFlow>(std::move(flow));
    text.downloaded = text.process->kind == ShellFlow::Kind::download;
    return text;
  }
  if (flow.kind == ShellFlow::Kind::literal) {
    while (flow.text.ends_with('\n')) flow.text.pop_back();
    text.add(mark_unresolved(flow.text), quoted, true);
  } else {
    text.add_unknown(quoted);
    text.downloaded = flow.kind == ShellFlow::Kind::download;
  }
  return text;
}

// The substitutions of a place whose own value does not matter here.
void ShellWalker::walk_substitutions_in(const ShellNode& node, ShellState& state) {
  ++depth_;
  if (within_bounds()) {
    if (node.is("command_substitution") || node.is("process_substitution")) {
      substitution(node, state, false);
    } else {
      for (const ShellNode& child : node.children()) walk_substitutions_in(child, state);
    }
  }
  --depth_;
}

std::vector<ShellText> ShellWalker::expand_parameter(const ShellNode& node, ShellState& state, bool quoted) {
  std::string_view body = node.text();
  const bool braced = body.starts_with("${");
  body.remove_prefix(std::min<std::size_t>(body.size(), braced ? 2 : 1));
  if (braced && body.ends_with('}')) body.remove_suffix(1);
  if (braced) walk_substitutions_in(node, state);

  bool indirect = false;
  if (braced && body.size() > 1 && body[0] == '#') return one(unknown_text(quoted));  // a length
  if (braced && body.size() > 1 && body[0] == '!') {
    indirect = true;
    body.remove_prefix(1);
  }
  std::size_t length = 0;
  const std::string_view kNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  while (length < body.size() && kNameChars.find(body[length]) != std::string_view::npos) ++length;
  if (length == 0) length = std::min<std::size_t>(1, body.size());
  const std::string name(body.substr(0, length));
  std::string_view rest = body.substr(length);
  std::string index;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return one(unknown_text(quoted));
    index = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  }

  ShellValue value;
  if (name == "@" || name == "*" || is_number(name)) {
    if (!state.arguments) {
      value.unknown = true;
    } else if (is_number(name)) {
      const auto at = static_cast<std::size_t>(std::strtoul(name.c_str(), nullptr, 10));
      if (at == 0) {
        value.choices.push_back({"bash"});
      } else if (at <= state.arguments->size()) {
        const ShellWord& word = (*state.arguments)[at - 1];
        value = ShellValue{{{marked_text(word)}}, false, word.downloaded};
      } else {
        value.choices.push_back({""});
      }
    } else {
      index = name;
      value.choices.emplace_back();
      for (const ShellWord& word : *state.arguments) value.choices.back().push_back(marked_text(word));
    }
  } else if (name.size() == 1 && std::string_view("?#$!-").find(name[0]) != std::string_view::npos) {
    return one(unknown_text(quoted));
  } else {
    value = lookup(name, state);
  }
  if (indirect) {
    ShellValue target;
    for (const auto& choice : value.choices) {
      const ShellValue pointed = choice.empty() ? ShellValue{{}, true, false} : lookup(choice[0], state);
      target.choices.insert(target.choices.end(), pointed.choices.begin(), pointed.choices.end());
      target.unknown = target.unknown || pointed.unknown;
    }
    target.unknown = target.unknown || value.unknown;
    value = target;
  }
  if (rest.empty()) return texts_of(value, quoted, index);

  // An operator, and the word behind it as the shell would expand it.
  std::string_view op = rest.substr(0, 1);
  if (rest.size() > 1 && (rest[0] == ':' || rest[0] == rest[1]) &&
      std::string_view("-=+?#%").find(rest[1]) != std::string_view::npos) {
    op = rest.substr(0, 2);
  }
  const std::string_view operand_source = rest.substr(op.size());
  std::vector<ShellText> operand = one(ShellText{});
  bool inside = false;
  for (const ShellNode& child : node.children()) {
    if (child.begin() >= node.begin() + static_cast<std::uint32_t>(operand_source.data() - node.text().data()) &&
        child.type() != "}") {
      multiply(operand, expand(child, state));
      inside = true;
    }
  }
  if (!inside && !operand_source.empty()) {
    ShellText text;
    add_unquoted(operand_source, text);
    operand = one(std::move(text));
  }
  auto requote = [quoted](std::vector<ShellText> texts) {
    for (ShellText& text : texts) {
      for (ShellChar& each : text.chars) {
        each.expanded = true;
        each.quoted = each.quoted || quoted;
      }
    }
    return texts;
  };

  if (op == ":-" || op == "-" || op == ":=" || op == "=") {
    std::vector<ShellText> texts;
    bool may_be_default = value.unknown || value.choices.empty();
    ShellValue known = value;
    known.unknown = false;
    std::erase_if(known.choices, [&](const std::vector<std::string>& choice) {
      const bool empty = choice.empty() || choice[0].empty();
      const bool may_be_empty = empty || choice[0].find_first_not_of('\0') == std::string::npos;
      may_be_default = may_be_default || (may_be_empty && op.size() == 2);
      return empty && op.size() == 2;
    });
    if (!known.choices.empty()) texts = texts_of(known, quoted, index);
    if (may_be_default) {
      for (ShellText& text : requote(operand)) texts.push_back(std::move(text));
      if (value.unknown) texts.push_back(unknown_text(quoted));
    }
    if (op.ends_with('=')) {
      ShellValue assigned = value;
      for (const ShellText& text : operand)
        assigned.choices.push_back({marked_text(join_fields(text, surroundings_.home))});
      state.variables[name] = assigned;
    }
    return texts;
  }
  if (op == ":+" || op == "+") {
    std::vector<ShellText> texts = requote(operand);
    if (value.unknown || value.choices.empty()) texts.push_back(ShellText{});
    return texts;
  }
  if (op == ":?" || op == "?") {
    if (value.choices.empty()) {
      // It is set to something, or nothing runs: never empty.
      ShellText text = unknown_text(quoted);
      text.add("_", quoted, true);
      return one(std::move(text));
    }
    value.unknown = false;
    return texts_of(value, quoted, index);
  }
  std::vector<ShellText> texts;
  const std::string pattern = join_fields(operand.front(), surroundings_.home).text;
  for (const auto& choice : value.choices) {
    if (choice.size() != 1 || choice[0].size() > 4096 || choice[0].find('\0') != std::string::npos) {
      texts.clear();
      break;
    }
    std::optional<std::string> changed;
    if (op == "#" || op == "##") changed = strip_prefix(choice[0], pattern, op.size() == 2);
    if (op == "%" || op == "%%") changed = strip_suffix(choice[0], pattern, op.size() == 2);
    if (op == ":") changed = substring(choice[0], operand_source);
    if (!changed) {
      texts.clear();
      break;
    }
    ShellText text;
    text.add(*changed, quoted, true);
    texts.push_back(std::move(text));
  }
  if (texts.empty() || value.unknown) texts.push_back(unknown_text(quoted));
  return texts;
}

void ShellWalker::assign(const ShellNode& node, ShellState& state,
                         std::vector<std::pair<std::string, ShellWord>>* prefix) {
  const ShellNode name_node = node.field("name");
  const ShellNode value_node = node.field("value");
  if (!name_node.valid()) return;
  std::string name(name_node.text());
  const bool element = name_node.is("subscript");
  if (element) {
    walk_substitutions_in(name_node, state);
    name = name.substr(0, name.find('['));
  }
  bool appends = false;
  for (const ShellNode& child : node.children()) appends = appends || child.is("+=");

  ShellValue value;
  ShellWord shown;
  if (!value_node.valid()) {
    value.choices.push_back({""});
  } else if (value_node.is("array")) {
    std::vector<ShellNode> elements;
    for (const ShellNode& child : value_node.children()) {
      if (child.named()) elements.push_back(child);
    }
    for (const std::vector<ShellWord>& words : expand_words(elements, state)) {
      value.choices.emplace_back();
      for (const ShellWord& word : words) value.choices.back().push_back(marked_text(word));
    }
  } else {
    for (const ShellText& text : expand(value_node, state)) {
      const ShellWord word = join_fields(text, surroundings_.home);
      value.choices.push_back({marked_text(word)});
      value.downloaded = value.downloaded || word.downloaded;
      shown = word;
    }
  }
  if (appends || element) {
    const ShellValue old = lookup(name, state);
    ShellValue joined;
    joined.unknown = old.unknown || value.unknown || element;
    joined.downloaded = old.downloaded || value.downloaded;
    for (const auto& first : old.choices) {
      for (const auto& second : value.choices) {
        if (joined.choices.size() == kMostWays) break;
        std::vector<std::string> both = first;
        if (value_node.valid() && value_node.is("array")) {
          both.insert(both.end(), second.begin(), second.end());
        } else if (!both.empty() && !second.empty() && both[0].size() + second[0].size() < kMostChars && !element) {
          both[0] += second[0];
        } else if (element) {
          both.insert(both.end(), second.begin(), second.end());
        }
        joined.choices.push_back(std::move(both));
      }
    }
    // An unset one starts out empty.
    if (old.choices.empty()) joined.choices = value.choices;
    value = joined;
  }
  if (value.choices.size() > kMostWays) {
    value.choices.resize(kMostWays);
    value.unknown = true;
  }
  state.variables[name] = value;
  if (prefix) prefix->emplace_back(name, shown);
}

// Every way in which the words may come out; the first words of all are commands' names.
std::vector<std::vector<ShellWord>> ShellWalker::expand_words(const std::vector<ShellNode>& nodes, ShellState& state) {
  std::vector<std::vector<ShellWord>> ways(1);
  for (const ShellNode& node : nodes) {
    std::vector<std::vector<ShellWord>> parts;
    for (const ShellText& text : expand(node, state)) {
      std::vector<ShellWord> words;
      for (const ShellText& each : expand_braces(text, kMostBraces)) {
        std::vector<ShellWord> fields = split_fields(each, surroundings_.home);
        words.insert(words.end(), std::make_move_iterator(fields.begin()), std::make_move_iterator(fields.end()));
      }
      parts.push_back(std::move(words));
    }
    if (parts.size() == 1) {
      for (std::vector<ShellWord>& way : ways) way.insert(way.end(), parts[0].begin(), parts[0].end());
      continue;
    }
    std::vector<std::vector<ShellWord>> result;
    for (const std::vector<ShellWord>& way : ways) {
      for (const std::vector<ShellWord>& part : parts) {
        if (result.size() == kMostWays) {
          find(ShellFinding::Kind::unreadable, std::string(node.text()), "a variable may have too many values");
          break;
        }
        std::vector<ShellWord> both = way;
        both.insert(both.end(), part.begin(), part.end());
        result.push_back(std::move(both));
      }
    }
    ways = std::move(result);
  }
  return ways;
}

std::vector<ShellWord> ShellWalker::possible_words(const ShellNode& node, ShellState& state) {
  std::vector<ShellWord> words;
  for (const ShellText& text : expand(node, state)) words.push_back(join_fields(text, surroundings_.home));
  return words;
}

// Where several values would make no difference, or are too rare to follow.
ShellWord ShellWalker::single_word(const ShellNode& node, ShellState& state) {
  std::vector<ShellWord> words = possible_words(node, state);
  ShellWord word = words.empty() ? ShellWord{} : std::move(words.front());
  word.unresolved = word.unresolved || words.size() > 1;
  return word;
}

}  // namespace errand
