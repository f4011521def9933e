// SPDX-License-Identifier: Apache-2.0
#include "permission/shell_walker.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace errand {
namespace {

constexpr int kMostDepth = 120;
constexpr std::size_t kMostWork = 20000;
constexpr std::size_t kMostCommands = 3000;
constexpr std::size_t kMostText = 200000;
constexpr std::size_t kMostChoices = 16;

// The value as it is, or what an unset variable is.
ShellValue value_in(const ShellState& state, const std::string& name) {
  const auto found = state.variables.find(name);
  if (found != state.variables.end()) return found->second;
  return ShellValue{{}, true, false};
}

void merge_value(ShellValue& into, const ShellValue& other) {
  for (const auto& choice : other.choices) {
    if (std::find(into.choices.begin(), into.choices.end(), choice) == into.choices.end())
      into.choices.push_back(choice);
  }
  into.unknown = into.unknown || other.unknown;
  into.downloaded = into.downloaded || other.downloaded;
  if (into.choices.size() > kMostChoices) {
    into.choices.resize(kMostChoices);
    into.unknown = true;
  }
}

}  // namespace

bool is_statement(const ShellNode& node) {
  static const std::set<std::string_view> kStatements = {"list",
                                                         "pipeline",
                                                         "command",
                                                         "redirected_statement",
                                                         "subshell",
                                                         "compound_statement",
                                                         "for_statement",
                                                         "c_style_for_statement",
                                                         "while_statement",
                                                         "if_statement",
                                                         "case_statement",
                                                         "function_definition",
                                                         "variable_assignment",
                                                         "variable_assignments",
                                                         "declaration_command",
                                                         "unset_command",
                                                         "test_command",
                                                         "negated_command",
                                                         "do_group",
                                                         "ERROR"};
  return kStatements.contains(node.type());
}

ShellFlow join_flows(const ShellFlow& first, const ShellFlow& second) {
  using Kind = ShellFlow::Kind;
  if (first.kind == Kind::none) return second;
  if (second.kind == Kind::none) return first;
  if (first.kind == Kind::download || second.kind == Kind::download) return ShellFlow{Kind::download, "", {}};
  if (first.kind == Kind::literal && second.kind == Kind::literal) {
    return ShellFlow{Kind::literal, first.text + second.text, {}};
  }
  ShellFlow joined{first.kind == Kind::file && second.kind == Kind::file ? Kind::file : Kind::computed, "",
                   first.roots};
  joined.roots.insert(joined.roots.end(), second.roots.begin(), second.roots.end());
  return joined;
}

void merge_state(ShellState& into, const ShellState& other, const ShellState& before) {
  for (const auto& [name, value] : other.variables) {
    const auto found = into.variables.find(name);
    if (found != into.variables.end()) {
      merge_value(found->second, value);
    } else {
      // Not set on the one way: it may still be what it was before.
      ShellValue merged = value;
      merge_value(merged, value_in(before, name));
      into.variables[name] = merged;
    }
  }
  for (auto& [name, value] : into.variables) {
    if (!other.variables.contains(name)) merge_value(value, value_in(before, name));
  }
  for (const auto& [name, function] : other.functions) into.functions.emplace(name, function);
  if (into.folders.empty() || other.folders.empty()) {
    into.folders.clear();
  } else {
    for (const std::string& folder : other.folders) {
      if (std::find(into.folders.begin(), into.folders.end(), folder) == into.folders.end())
        into.folders.push_back(folder);
    }
    if (into.folders.size() > kMostChoices) into.folders.clear();
  }
  into.from_net.insert(other.from_net.begin(), other.from_net.end());
  into.written.insert(other.written.begin(), other.written.end());
  into.environment_known = into.environment_known && other.environment_known;
}

void ShellWalker::find(ShellFinding::Kind kind, std::string part, std::string reason) {
  if (part.size() > 300) part = part.substr(0, 300) + "...";
  for (const ShellFinding& known : script_.findings) {
    if (known.kind == kind && known.part == part) return;
  }
  script_.findings.push_back(ShellFinding{kind, std::move(part), std::move(reason)});
}

bool ShellWalker::within_bounds() {
  if (depth_ <= kMostDepth && ++work_ <= kMostWork && script_.commands.size() < kMostCommands) return true;
  find(ShellFinding::Kind::unreadable, "", "the command is too long or too deeply nested to be checked");
  return false;
}

void ShellWalker::run(std::string_view text) {
  ShellState state;
  state.folders = {surroundings_.folder};
  script(std::string(text), state, ShellFlow{});
  call_uncalled_functions(state);
}

ShellFlow ShellWalker::script(const std::string& text, ShellState& state, const ShellFlow& input) {
  const Deeper deeper(depth_);
  if (text.size() > kMostText || text.find('\0') != std::string::npos) {
    find(ShellFinding::Kind::unreadable, text, "the command is too long to be checked, or holds a NUL");
    return {};
  }
  if (!within_bounds()) return {};
  const std::shared_ptr<const ShellTree> tree = ShellTree::parse(text);
  if (!tree) {
    find(ShellFinding::Kind::unreadable, text, "the command could not be read in time");
    return {};
  }
  if (tree->root().has_error()) {
    find(ShellFinding::Kind::unreadable, text, "the command cannot be read as shell syntax");
  }
  // Functions keep nodes of the tree; `statements` gives them a share of it.
  trees_.push_back(tree);
  return statements(tree->root(), state, input);
}

