// SPDX-License-Identifier: Apache-2.0
// Commands that run other commands: what they run is looked at in its turn.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

#include "permission/shell_walker.h"

namespace errand {
namespace {

using Kind = ShellFlow::Kind;
using Names = std::set<std::string_view>;

// A program that runs the rest of its words as a command, after its own options and `skip` words.
struct Wrapper {
  std::string_view name;
  std::string_view short_with_value;  // letters of options that take the next word
  std::array<std::string_view, 6> long_with_value;
  int skip = 0;
  bool assignments = false;  // NAME=value words may stand before the command
  bool inert = false;        // it changes nothing by itself
};

constexpr Wrapper kWrappers[] = {
    {"sudo", "ugChpRTUrtD", {"--user", "--group", "--chdir", "--host", "--prompt", "--chroot"}, 0, true, false},
    {"doas", "uC", {}, 0, false, false},
    {"pkexec", "", {"--user"}, 0, false, false},
    {"env", "uC", {"--unset", "--chdir", "--split-string"}, 0, true, true},
    {"nohup", "", {}, 0, false, true},
    {"setsid", "", {}, 0, false, true},
    {"nice", "n", {"--adjustment"}, 0, false, true},
    {"ionice", "cnpPu", {"--class", "--classdata"}, 0, false, true},
    {"chrt", "pTPD", {}, 1, false, false},
    {"taskset", "p", {}, 1, false, true},
    {"timeout", "ks", {"--kill-after", "--signal"}, 1, false, true},
    {"stdbuf", "ioe", {"--input", "--output", "--error"}, 0, false, true},
    {"time", "fo", {"--format", "--output"}, 0, false, true},
    {"command", "", {}, 0, false, true},
    {"builtin", "", {}, 0, false, true},
    {"exec", "a", {}, 0, false, true},
    {"coproc", "", {}, 0, false, true},
    {"busybox", "", {}, 0, false, true},
    {"toybox", "", {}, 0, false, true},
    {"strace", "aeEIoOpPsSuUX", {}, 0, false, false},
    {"ltrace", "aeFlnopsuwxX", {}, 0, false, false},
    {"valgrind", "", {}, 0, false, false},
    {"unshare", "SGRw", {"--root", "--wd", "--setuid", "--setgid"}, 0, false, false},
    {"nsenter", "tSGrw", {"--target"}, 0, false, false},
    {"chroot", "", {"--userspec", "--groups"}, 1, false, false},
    {"fakeroot", "lsib", {}, 0, false, false},
    {"systemd-run", "uptMHE", {"--unit", "--property", "--uid", "--gid", "--slice", "--setenv"}, 0, false, false},
    {"systemd-inhibit", "", {"--what", "--who", "--why", "--mode"}, 0, false, true},
    {"runuser", "ug", {"--user", "--group"}, 0, false, false},
    {"xvfb-run", "enfsp", {}, 0, false, false},
    {"dbus-run-session", "", {}, 0, false, false},
    {"caffeinate", "tw", {}, 0, false, true},
    {"unbuffer", "", {}, 0, false, true},
    {"rlwrap", "", {}, 0, false, false},
    {"npx", "pc", {"--package"}, 0, false, false},
};

const Names kShells = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh", "pwsh"};
bool is_interpreter(const std::string& name) {
  static const Names kNames = {"perl",  "ruby",   "node",    "nodejs",  "deno", "bun",       "php",
                               "lua",   "luajit", "tclsh",   "Rscript", "R",    "osascript", "groovy",
                               "julia", "irb",    "ipython", "pypy",    "pypy3"};
  if (kNames.contains(name)) return true;
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

bool is_assignment(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

bool takes_value(const Wrapper& wrapper, const std::string& option) {
  if (option.starts_with("--")) {
    return option.find('=') == std::string::npos &&
           std::find(wrapper.long_with_value.begin(), wrapper.long_with_value.end(), option) !=
               wrapper.long_with_value.end();
  }
  // "-u root" takes the next word, "-uroot" does not.
  return option.size() == 2 && wrapper.short_with_value.find(option[1]) != std::string_view::npos;
}

ShellWord known_word(std::string text) {
  ShellWord word;
  word.source = text;
  word.text = std::move(text);
  return word;
}

std::string line_of(const ShellCommand& command) {
  std::string text;
  for (const auto& [name, word] : command.assignments) {
    text += (text.empty() ? "" : " ") + name + "=" + (word.source.empty() ? "" : quote_for_shell(word.source));
  }
  for (const ShellWord& word : command.words) text += (text.empty() ? "" : " ") + quote_for_shell(word.source);
  return text;
}

}  // namespace

ShellFlow ShellWalker::run_words(std::vector<ShellWord> words,
                                 std::vector<std::pair<std::string, ShellWord>> assignments, const Redirects& redirects,
                                 ShellState& state, const ShellFlow& input) {
  ++depth_;
  ShellFlow output;
  if (within_bounds()) {
    ShellCommand command;
    command.words = std::move(words);
    command.assignments = std::move(assignments);
    command.redirects = redirects.list;
    command.folders = state.folders;
    command.parent = parent_;
    command.remote = state.remote;
    command.text = line_of(command);
    command.inert = command.words.empty();
    script_.commands.push_back(std::move(command));
    const std::size_t index = script_.commands.size() - 1;
    const int outer = std::exchange(parent_, static_cast<int>(index));
    const std::vector<ShellWord>& recorded = script_.commands[index].words;
    if (!recorded.empty()) {
      const ShellWord name = recorded.front();
      if (name.downloaded) {
        find(ShellFinding::Kind::runs_download, script_.commands[index].text, "a download is run as a command");
      } else if (name.unresolved || name.glob) {
        find(ShellFinding::Kind::unresolved_command, script_.commands[index].text,
             "which command runs is known only when it runs");
      }
      if (name.text == "}" || name.text == "{" || name.text == "then" || name.text == "do" || name.text == "done" ||
          name.text == "fi" || name.text == "esac") {
        find(ShellFinding::Kind::unreadable, script_.commands[index].text,
             "the command cannot be read as shell syntax");
      }
      const std::string* text = name.text.find('/') == std::string::npos ? nullptr : run_file(index, name, state);
      if (text) {
        const std::string program = *text;
        ShellState inner = state;
        script(program, inner, input);
      }
      output = dispatch(index, command_name(script_.commands[index]), state, input);
    }
    parent_ = outer;
  }
  --depth_;
  return output;
}

// A file that is run as a program: a finding when it was downloaded, its text when the same command has written it.
const std::string* ShellWalker::run_file(std::size_t index, const ShellWord& word, ShellState& state) {
  if (word.text.empty()) return nullptr;
  auto plain = [](const std::string& path) { return std::filesystem::path(path).lexically_normal().string(); };
  for (const std::string& file : state.from_net) {
    if (plain(file) != plain(word.text)) continue;
    find(ShellFinding::Kind::runs_file_from_net, script_.commands[index].text,
         "it runs a file that the same command has downloaded");
  }
  for (const auto& [file, text] : state.written) {
    if (plain(file) == plain(word.text)) return &text;
  }
  return nullptr;
}

ShellFlow ShellWalker::dispatch(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input) {
  // References into the list of commands die when one is added: names and words are taken by value from here on.
  const std::vector<ShellWord> words = script_.commands[index].words;
  if (const auto function = state.functions.find(words.front().text); function != state.functions.end()) {
    script_.commands[index].inert = true;
    const ShellFunction called = function->second;
    return call_function(function->first, called, std::vector<ShellWord>(words.begin() + 1, words.end()), state, input);
  }
  bool done = false;
  ShellFlow output = builtin(index, name, state, input, done);
  if (done) return output;
  if (kShells.contains(name)) return shell_program(index, state, input);
  if (is_interpreter(name)) {
    interpreter(index, input, state);
    return ShellFlow{Kind::computed, "", {}};
  }
  if (name == "xargs" || name == "parallel") return xargs_command(index, state, input);
  if (name == "find" || name == "fd" || name == "fdfind") find_command(index, state);
  if (name == "git") git_command(index, state);
  if (name == "ssh") {
    ssh_command(index, state, input);
    return ShellFlow{Kind::computed, "", {}};
  }
  if (unwrap(index, name, state, input, output)) return output;
  return output_of(index, name, state, input);
}

ShellFlow ShellWalker::run_from(std::size_t index, std::size_t first, ShellState& state, const ShellFlow& input) {
  const std::vector<ShellWord>& words = script_.commands[index].words;
  if (first >= words.size()) return {};
  return run_words(std::vector<ShellWord>(words.begin() + static_cast<std::ptrdiff_t>(first), words.end()), {},
                   Redirects{}, state, input);
}

// A word that a shell reads as a script.
ShellFlow ShellWalker::run_script_word(const ShellWord& word, ShellState& state, const ShellFlow& input) {
  if (word.downloaded) {
    find(ShellFinding::Kind::runs_download, word.source, "a download is run by a shell");
    return ShellFlow{Kind::computed, "", {}};
  }
  return script(word.unresolved ? word.source : word.text, state, input);
}

ShellFlow ShellWalker::run_joined(std::size_t index, std::size_t first, ShellState& state, const ShellFlow& input) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  if (first >= words.size()) return {};
  ShellWord all = known_word(joined_words(words, first));
  for (std::size_t i = first; i < words.size(); ++i) {
    all.unresolved = all.unresolved || words[i].unresolved;
    all.downloaded = all.downloaded || words[i].downloaded;
  }
  return run_script_word(all, state, input);
}

// A shell that reads its commands from a flow.
ShellFlow ShellWalker::run_fed(const ShellFlow& program, const std::string& part, ShellState& state) {
  switch (program.kind) {
    case Kind::none:
    case Kind::file:
      return {};
    case Kind::literal:
      return script(program.text, state, ShellFlow{});
    case Kind::computed:
      find(ShellFinding::Kind::unresolved_command, part, "a shell runs what another command prints");
      return ShellFlow{Kind::computed, "", {}};
    case Kind::download:
      find(ShellFinding::Kind::runs_download, part, "a download is run by a shell");
      return ShellFlow{Kind::computed, "", {}};
  }
  return {};
}

ShellFlow ShellWalker::shell_program(std::size_t index, ShellState& state, const ShellFlow& input) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  const std::string part = script_.commands[index].text;
  for (const ShellRedirect& redirect : script_.commands[index].redirects) {
    if (redirect.target.text.starts_with("/dev/tcp/") || redirect.target.text.starts_with("/dev/udp/")) {
      find(ShellFinding::Kind::runs_download, part, "a shell takes its commands from the network");
    }
  }
  bool from_input = false;
  std::size_t at = 1;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    if (word.size() < 2 || (word[0] != '-' && word[0] != '+')) break;
    if (word == "--") {
      ++at;
      break;
    }
    if (word.starts_with("--")) {
      if (word == "--rcfile" || word == "--init-file") ++at;
      if (word == "--command" && at + 1 < words.size()) return run_script_word(words[at + 1], state, ShellFlow{});
      continue;
    }
    if (word.find('s') != std::string::npos && word[0] == '-') from_input = true;
    if (word.find('c') != std::string::npos && word[0] == '-') {
      // "-c" may stand before other options; the script is the first word that is none.
      std::size_t script_at = at + 1;
      while (script_at < words.size() && words[script_at].text.size() > 1 &&
             (words[script_at].text[0] == '-' || words[script_at].text[0] == '+') && !words[script_at].unresolved) {
        if (words[script_at].text == "-o" || words[script_at].text == "-O") ++script_at;
        ++script_at;
      }
      if (script_at >= words.size()) return {};
      script_.commands[index].inert = true;
      ShellState inner = state;
      inner.arguments = std::vector<ShellWord>();
      if (script_at + 2 <= words.size()) {
        inner.arguments->assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(script_at + 2, words.size())),
                                words.end());
      }
      ShellFlow output = run_script_word(words[script_at], inner, input);
      state.from_net.insert(inner.from_net.begin(), inner.from_net.end());
      state.written.insert(inner.written.begin(), inner.written.end());
      return output;
    }
    if (word == "-o" || word == "-O" || word == "+o" || word == "+O") ++at;
  }
  ShellState inner = state;
  const bool has_file = at < words.size() && words[at].text != "-" && words[at].text != "/dev/stdin" &&
                        !words[at].text.starts_with("/dev/fd/0") && words[at].text != "/proc/self/fd/0";
  if (from_input || !has_file) {
    if (input.kind == Kind::literal) script_.commands[index].inert = true;
    return run_fed(input, part, inner);
  }
  if (words[at].process) return run_fed(*words[at].process, part, inner);
  if (words[at].downloaded) find(ShellFinding::Kind::runs_download, part, "a download is run by a shell");
  if (const std::string* text = run_file(index, words[at], state)) {
    const std::string program = *text;
    inner.arguments = std::vector<ShellWord>(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
    script(program, inner, ShellFlow{});
  }
  return ShellFlow{Kind::computed, "", {}};
}

