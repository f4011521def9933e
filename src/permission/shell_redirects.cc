// SPDX-License-Identifier: Apache-2.0
// Redirections: where a command writes, and what it reads where that is known.
#include "permission/shell_walker.h"

namespace errand {

void ShellWalker::read_redirect(const ShellNode& node, ShellState& state, Redirects& into,
                                std::vector<ShellNode>& behind) {
  const std::vector<ShellNode> children = node.children();
  if (node.is("herestring_redirect")) {
    for (const ShellNode& child : children) {
      if (!child.named()) continue;
      const ShellWord word = single_word(child, state);
      ShellFlow flow{ShellFlow::Kind::literal, word.source + "\n", {}};
      if (word.downloaded)
        flow = ShellFlow{ShellFlow::Kind::download, "", {}};
      else if (word.unresolved && word.text.empty())
        flow = ShellFlow{ShellFlow::Kind::computed, "", {}};
      into.input = flow;
    }
    return;
  }
  if (node.is("heredoc_redirect")) {
    bool literal = false;
    ShellText body;
    for (const ShellNode& child : children) {
      if (child.is("heredoc_start")) {
        literal = child.text().find_first_of("'\"\\") != std::string_view::npos;
      } else if (child.is("heredoc_body")) {
        if (literal) {
          body.add(child.text(), true);
        } else {
          const std::vector<ShellText> texts = expand_children(child, state, true);
          if (!texts.empty()) body = texts.front();
        }
      } else if (is_statement(child)) {
        behind.push_back(child);
      } else if (child.type().ends_with("_redirect")) {
        read_redirect(child, state, into, behind);
      } else if (child.named() && !child.is("heredoc_end")) {
        into.words.push_back(child);
      }
    }
    const ShellWord word = join_fields(body, surroundings_.home);
    into.input = body.downloaded ? ShellFlow{ShellFlow::Kind::download, "", {}}
                                 : ShellFlow{ShellFlow::Kind::literal, word.source, {}};
    return;
  }
  std::string_view op;
  bool target_seen = false;
  for (const ShellNode& child : children) {
    if (!child.named()) {
      op = child.type();
      continue;
    }
    if (child.is("file_descriptor")) continue;
    if (target_seen) {
      into.words.push_back(child);
      continue;
    }
    target_seen = true;
    for (const ShellWord& target : possible_words(child, state)) {
      const bool duplicates = (op == ">&" || op == "<&") && !target.text.empty() &&
                              target.text.find_first_not_of("0123456789-") == std::string::npos;
      if (duplicates || op == ">&-" || op == "<&-") continue;
      const bool reads = op == "<" || op == "<&";
      into.list.push_back(ShellRedirect{reads ? ShellRedirect::Kind::read : ShellRedirect::Kind::write, target});
      if (op == "<") {
        into.input = target.process ? *target.process : ShellFlow{ShellFlow::Kind::file, target.text, {}};
        if (state.from_net.contains(target.text) || target.text.starts_with("/dev/tcp/") ||
            target.text.starts_with("/dev/udp/")) {
          into.input = ShellFlow{ShellFlow::Kind::download, "", {}};
        }
      }
    }
  }
}

// What a file then holds, so that running it can be followed.
void ShellWalker::note_written(const Redirects& redirects, const ShellFlow& output, ShellState& state) {
  for (const ShellRedirect& redirect : redirects.list) {
    const std::string& file = redirect.target.text;
    if (redirect.kind != ShellRedirect::Kind::write || file.empty()) continue;
    if (output.kind == ShellFlow::Kind::download) state.from_net.insert(file);
    if (output.kind == ShellFlow::Kind::literal) state.written[file] += output.text;
  }
}

}  // namespace errand