ShellFlow ShellWalker::statements(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  ShellFlow output;
  const std::vector<ShellNode> children = node.children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    const ShellNode& child = children[i];
    if (!is_statement(child)) {
      if (child.named() && !child.is("comment") && !child.is("heredoc_body")) walk_substitutions_in(child, state);
      continue;
    }
    const bool background = i + 1 < children.size() && children[i + 1].is("&");
    if (background) {
      // A subshell: nothing that it sets is seen later.
      const std::vector<Frame> frames = frames_;
      for (Frame& frame : frames_) frame.concurrent = true;
      ShellState copy = state;
      output = join_flows(output, statement(child, copy, input));
      frames_ = frames;
    } else {
      output = join_flows(output, statement(child, state, input));
    }
  }
  return output;
}

ShellFlow ShellWalker::statement(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  const Deeper deeper(depth_);
  if (!within_bounds()) return {};
  const std::string_view type = node.type();
  if (type == "command") return simple_command(node, state, input);
  if (type == "pipeline") return pipeline(node, state, input);
  if (type == "list") return list(node, state, input);
  if (type == "redirected_statement") return redirected(node, state, input);
  if (type == "for_statement") return for_loop(node, state, input);
  if (type == "while_statement" || type == "c_style_for_statement") return while_loop(node, state, input);
  if (type == "if_statement") return if_branches(node, state, input);
  if (type == "case_statement") return case_branches(node, state, input);
  if (type == "declaration_command" || type == "unset_command") return declaration(node, state);
  if (type == "subshell") {
    ShellState copy = state;
    ShellFlow output = statements(node, copy, input);
    state.from_net.insert(copy.from_net.begin(), copy.from_net.end());
    state.written.insert(copy.written.begin(), copy.written.end());
    return output;
  }
  if (type == "function_definition") {
    define_function(node, state);
    return {};
  }
  if (type == "variable_assignment" || type == "variable_assignments") return declaration(node, state);
  if (type == "test_command") {
    walk_substitutions_in(node, state);
    return {};
  }
  return statements(node, state, input);  // program, compound_statement, do_group, negated_command, ERROR
}

ShellFlow ShellWalker::pipeline(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  const std::vector<Frame> frames = frames_;
  for (Frame& frame : frames_) frame.concurrent = true;
  ShellFlow flow = input;
  for (const ShellNode& child : node.children()) {
    if (!is_statement(child)) continue;
    ShellState copy = state;
    flow = statement(child, copy, flow);
    state.from_net.insert(copy.from_net.begin(), copy.from_net.end());
    state.written.insert(copy.written.begin(), copy.written.end());
  }
  frames_ = frames;
  return flow;
}

ShellFlow ShellWalker::list(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  // "a && b || c" is nested to the left: flattened here, so that a long chain is no depth.
  std::vector<std::pair<std::string_view, ShellNode>> chain;
  for (ShellNode at = node;;) {
    ShellNode left;
    std::string_view op;
    for (const ShellNode& child : at.children()) {
      if (!child.named()) {
        op = child.type();
      } else if (!left.valid()) {
        left = child;
      } else if (is_statement(child)) {
        chain.emplace_back(op, child);
      }
    }
    if (!left.valid() || !left.is("list")) {
      if (left.valid()) chain.emplace_back("", left);
      break;
    }
    at = left;
  }
  std::reverse(chain.begin(), chain.end());

  const std::vector<Frame> frames = frames_;
  const ShellState before = state;
  ShellFlow output;
  ShellState good = state;  // as it is when everything so far has succeeded
  for (const auto& [op, part] : chain) {
    if (op.empty()) {
      output = is_statement(part) ? statement(part, good, input) : ShellFlow{};
      state = good;
      for (Frame& frame : frames_) frame.conditional = true;
    } else if (op == "&&") {
      output = join_flows(output, statement(part, good, input));
      merge_state(state, good, before);
    } else {
      ShellState other = state;
      output = join_flows(output, statement(part, other, input));
      merge_state(good, other, before);
      merge_state(state, other, before);
    }
  }
  frames_ = frames;
  return output;
}

