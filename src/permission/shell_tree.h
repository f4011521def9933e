// SPDX-License-Identifier: Apache-2.0
// A shell text's syntax tree, owned; nodes are views into it and die with it.
#pragma once

#include <tree_sitter/api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace errand {

class ShellTree;

class ShellNode {
 public:
  ShellNode() = default;
  ShellNode(TSNode node, const ShellTree* tree) : node_(node), tree_(tree) {}

  std::string_view type() const { return ts_node_type(node_); }
  bool is(std::string_view name) const { return type() == name; }
  bool named() const { return ts_node_is_named(node_); }
  bool missing() const { return ts_node_is_missing(node_); }
  bool has_error() const { return ts_node_has_error(node_); }
  std::uint32_t begin() const { return ts_node_start_byte(node_); }
  std::uint32_t end() const { return ts_node_end_byte(node_); }
  std::string_view text() const;
  // All of them, the unnamed ones too. A node may have very many; a cursor keeps this linear.
  std::vector<ShellNode> children() const;
  // A null node when there is none; test with `valid`.
  ShellNode field(std::string_view name) const;
  bool valid() const { return tree_ != nullptr; }
  const ShellTree* tree() const { return tree_; }

 private:
  TSNode node_{};
  const ShellTree* tree_ = nullptr;
};

class ShellTree {
 public:
  // Null when the parser gave up within its time.
  static std::shared_ptr<const ShellTree> parse(std::string text);
  ~ShellTree() { ts_tree_delete(tree_); }
  ShellTree(const ShellTree&) = delete;
  ShellTree& operator=(const ShellTree&) = delete;

  ShellNode root() const { return ShellNode(ts_tree_root_node(tree_), this); }
  std::string_view text() const { return text_; }

 private:
  ShellTree(std::string text, TSTree* tree) : text_(std::move(text)), tree_(tree) {}
  const std::string text_;
  TSTree* const tree_;
};

}  // namespace errand
