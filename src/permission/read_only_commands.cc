// SPDX-License-Identifier: Apache-2.0
#include "permission/read_only_commands.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "permission/danger_paths.h"

namespace errand {
namespace {

using Names = std::set<std::string_view>;

// Whatever their options are, they write nothing but their output.
const Names kReaders = {
    "ls",      "cat",      "head",     "tail",   "wc",     "grep",    "egrep",    "fgrep",    "zgrep",     "pwd",
    "echo",    "printf",   "which",    "type",   "stat",   "du",      "df",       "cmp",      "cut",       "basename",
    "dirname", "realpath", "readlink", "nl",     "od",     "hexdump", "md5sum",   "sha1sum",  "sha256sum", "cksum",
    "jq",      "tac",      "rev",      "comm",   "join",   "paste",   "fold",     "seq",      "nproc",     "free",
    "uptime",  "id",       "whoami",   "groups", "uname",  "arch",    "ps",       "printenv", "true",      "false",
    ":",       "test",     "[",        "cd",     "tr",     "strings", "nm",       "ldd",      "lscpu",     "lsblk",
    "expr",    "sleep",    "wait",     "exit",   "return", "break",   "continue", "diff",     "column"};
const Names kGitReaders = {"status",     "log",      "show",     "rev-parse",     "blame",     "ls-files",
                           "ls-tree",    "describe", "shortlog", "rev-list",      "cat-file",  "diff",
                           "merge-base", "name-rev", "grep",     "count-objects", "diff-tree", "show-ref"};

bool any_word(const ShellCommand& command, const Names& words) {
  return std::any_of(command.words.begin(), command.words.end(),
                     [&](const ShellWord& word) { return words.contains(word.text); });
}

bool any_prefix(const ShellCommand& command, std::string_view prefix) {
  return std::any_of(command.words.begin() + 1, command.words.end(),
                     [&](const ShellWord& word) { return word.text.starts_with(prefix); });
}

bool git_reads(const ShellCommand& command) {
  std::size_t at = 1;
  for (; at < command.words.size() && command.words[at].text.starts_with("-"); ++at) {
    const std::string& word = command.words[at].text;
    if (word == "-C")
      ++at;
    else if (word != "--no-pager" && word != "--version")
      return false;  // -c may name a program
  }
  if (at >= command.words.size()) return true;
  const std::string& verb = command.words[at].text;
  if (any_prefix(command, "--output") || any_prefix(command, "--ext-diff") || any_prefix(command, "--textconv") ||
      any_prefix(command, "--open-files-in-pager") || any_prefix(command, "-O")) {
    return false;
  }
  if (kGitReaders.contains(verb)) return true;
  static const Names kListOptions = {"-a", "-r", "-v", "-vv", "--list", "--all", "--remotes", "--show-current", "-l"};
  if (verb == "branch" || verb == "tag" || verb == "remote") {
    return std::all_of(command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1, command.words.end(),
                       [](const ShellWord& word) { return kListOptions.contains(word.text) && !word.unresolved; });
  }
  if (verb == "stash" || verb == "worktree")
    return at + 1 < command.words.size() && command.words[at + 1].text == "list";
  if (verb == "config") return any_word(command, {"--get", "--list", "-l", "--get-all"});
  return false;
}

}  // namespace

bool is_plainly_read_only(const ShellCommand& command) {
  for (const ShellRedirect& redirect : command.redirects) {
    if (redirect.kind == ShellRedirect::Kind::write && !is_harmless_sink(redirect.target.text)) return false;
  }
  // A variable before a command may name a program for it to run.
  if (!command.assignments.empty()) return false;
  if (command.inert) return true;
  if (command.words.empty() || command.words.front().unresolved || command.remote) return false;
  // A path may name anything: "./ls" is not ls.
  const std::string& whole = command.words.front().text;
  if (whole.find('/') != std::string::npos && !whole.starts_with("/bin/") && !whole.starts_with("/usr/bin/"))
    return false;
  const std::string name = command_name(command);
  if (kReaders.contains(name)) return true;
  if (name == "git") return git_reads(command);
  if (name == "rg") return !any_prefix(command, "--pre") && !any_prefix(command, "--hostname-bin");
  if (name == "sort")
    return !any_prefix(command, "-o") && !any_prefix(command, "--o") && !any_prefix(command, "--compress") &&
           !any_prefix(command, "-T") && !any_prefix(command, "--files0");
  if (name == "tree" || name == "file")
    return !any_prefix(command, "-o") && !any_prefix(command, "-C") && !any_prefix(command, "--compile");
  if (name == "uniq") return command.words.size() <= 2;
  if (name == "date") {
    return std::all_of(command.words.begin() + 1, command.words.end(), [](const ShellWord& word) {
      return word.text.starts_with("+") || word.text == "-u" || word.text == "-R";
    });
  }
  if (name == "find") {
    static const Names kActions = {"-delete", "-exec",    "-execdir", "-ok", "-okdir",
                                   "-fprint", "-fprint0", "-fprintf", "-fls"};
    return !any_word(command, kActions);
  }
  return false;
}

}  // namespace errand