void ShellWalker::interpreter(std::size_t index, const ShellFlow& input, ShellState& state) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  const std::string part = script_.commands[index].text;
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    const bool code_follows = word == "-c" || word == "-e" || word == "-E" || word == "-r" || word == "--eval" ||
                              word == "-p" || word == "-pe" || word == "-ne" || word == "-le" || word == "-lne" ||
                              word == "eval";
    if (code_follows && at + 1 < words.size()) {
      const ShellWord& code = words[at + 1];
      if (code.downloaded) find(ShellFinding::Kind::runs_download, part, "a download is run by an interpreter");
      script_.commands[index].code += code.text + "\n";
      return;
    }
    if (word == "-m" || (!word.empty() && word[0] != '-' && !words[at].unresolved)) {
      if (const std::string* text = run_file(index, words[at], state)) script_.commands[index].code = *text;
      if (word == "/dev/stdin") break;
      return;
    }
    if (words[at].process && words[at].process->kind == Kind::download) {
      find(ShellFinding::Kind::runs_download, part, "a download is run by an interpreter");
    }
    if (words[at].unresolved) return;
    if (word == "-" || word == "--") break;
    if (word == "-W" || word == "-X" || word == "-I" || word == "-r" || word == "--require") ++at;
  }
  if (input.kind == Kind::literal) script_.commands[index].code = input.text;
  if (input.kind == Kind::download)
    find(ShellFinding::Kind::runs_download, part, "a download is run by an interpreter");
}