ShellFlow ShellWalker::redirected(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  Redirects redirects;
  std::vector<ShellNode> behind;
  std::vector<ShellNode> bodies;
  for (const ShellNode& child : node.children()) {
    if (is_statement(child)) {
      bodies.push_back(child);
    } else if (child.type().ends_with("_redirect")) {
      read_redirect(child, state, redirects, behind);
    }
  }
  const ShellFlow own_input = redirects.input.value_or(input);
  ShellFlow output;
  const bool plain = !bodies.empty() && bodies.front().is("command");
  if (!plain && !redirects.words.empty()) {
    find(ShellFinding::Kind::unreadable, std::string(node.text()), "words stand behind a redirection");
    for (const ShellNode& word : redirects.words) walk_substitutions_in(word, state);
  }
  if (bodies.empty()) output = run_words({}, {}, redirects, state, own_input);
  for (const ShellNode& body : bodies) {
    if (body.is("command")) {
      output = simple_command(body, state, own_input, redirects);
      continue;
    }
    output = statement(body, state, own_input);
    // What it writes to counts even when nothing in it does.
    ShellCommand holder;
    holder.redirects = redirects.list;
    holder.text = std::string(node.text().substr(0, 200));
    holder.folders = state.folders;
    holder.parent = parent_;
    holder.inert = true;
    holder.remote = state.remote;
    if (!holder.redirects.empty()) script_.commands.push_back(std::move(holder));
  }
  note_written(redirects, output, state);
  // `cmd <<EOF | sh` and `cmd <<EOF && x`: the grammar hangs what follows into the here-document.
  for (const ShellNode& next : behind) output = statement(next, state, output);
  return output;
}

ShellFlow ShellWalker::simple_command(const ShellNode& node, ShellState& state, const ShellFlow& input,
                                      Redirects outer) {
  std::vector<ShellNode> word_nodes;
  std::vector<std::pair<std::string, ShellWord>> assignments;
  std::vector<ShellNode> behind;
  Redirects redirects = std::move(outer);
  std::uint32_t last_end = 0;
  bool last_is_word = false;
  ShellState own = state;  // `X=1 cmd $X`: the assignment is not seen by the words
  for (const ShellNode& child : node.children()) {
    if (child.is("variable_assignment")) {
      assign(child, own, &assignments);
    } else if (child.type().ends_with("_redirect")) {
      read_redirect(child, state, redirects, behind);
    } else if (child.named() || child.is("$")) {
      // The grammar ends some words early; the shell does not.
      if (last_is_word && child.begin() == last_end) {
        find(ShellFinding::Kind::unreadable, std::string(node.text()), "a word of the command cannot be read");
      }
      word_nodes.push_back(child);
      last_is_word = true;
      last_end = child.end();
      continue;
    }
    last_is_word = child.is("variable_assignment");
    last_end = child.end();
  }
  word_nodes.insert(word_nodes.end(), redirects.words.begin(), redirects.words.end());
  ShellFlow output;
  const ShellFlow own_input = redirects.input.value_or(input);
  if (word_nodes.empty()) {
    for (const auto& [name, word] : assignments) {
      state.variables[name] = own.variables[name];
    }
    output = run_words({}, std::move(assignments), redirects, state, own_input);
  } else {
    std::vector<std::vector<ShellWord>> ways = expand_words(word_nodes, state);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (!within_bounds()) break;
      if (ways.size() == 1) {
        output = run_words(std::move(ways[i]), assignments, redirects, state, own_input);
      } else {
        const ShellState before = state;
        ShellState after = state;
        output = join_flows(output, run_words(std::move(ways[i]), assignments, redirects, after, own_input));
        merge_state(state, after, before);
      }
    }
  }
  note_written(redirects, output, state);
  for (const ShellNode& next : behind) output = statement(next, state, output);
  return output;
}

ShellFlow ShellWalker::declaration(const ShellNode& node, ShellState& state) {
  ShellCommand command;
  command.text = std::string(node.text());
  command.folders = state.folders;
  command.parent = parent_;
  command.inert = true;
  command.remote = state.remote;
  std::vector<ShellNode> children = node.children();
  if (node.is("variable_assignment")) children = {node};
  for (const ShellNode& child : children) {
    if (child.is("variable_assignment")) {
      std::vector<std::pair<std::string, ShellWord>> assigned;
      assign(child, state, &assigned);
      for (auto& each : assigned) command.assignments.push_back(std::move(each));
    } else if (node.is("unset_command") && child.is("variable_name")) {
      state.variables[std::string(child.text())] = ShellValue{{{""}}, false, false};
    } else if (child.named()) {
      walk_substitutions_in(child, state);
    }
  }
  script_.commands.push_back(std::move(command));
  return {};
}

ShellSurroundings own_surroundings(const std::string& folder) {
  ShellSurroundings surroundings;
  surroundings.folder = folder;
  const char* home = std::getenv("HOME");
  if (home && *home == '/') {
    surroundings.home = home;
  } else if (const struct passwd* entry = ::getpwuid(::getuid())) {
    surroundings.home = entry->pw_dir;
  }
  surroundings.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value) return std::nullopt;
    return value;
  };
  return surroundings;
}

ShellScript parse_shell(std::string_view command, const ShellSurroundings& surroundings) {
  ShellScript script;
  ShellWalker(surroundings, script).run(command);
  return script;
}

std::string command_name(const ShellCommand& command) {
  if (command.words.empty()) return {};
  const std::string& text = command.words.front().text;
  return text.substr(text.rfind('/') + 1);
}

}  // namespace errand
