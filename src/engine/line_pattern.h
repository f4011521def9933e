// SPDX-License-Identifier: Apache-2.0
// A regular expression that lines are searched for while they come: linear in time, bounded in memory. Patterns come
// from models.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace errand {

class LinePattern {
 public:
  // The pattern, or why it cannot be used: "invalid pattern: missing ): a(".
  static std::variant<LinePattern, std::string> compile(std::string_view pattern);

  LinePattern(LinePattern&&) noexcept;
  LinePattern& operator=(LinePattern&&) noexcept;
  ~LinePattern();

  // True when it occurs in the line. From any thread.
  bool matches(std::string_view line) const;
  // What a byte of a line may cost at most.
  int steps() const;

 private:
  class Regex;
  explicit LinePattern(std::unique_ptr<Regex> regex);
  std::unique_ptr<Regex> regex_;
};

}  // namespace errand
