// SPDX-License-Identifier: Apache-2.0
// Loops, branches and functions: each way that may be taken is.
#include <utility>

#include "permission/shell_walker.h"

namespace errand {

ShellFlow ShellWalker::for_loop(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  std::string variable;
  std::vector<ShellNode> values;
  ShellNode body;
  bool has_in = false;
  for (const ShellNode& child : node.children()) {
    if (child.is("variable_name")) {
      variable = std::string(child.text());
    } else if (child.is("do_group") || child.is("compound_statement")) {
      body = child;
    } else if (child.is("in")) {
      has_in = true;
    } else if (child.named()) {
      values.push_back(child);
    }
  }
  std::vector<ShellWord> words;
  if (has_in) {
    for (std::vector<ShellWord>& each : expand_words(values, state))
      words.insert(words.end(), each.begin(), each.end());
  } else if (state.arguments) {
    words = *state.arguments;
  } else {
    words.push_back(ShellWord{"", std::string(kUnresolved), true, false, false, nullptr});
  }
  if (!body.valid()) return {};
  const std::vector<Frame> frames = frames_;
  for (Frame& frame : frames_) frame.conditional = true;
  ShellFlow output;
  const ShellState before = state;
  for (const ShellWord& word : words) {
    state.variables[variable] = ShellValue{{{marked_text(word)}}, false, word.downloaded};
    ShellState after = state;
    output = join_flows(output, statement(body, after, input));
    merge_state(state, after, before);
    if (!within_bounds()) break;
  }
  frames_ = frames;
  return output;
}

ShellFlow ShellWalker::while_loop(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  const ShellState before = state;
  ShellFlow output;
  const std::vector<Frame> frames = frames_;
  for (const ShellNode& child : node.children()) {
    if (is_statement(child)) {
      output = join_flows(output, statement(child, state, input));
      for (Frame& frame : frames_) frame.conditional = true;
    } else if (child.named()) {
      walk_substitutions_in(child, state);
    }
  }
  // Once more with what the first round has set: `while ...; do rm -rf "$x"; x=/; done`.
  ShellState second = state;
  merge_state(second, before, before);
  for (const ShellNode& child : node.children()) {
    if (child.is("do_group") && second.variables.size() != before.variables.size()) statement(child, second, input);
  }
  frames_ = frames;
  merge_state(state, before, before);
  merge_state(state, second, before);
  return output;
}

ShellFlow ShellWalker::if_branches(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  const std::vector<Frame> frames = frames_;
  ShellFlow output;
  bool then = false, first_clause = true;
  bool complete = false;  // with an else, one of the branches is taken
  const ShellState before = state;
  ShellState branch = state;
  std::vector<ShellState> ends;
  auto enter = [&] {
    then = true;
    for (Frame& frame : frames_) frame.conditional = true;
  };
  for (const ShellNode& child : node.children()) {
    if (child.is("then")) {
      enter();
      branch = state;
    } else if (child.is("elif_clause") || child.is("else_clause")) {
      if (first_clause) ends.push_back(branch);
      first_clause = false;
      complete = complete || child.is("else_clause");
      enter();
      ShellState clause = state;
      output = join_flows(output, statements(child, clause, input));
      ends.push_back(clause);
    } else if (is_statement(child)) {
      output = join_flows(output, statement(child, then ? branch : state, input));
    }
  }
  if (first_clause) ends.push_back(branch);
  frames_ = frames;
  if (complete && !ends.empty()) state = ends.front();
  for (const ShellState& end : ends) merge_state(state, end, before);
  return output;
}

ShellFlow ShellWalker::case_branches(const ShellNode& node, ShellState& state, const ShellFlow& input) {
  const std::vector<Frame> frames = frames_;
  for (Frame& frame : frames_) frame.conditional = true;
  ShellFlow output;
  const ShellState before = state;
  for (const ShellNode& child : node.children()) {
    if (child.is("case_item")) {
      ShellState branch = before;
      output = join_flows(output, statements(child, branch, input));
      merge_state(state, branch, before);
    } else if (child.named()) {
      walk_substitutions_in(child, state);
    }
  }
  frames_ = frames;
  return output;
}

void ShellWalker::define_function(const ShellNode& node, ShellState& state) {
  const ShellNode name = node.field("name");
  const ShellNode body = node.field("body");
  if (!name.valid() || !body.valid()) return;
  std::shared_ptr<const ShellTree> tree;
  for (const auto& each : trees_) {
    if (each.get() == node.tree()) tree = each;
  }
  state.functions[std::string(name.text())] = ShellFunction{tree, body};
  defined_[std::string(name.text())] = ShellFunction{tree, body};
}

// Defined and not called here, it may still be called: by a trap, by `eval` of what we cannot see.
void ShellWalker::call_uncalled_functions(ShellState& state) {
  const std::map<std::string, ShellFunction> defined = defined_;
  for (const auto& [name, function] : defined) {
    if (!called_.contains(name)) call_function(name, function, std::nullopt, state, ShellFlow{});
  }
}

ShellFlow ShellWalker::call_function(const std::string& name, const ShellFunction& function,
                                     std::optional<std::vector<ShellWord>> arguments, ShellState& state,
                                     const ShellFlow& input) {
  called_.insert(name);
  for (const Frame& frame : frames_) {
    if (frame.name != name) continue;
    // A call of itself. Side by side with itself and without an end it is a fork bomb; a tree walk takes an argument
    // and stands behind a condition.
    const bool bare = arguments && arguments->empty();
    if (frame.concurrent && (bare || !frame.conditional)) {
      find(ShellFinding::Kind::fork_bomb, name, "the function starts itself again and again, side by side");
    }
    return ShellFlow{ShellFlow::Kind::computed, "", {}};
  }
  const Deeper deeper(depth_);
  if (!within_bounds()) return {};
  frames_.push_back(Frame{name, false, false});
  const std::optional<std::vector<ShellWord>> outer = std::exchange(state.arguments, std::move(arguments));
  ShellFlow output = statement(function.body, state, input);
  state.arguments = outer;
  frames_.pop_back();
  return output;
}

}  // namespace errand
