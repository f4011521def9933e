// SPDX-License-Identifier: Apache-2.0
// Commands that act on the shell itself: its folder, variables and arguments, and those that read more of the program.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "permission/shell_walker.h"

namespace errand {
namespace {

using Kind = ShellFlow::Kind;
using Names = std::set<std::string_view>;

const Names kAssigners = {"read", "mapfile", "readarray", "getopts", "printf"};

}  // namespace

void ShellWalker::change_folder(std::size_t index, ShellState& state) {
  const std::vector<ShellWord>& words = script_.commands[index].words;
  std::size_t at = 1;
  while (at < words.size() && words[at].text.size() > 1 && words[at].text[0] == '-') ++at;
  if (at >= words.size()) {
    state.folders = {surroundings_.home};
    return;
  }
  const ShellWord& target = words[at];
  if (target.unresolved || target.glob || target.text == "-" || target.text.empty()) {
    state.folders.clear();
    return;
  }
  const std::filesystem::path path(target.text);
  if (path.is_absolute()) {
    state.folders = {path.lexically_normal().string()};
    return;
  }
  for (std::string& folder : state.folders) folder = (std::filesystem::path(folder) / path).lexically_normal().string();
}

ShellFlow ShellWalker::builtin(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input,
                               bool& done) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  done = true;
  if (name == "cd" || name == "pushd") {
    change_folder(index, state);
    return {};
  }
  if (name == "popd") {
    state.folders.clear();
    return {};
  }
  if (name == "eval") {
    script_.commands[index].inert = true;
    return run_joined(index, 1, state, input);
  }
  if (name == "source" || name == ".") {
    if (words.size() > 1) {
      const std::string part = script_.commands[index].text;
      if (const std::string* text = run_file(index, words[1], state)) {
        const std::string program = *text;
        return script(program, state, input);
      }
      if (words[1].process) return run_fed(*words[1].process, part, state);
      if (words[1].text == "/dev/stdin") return run_fed(input, part, state);
    }
    state.environment_known = false;
    return ShellFlow{Kind::computed, "", {}};
  }
  if (name == "trap") {
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (words[at].text.starts_with("-") || words[at].text.empty()) continue;
      ShellState later = state;
      run_script_word(words[at], later, ShellFlow{});
      break;
    }
    script_.commands[index].inert = true;
    return {};
  }
  if (name == "set" || name == "shift") {
    if (name == "shift" || words.size() > 1) {
      std::size_t at = 1;
      while (name == "set" && at < words.size() && words[at].text.size() > 1 &&
             (words[at].text[0] == '-' || words[at].text[0] == '+')) {
        if (words[at++].text == "--") break;
      }
      if (name == "set" && at < words.size()) {
        state.arguments = std::vector<ShellWord>(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
      } else if (name == "shift" && state.arguments && words.size() == 1) {
        if (!state.arguments->empty()) state.arguments->erase(state.arguments->begin());
      } else if (name == "shift") {
        state.arguments = std::nullopt;
      }
    }
    script_.commands[index].inert = true;
    return {};
  }
  if (kAssigners.contains(name)) {
    const bool to_variable = name != "printf" || (words.size() > 1 && words[1].text == "-v");
    if (to_variable) {
      for (std::size_t at = 1; at < words.size(); ++at) {
        if (words[at].text.starts_with("-")) continue;
        ShellValue value{{}, true, input.kind == Kind::download};
        // `read x <<< /etc`: one variable gets the whole line.
        if (name == "read" && input.kind == Kind::literal)
          value.choices.push_back({mark_unresolved(input.text.substr(0, input.text.find('\n')))});
        state.variables[words[at].text] = value;
      }
      return {};
    }
  }
  if (name == "alias") {
    // Not expanded in a script, unless shopt says so.
    for (std::size_t at = 1; at < words.size(); ++at) {
      const std::size_t equals = words[at].text.find('=');
      if (equals == std::string::npos) continue;
      ShellState later = state;
      ShellWord body = words[at];
      body.text = body.text.substr(equals + 1);
      body.source = body.source.substr(std::min(body.source.size(), body.source.find('=') + 1));
      run_script_word(body, later, ShellFlow{});
    }
    return {};
  }
  done = false;
  return {};
}

}  // namespace errand