bool ShellWalker::unwrap(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input,
                         ShellFlow& output) {
  const std::vector<ShellWord> words = script_.commands[index].words;
  // Those whose argument is a script.
  if (name == "watch" || name == "su" || name == "script" || name == "flock" || name == "at" || name == "batch") {
    for (std::size_t at = 1; at + 1 < words.size(); ++at) {
      const std::string& word = words[at].text;
      if (word == "-c" || word == "--command") {
        output = run_script_word(words[at + 1], state, input);
        return true;
      }
    }
    if (name == "su" || name == "script") return false;
    if (name == "at" || name == "batch") {
      output = run_fed(input, script_.commands[index].text, state);
      return true;
    }
    std::size_t at = 1;
    while (at < words.size() && words[at].text.starts_with("-")) {
      const std::string& word = words[at].text;
      at += word == "-n" || word == "--interval" || word == "-w" || word == "-E" ? 2 : 1;
    }
    output = name == "watch" ? run_joined(index, at, state, input) : run_from(index, at + 1, state, input);
    return true;
  }
  if (name == "tmux" || name == "screen") {
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (words[at].text.find(' ') != std::string::npos) run_script_word(words[at], state, ShellFlow{});
      if (kShells.contains(words[at].text)) run_from(index, at, state, ShellFlow{});
    }
    return true;
  }

  const Wrapper* wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                        [&name](const Wrapper& each) { return each.name == name; });
  if (wrapper == std::end(kWrappers)) return false;
  if ((name == "busybox" || name == "toybox") && words.size() > 1 && words[1].text.starts_with("-")) return true;
  std::size_t at = 1;
  int skip = wrapper->skip;
  bool special = false;
  ShellState inner = state;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() > 1 && word[0] == '-') {
      if (name == "command" && (word == "-v" || word == "-V")) {
        output = ShellFlow{Kind::literal, joined_words(words, at + 1) + "\n", {}};
        return true;
      }
      if (name == "env" &&
          (word == "-S" || word == "--split-string" || word.starts_with("-S") || word.starts_with("--split-string="))) {
        ShellWord split = word.size() > 2 && word[1] == 'S' ? known_word(word.substr(2))
                                                            : known_word(word.substr(word.find('=') + 1));
        if (word == "-S" || word == "--split-string") split = at + 1 < words.size() ? words[at + 1] : ShellWord{};
        const std::size_t rest = at + (word == "-S" || word == "--split-string" ? 2 : 1);
        if (rest < words.size()) split.source += " " + joined_words(words, rest);
        split.text = split.source;
        output = run_script_word(split, inner, input);
        return true;
      }
      if (name == "sudo" && (word == "-e" || word == "--edit")) return true;
      if (takes_value(*wrapper, word)) {
        if (word == "-C" || word == "--chdir" || word == "-D") inner.folders.clear();
        ++at;
      }
      continue;
    }
    if (wrapper->assignments && is_assignment(word)) {
      special = true;
      continue;
    }
    if (skip > 0) {
      --skip;
      continue;
    }
    break;
  }
  script_.commands[index].inert = wrapper->inert && !special;
  if (name == "chroot" || name == "nsenter") inner.folders.clear();
  if (at >= words.size()) {
    // `sudo -s` and `chroot dir` start a shell that reads its input.
    if (!wrapper->inert && wrapper->assignments) output = run_fed(input, script_.commands[index].text, inner);
    if (name == "env") output = ShellFlow{Kind::computed, "", {}};
    return true;
  }
  // A builtin under `command` or `exec` acts on this shell; under the others it would be another process.
  const bool same_shell = name == "command" || name == "builtin" || name == "time";
  output = run_from(index, at, same_shell ? state : inner, input);
  state.from_net.insert(inner.from_net.begin(), inner.from_net.end());
  state.written.insert(inner.written.begin(), inner.written.end());
  return true;
}

}  // namespace errand
