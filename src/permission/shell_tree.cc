// SPDX-License-Identifier: Apache-2.0
#include "permission/shell_tree.h"

extern "C" const TSLanguage* tree_sitter_bash(void);

namespace errand {
namespace {

constexpr std::uint64_t kMostMicroseconds = 5000000;

struct ParserDeleter {
  void operator()(TSParser* parser) const { ts_parser_delete(parser); }
};

}  // namespace

std::string_view ShellNode::text() const { return tree_->text().substr(begin(), end() - begin()); }

std::vector<ShellNode> ShellNode::children() const {
  std::vector<ShellNode> result;
  TSTreeCursor cursor = ts_tree_cursor_new(node_);
  if (ts_tree_cursor_goto_first_child(&cursor)) {
    do {
      result.emplace_back(ts_tree_cursor_current_node(&cursor), tree_);
    } while (ts_tree_cursor_goto_next_sibling(&cursor));
  }
  ts_tree_cursor_delete(&cursor);
  return result;
}

ShellNode ShellNode::field(std::string_view name) const {
  const TSNode node = ts_node_child_by_field_name(node_, name.data(), static_cast<std::uint32_t>(name.size()));
  return ts_node_is_null(node) ? ShellNode() : ShellNode(node, tree_);
}

std::shared_ptr<const ShellTree> ShellTree::parse(std::string text) {
  const std::unique_ptr<TSParser, ParserDeleter> parser(ts_parser_new());
  if (!parser || !ts_parser_set_language(parser.get(), tree_sitter_bash())) return nullptr;
  ts_parser_set_timeout_micros(parser.get(), kMostMicroseconds);
  TSTree* tree = ts_parser_parse_string(parser.get(), nullptr, text.data(), static_cast<std::uint32_t>(text.size()));
  if (!tree) return nullptr;
  return std::shared_ptr<const ShellTree>(new ShellTree(std::move(text), tree));
}

}  // namespace errand
