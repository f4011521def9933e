// SPDX-License-Identifier: Apache-2.0
// What a shell command would run, without running it: every simple command in it, with its words as the shell would see
// them. It follows lists, pipes, subshells, substitutions, functions, loops, here-documents, `bash -c`, eval, sudo,
// env, xargs, find -exec, ssh and their like, and the variables that it can resolve.
//
// It errs towards more: both branches of a condition count, and a variable that may have several values gives several
// commands. What it cannot follow it does not guess: it is a finding. Nothing is run and no program is looked at; only
// names in the file system may be looked up by those who use the result.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace errand {

// What comes out of a command, as far as it matters to what reads it.
struct ShellFlow {
  enum class Kind { none, literal, file, computed, download };
  Kind kind = Kind::none;
  std::string text;                // literal: the whole
  std::vector<std::string> roots;  // computed by a search: below which folders the names lie
};

struct ShellWord {
  std::string text;         // quotes removed, expanded; a part that is known only at run time is left out
  std::string source;       // a text for people and patterns: as resolved, else with "$..." where it is not
  bool unresolved = false;  // a part of `text` is missing
  bool glob = false;        // an unquoted * ? or [ stands in it
  bool downloaded = false;  // the missing part comes from the network
  std::shared_ptr<const ShellFlow> process;  // of <(...): what reading the word's file gives
};

struct ShellRedirect {
  enum class Kind { read, write };
  Kind kind = Kind::read;
  ShellWord target;
};

struct ShellCommand {
  std::vector<ShellWord> words;  // the command's name first
  std::vector<ShellRedirect> redirects;
  std::vector<std::pair<std::string, ShellWord>> assignments;  // before the name
  std::string text;                   // one line for people and patterns: quoted where it must be
  std::vector<std::string> folders;   // where it may run; empty: anywhere
  std::string code;                   // an interpreter's program, when it is given on the line or through a pipe
  std::vector<std::string> found_in;  // reads names that were searched below these
  int parent = -1;                    // the command that this one is an argument of
  bool inert = false;                 // does no more than the commands inside it: time, env, a function's call, X=1
  bool remote = false;                // on another machine
};

struct ShellFinding {
  enum class Kind {
    unreadable,          // no shell syntax that we know, or too deep or too much of it
    unresolved_command,  // what runs is known only at run time
    runs_download,       // a download goes into a shell or an interpreter
    runs_file_from_net,  // a file that the same command has downloaded is run
    fork_bomb,
  };
  Kind kind = Kind::unreadable;
  std::string part;
  std::string reason;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<ShellFinding> findings;
};

struct ShellSurroundings {
  std::string folder;  // absolute
  std::string home;    // absolute
  // The environment that the command will have; nothing: unset.
  std::function<std::optional<std::string>(const std::string&)> variable;
};

// The folder, this process's environment and its home.
ShellSurroundings own_surroundings(const std::string& folder);

ShellScript parse_shell(std::string_view command, const ShellSurroundings& surroundings);

// The last part of a command's name: "/bin/rm" is "rm".
std::string command_name(const ShellCommand& command);

}  // namespace errand
