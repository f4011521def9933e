// SPDX-License-Identifier: Apache-2.0
// What a plain command prints, as far as it may be read as a program later on: a text that is known, what a search
// finds, a download.
#include <algorithm>
#include <set>
#include <string_view>

#include "permission/shell_walker.h"

namespace errand {
namespace {

using Kind = ShellFlow::Kind;
using Names = std::set<std::string_view>;

const Names kDownloaders = {"curl",        "wget",  "fetch",  "aria2c", "http",  "https", "httpie",
                            "lwp-request", "GET",   "lynx",   "w3m",    "links", "nc",    "ncat",
                            "netcat",      "socat", "telnet", "ftp",    "tftp",  "axel",  "gh"};

// What printf would print, as far as it is a plain text: escapes and %s.
std::string printf_text(const std::vector<ShellWord>& words) {
  std::string text;
  std::size_t argument = 2;
  const std::string format = decode_ansi_c(words[1].source);
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      text += format[i];
    } else if (format[++i] == '%') {
      text += '%';
    } else {
      const bool escapes = format[i] == 'b';
      const std::string value = argument < words.size() ? words[argument++].source : std::string();
      text += escapes ? decode_ansi_c(value) : value;
    }
  }
  // The format is used again while arguments are left.
  for (; argument < words.size(); ++argument) text += " " + words[argument].source;
  return text;
}

}  // namespace

ShellFlow ShellWalker::output_of(std::size_t index, const std::string& name, ShellState& state,
                                 const ShellFlow& input) {
  const std::vector<ShellWord>& words = script_.commands[index].words;
  if (name == "echo") {
    std::size_t at = 1;
    bool escapes = false;
    while (at < words.size() && words[at].text.size() > 1 && words[at].text[0] == '-' &&
           words[at].text.find_first_not_of("neE", 1) == std::string::npos) {
      escapes = escapes || words[at].text.find('e') != std::string::npos;
      ++at;
    }
    bool downloaded = false;
    for (std::size_t i = at; i < words.size(); ++i) downloaded = downloaded || words[i].downloaded;
    if (downloaded) return ShellFlow{Kind::download, "", {}};
    const std::string text = joined_words(words, at);
    ShellFlow flow{Kind::literal, (escapes ? decode_ansi_c(text) : text) + "\n", {}};
    for (std::size_t i = at; i < words.size(); ++i) flow.roots.push_back(words[i].text);
    return flow;
  }
  if (name == "printf" && words.size() > 1) {
    for (const ShellWord& word : words) {
      if (word.downloaded) return ShellFlow{Kind::download, "", {}};
    }
    return ShellFlow{Kind::literal, printf_text(words), {}};
  }
  if (name == "pwd" && state.folders.size() == 1) return ShellFlow{Kind::literal, state.folders.front() + "\n", {}};
  if ((name == "which" || name == "type") && words.size() > 1)
    return ShellFlow{Kind::literal, words.back().source + "\n", {}};
  // A new name of its own, whose like is nowhere protected.
  if (name == "mktemp") return ShellFlow{Kind::literal, "/tmp/mktemp.unique/unique\n", {}};
  if (name == "true" || name == "false" || name == ":" || name == "test" || name == "[") return {};

  if (kDownloaders.contains(name)) {
    bool to_file = false;
    for (std::size_t at = 1; at < words.size(); ++at) {
      const std::string& word = words[at].text;
      const bool named = (name == "curl" && (word == "-o" || word == "--output")) ||
                         (name == "wget" && (word == "-O" || word == "--output-document"));
      const bool bundled = word.size() > 2 && word[0] == '-' && word[1] != '-' &&
                           word.back() == (name == "curl" ? 'o' : 'O') && (name == "curl" || name == "wget");
      if ((named || bundled) && at + 1 < words.size()) {
        const std::string& file = words[at + 1].text;
        to_file = to_file || (file != "-" && file != "/dev/stdout");
        state.from_net.insert(file);
      } else if (name == "wget" && word.size() > 2 && word[0] == '-' && word[1] != '-' && word.ends_with("O-")) {
        return ShellFlow{Kind::download, "", {}};
      } else if (word == "-O" || word == "--remote-name" ||
                 (name == "curl" && word.size() > 2 && word[0] == '-' && word[1] != '-' &&
                  word.find('O') != std::string::npos)) {
        to_file = to_file || name == "curl";
      }
      if (word.find('/') != std::string::npos) state.from_net.insert(word.substr(word.rfind('/') + 1));
    }
    state.from_net.erase("");
    state.from_net.erase("-");
    if (name == "wget" && !to_file) {
      // Without -O it writes a file; with -O - it was seen above.
      for (std::size_t at = 1; at + 1 < words.size(); ++at) {
        const std::string& word = words[at].text;
        const bool to_output = (word.starts_with("-") && word.ends_with("O")) || word == "--output-document";
        if (to_output && words[at + 1].text == "-") return ShellFlow{Kind::download, "", {}};
        if (to_output && words[at + 1].text == "/dev/stdout") return ShellFlow{Kind::download, "", {}};
      }
      for (const ShellWord& word : words) {
        if (word.text == "--output-document=-") return ShellFlow{Kind::download, "", {}};
      }
      return {};
    }
    return to_file ? ShellFlow{} : ShellFlow{Kind::download, "", {}};
  }

  if (input.kind == Kind::download) {
    if (name == "tee") {
      for (std::size_t at = 1; at < words.size(); ++at) {
        if (!words[at].text.starts_with("-")) state.from_net.insert(words[at].text);
      }
    }
    return ShellFlow{Kind::download, "", {}};
  }
  for (const ShellWord& word : words) {
    if (word.process && word.process->kind == Kind::download) return ShellFlow{Kind::download, "", {}};
  }
  const bool has_files = words.size() > 1 && std::any_of(words.begin() + 1, words.end(), [](const ShellWord& word) {
                           return word.unresolved || (!word.text.empty() && word.text != "-" && word.text[0] != '-');
                         });
  if (name == "cat" || name == "tee") {
    if (name == "tee" || !has_files) return input;
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (state.from_net.contains(words[at].text)) return ShellFlow{Kind::download, "", {}};
    }
    return ShellFlow{Kind::file, "", {}};
  }
  ShellFlow flow{Kind::computed, "", input.roots};
  if (name == "find" || name == "fd" || name == "ls" || name == "tree" || name == "du" || name == "locate") {
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (words[at].text.starts_with("-")) {
        if (name == "find") break;
        continue;
      }
      flow.roots.push_back(words[at].text);
    }
    if (flow.roots.empty()) flow.roots.push_back(".");
  }
  return flow;
}

}  // namespace errand
