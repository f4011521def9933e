// SPDX-License-Identifier: Apache-2.0
// Walks a syntax tree in the order in which a shell would run it, with the variables, functions and folder as they
// would be there. Its files: shell_walker.cc the plain statements, shell_branches.cc loops, branches and functions,
// shell_redirects.cc, shell_expand.cc the words, shell_unwrap.cc and shell_carriers.cc the commands that run other
// commands, shell_builtins.cc those that act on the shell itself, shell_output.cc what commands print.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "permission/shell_parse.h"
#include "permission/shell_text.h"
#include "permission/shell_tree.h"

namespace errand {

// The values that a variable may have at a point; each is a list, of one element unless it is an array.
struct ShellValue {
  std::vector<std::vector<std::string>> choices;
  bool unknown = false;  // or something else; a known value with an unknown part holds a NUL there
  bool downloaded = false;
};

struct ShellFunction {
  std::shared_ptr<const ShellTree> tree;
  ShellNode body;
};

// What a subshell gets a copy of.
struct ShellState {
  std::map<std::string, ShellValue> variables;
  std::map<std::string, ShellFunction> functions;
  std::optional<std::vector<ShellWord>> arguments = std::vector<ShellWord>();  // $1...; nothing: unknown
  std::vector<std::string> folders;                                            // where it may be; empty: anywhere
  std::set<std::string> from_net;                                              // files that were downloaded
  std::map<std::string, std::string> written;  // files that were written, and the text when it is known
  bool environment_known = true;
  bool remote = false;
};

class ShellWalker {
 public:
  ShellWalker(const ShellSurroundings& surroundings, ShellScript& script)
      : surroundings_(surroundings), script_(script) {}

  void run(std::string_view text);

 private:
  // The function calls that we are in, with what stood between each and the next.
  struct Frame {
    std::string name;
    bool concurrent = false;   // a pipe or & was passed since
    bool conditional = false;  // an if, loop, case, && or || was passed since
  };
  struct Redirects {
    std::vector<ShellRedirect> list;
    std::optional<ShellFlow> input;
    std::vector<ShellNode> words;  // `rm >log -rf x`: the grammar counts what follows to the redirection
  };

  // ---- statements (shell_walker.cc)
  ShellFlow script(const std::string& text, ShellState& state, const ShellFlow& input);
  ShellFlow statement(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow statements(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow pipeline(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow list(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow redirected(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow for_loop(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow while_loop(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow if_branches(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow case_branches(const ShellNode& node, ShellState& state, const ShellFlow& input);
  ShellFlow simple_command(const ShellNode& node, ShellState& state, const ShellFlow& input, Redirects outer = {});
  ShellFlow declaration(const ShellNode& node, ShellState& state);
  void define_function(const ShellNode& node, ShellState& state);
  void read_redirect(const ShellNode& node, ShellState& state, Redirects& into, std::vector<ShellNode>& behind);
  void call_uncalled_functions(ShellState& state);
  ShellFlow call_function(const std::string& name, const ShellFunction& function,
                          std::optional<std::vector<ShellWord>> arguments, ShellState& state, const ShellFlow& input);

  // ---- words (shell_expand.cc)
  std::vector<ShellText> expand(const ShellNode& node, ShellState& state);
  std::vector<ShellText> expand_children(const ShellNode& node, ShellState& state, bool quoted);
  std::vector<ShellText> expand_parameter(const ShellNode& node, ShellState& state, bool quoted);
  ShellText substitution(const ShellNode& node, ShellState& state, bool quoted);
  void walk_substitutions_in(const ShellNode& node, ShellState& state);
  void assign(const ShellNode& node, ShellState& state, std::vector<std::pair<std::string, ShellWord>>* prefix);
  ShellValue lookup(const std::string& name, const ShellState& state) const;
  std::vector<ShellText> texts_of(const ShellValue& value, bool quoted, std::string_view index);
  std::vector<std::vector<ShellWord>> expand_words(const std::vector<ShellNode>& nodes, ShellState& state);
  std::vector<ShellWord> possible_words(const ShellNode& node, ShellState& state);
  ShellWord single_word(const ShellNode& node, ShellState& state);

  // ---- commands that run commands (shell_unwrap.cc)
  ShellFlow run_words(std::vector<ShellWord> words, std::vector<std::pair<std::string, ShellWord>> assignments,
                      const Redirects& redirects, ShellState& state, const ShellFlow& input);
  ShellFlow dispatch(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input);
  bool unwrap(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input, ShellFlow& output);
  ShellFlow run_from(std::size_t index, std::size_t first, ShellState& state, const ShellFlow& input);
  ShellFlow run_script_word(const ShellWord& word, ShellState& state, const ShellFlow& input);
  ShellFlow run_joined(std::size_t index, std::size_t first, ShellState& state, const ShellFlow& input);
  ShellFlow run_fed(const ShellFlow& program, const std::string& part, ShellState& state);
  ShellFlow shell_program(std::size_t index, ShellState& state, const ShellFlow& input);
  void interpreter(std::size_t index, const ShellFlow& input, ShellState& state);
  void find_command(std::size_t index, ShellState& state);
  ShellFlow xargs_command(std::size_t index, ShellState& state, const ShellFlow& input);
  void git_command(std::size_t index, ShellState& state);
  void ssh_command(std::size_t index, ShellState& state, const ShellFlow& input);
  ShellFlow builtin(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input, bool& done);
  void change_folder(std::size_t index, ShellState& state);
  ShellFlow output_of(std::size_t index, const std::string& name, ShellState& state, const ShellFlow& input);
  void note_written(const Redirects& redirects, const ShellFlow& output, ShellState& state);
  const std::string* run_file(std::size_t index, const ShellWord& word, ShellState& state);

  void find(ShellFinding::Kind kind, std::string part, std::string reason);
  // False when the bound on depth or number is reached; the finding is made once.
  bool within_bounds();

  const ShellSurroundings& surroundings_;
  ShellScript& script_;
  std::vector<Frame> frames_;
  std::vector<std::shared_ptr<const ShellTree>> trees_;
  std::map<std::string, ShellFunction> defined_;
  std::set<std::string> called_;
  int parent_ = -1;
  int depth_ = 0;
  std::size_t work_ = 0;
};

// Raises a depth for the time of a scope.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

bool is_statement(const ShellNode& node);
ShellFlow join_flows(const ShellFlow& first, const ShellFlow& second);
// What may be after either of two ways: each variable has the values of both.
void merge_state(ShellState& into, const ShellState& other, const ShellState& before);

}  // namespace errand
