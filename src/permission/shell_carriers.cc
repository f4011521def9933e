// SPDX-License-Identifier: Apache-2.0
// Commands that carry others among their arguments, filled in from elsewhere: xargs, find, git, ssh.
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "permission/shell_walker.h"

namespace errand {
namespace {

using Kind = ShellFlow::Kind;
using Names = std::set<std::string_view>;

ShellWord known_word(std::string text) {
  ShellWord word;
  word.source = text;
  word.text = std::move(text);
  return word;
}

ShellWord unknown_word() {
  ShellWord word;
  word.source = kUnresolved;
  word.unresolved = true;
  return word;
}

void replace_all(ShellWord& word, const std::string& what, const std::string& with, bool unresolved) {
  bool found = false;
  for (std::string* text : {&word.text, &word.source}) {
    for (std::size_t at = text->find(what); at != std::string::npos; at = text->find(what, at + with.size())) {
      text->replace(at, what.size(), with);
      found = true;
    }
  }
  word.unresolved = word.unresolved || (found && unresolved);
}

}  // namespace

ShellFlow ShellWalker::xargs_command(std::size_t index, ShellState& state, const ShellFlow& input) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  script_.commands[index].inert = true;
  std::string placeholder;
  std::size_t at = 1;
  for (; at < words.size() && words[at].text.size() > 1 && words[at].text[0] == '-'; ++at) {
    const std::string& word = words[at].text;
    if (word == "-I" || word == "--replace") {
      placeholder = at + 1 < words.size() ? words[at + 1].text : "{}";
      ++at;
    } else if (word.starts_with("-I") || word.starts_with("--replace=")) {
      placeholder = word.substr(word[1] == 'I' ? 2 : 10);
    } else if (word == "-i") {
      placeholder = "{}";
    } else if (word.size() == 2 && std::string_view("nPLdsaEj").find(word[1]) != std::string_view::npos) {
      ++at;
    } else if (word == "--") {
      ++at;
      break;
    }
  }
  std::vector<ShellWord> command(words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())), words.end());
  if (command.empty()) return input.kind == Kind::literal ? input : ShellFlow{Kind::computed, "", {}};
  if (placeholder.empty() &&
      std::any_of(command.begin(), command.end(), [](const ShellWord& word) { return word.text == "{}"; })) {
    placeholder = "{}";  // parallel's own
  }
  std::vector<std::string> given;
  if (input.kind == Kind::literal) {
    std::string item;
    for (char c : input.text + "\n") {
      if (c != ' ' && c != '\t' && c != '\n') {
        item += c;
      } else if (!item.empty() && given.size() < 64) {
        given.push_back(std::exchange(item, {}));
      }
    }
  }
  std::vector<std::vector<ShellWord>> runs;
  if (!placeholder.empty()) {
    if (given.empty()) given.push_back(std::string(kUnresolved));
    for (const std::string& item : given) {
      runs.push_back(command);
      for (ShellWord& word : runs.back()) {
        const bool unknown = item == kUnresolved;
        if (word.text == placeholder && unknown) {
          word = unknown_word();
        } else {
          replace_all(word, placeholder, item, unknown);
        }
        word.downloaded = word.downloaded || (unknown && word.unresolved && input.kind == Kind::download);
      }
    }
  } else {
    for (const std::string& item : given) command.push_back(known_word(item));
    if (given.empty()) command.push_back(unknown_word());
    runs.push_back(std::move(command));
  }
  ShellFlow output;
  for (std::vector<ShellWord>& run : runs) {
    const std::size_t next = script_.commands.size();
    output = join_flows(output, run_words(std::move(run), {}, Redirects{}, state, ShellFlow{}));
    if (next < script_.commands.size()) script_.commands[next].found_in = input.roots;
  }
  if (input.kind == Kind::download) output = ShellFlow{Kind::download, "", {}};
  return output;
}

void ShellWalker::find_command(std::size_t index, ShellState& state) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  std::string root = ".";
  for (std::size_t at = 1; at < words.size(); ++at) {
    if (!words[at].text.starts_with("-") && !words[at].text.starts_with("(") && words[at].text != "!") {
      root = words[at].text;
      break;
    }
  }
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    if (word != "-exec" && word != "-execdir" && word != "-ok" && word != "-okdir" && word != "-x" && word != "-X" &&
        word != "--exec")
      continue;
    std::vector<ShellWord> command;
    for (++at; at < words.size() && words[at].text != ";" && words[at].text != "+"; ++at) command.push_back(words[at]);
    // What is found lies below the root; its name is not known.
    for (ShellWord& each : command) replace_all(each, "{}", root + "/found", true);
    if (!command.empty()) run_words(std::move(command), {}, Redirects{}, state, ShellFlow{});
  }
}

void ShellWalker::git_command(std::size_t index, ShellState& state) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  auto script_after = [&](const Names& options) {
    for (std::size_t at = 1; at + 1 < words.size(); ++at) {
      if (options.contains(words[at].text)) {
        ShellState inner = state;
        run_script_word(words[at + 1], inner, ShellFlow{});
      }
    }
  };
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    // An alias that is a shell command: -c alias.x='!rm ...'
    const std::size_t bang = word.find("=!");
    if (bang != std::string::npos) {
      ShellState inner = state;
      ShellWord alias = words[at];
      alias.text = word.substr(bang + 2);
      alias.source = alias.source.substr(std::min(alias.source.size(), alias.source.find("=!") + 2));
      run_script_word(alias, inner, ShellFlow{});
    }
    if (word == "foreach" && at + 1 < words.size()) {
      std::size_t first = at + 1;
      while (first < words.size() && words[first].text.starts_with("-")) ++first;
      ShellState inner = state;
      inner.folders.clear();
      run_joined(index, first, inner, ShellFlow{});
    }
    if (word == "run" && at > 1 && words[at - 1].text == "bisect") run_from(index, at + 1, state, ShellFlow{});
    if (word == "filter-branch") {
      script_after({"--tree-filter", "--index-filter", "--msg-filter", "--env-filter", "--commit-filter"});
    }
    if (word == "rebase") script_after({"--exec", "-x"});
  }
}

void ShellWalker::ssh_command(std::size_t index, ShellState& state, const ShellFlow& input) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  std::size_t at = 1;
  bool host = false;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    if (word.size() > 1 && word[0] == '-') {
      if (word.size() == 2 && std::string_view("bcDEeFIiJLlmOopQRSWw").find(word[1]) != std::string_view::npos) ++at;
      continue;
    }
    if (host) break;
    host = true;
  }
  ShellState remote;
  remote.remote = true;
  remote.environment_known = false;
  (void)state;
  if (at < words.size()) {
    run_joined(index, at, remote, input);
  } else if (host && input.kind == Kind::literal) {
    run_fed(input, script_.commands[index].text, remote);
  }
}

}  // namespace errand
