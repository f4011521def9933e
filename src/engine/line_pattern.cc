// SPDX-License-Identifier: Apache-2.0
#include "engine/line_pattern.h"

#include <re2/re2.h>

#include <utility>

#include "base/utf8.h"
#include "errand/wait.h"

namespace errand {
namespace {

constexpr std::int64_t kMaxMemory = 4 << 20;  // bytes of one pattern: its program and the states that it has met
constexpr int kMaxProgram = 5000;             // steps a byte of output may cost when there are too many states

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

RE2::Options options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMaxMemory);
  return options;
}

}  // namespace

class LinePattern::Regex : public RE2 {
 public:
  using RE2::RE2;
};

LinePattern::LinePattern(std::unique_ptr<Regex> regex) : regex_(std::move(regex)) {}
LinePattern::LinePattern(LinePattern&&) noexcept = default;
LinePattern& LinePattern::operator=(LinePattern&&) noexcept = default;
LinePattern::~LinePattern() = default;

std::variant<LinePattern, std::string> LinePattern::compile(std::string_view pattern) {
  const std::string prefix = "invalid pattern: ";
  if (pattern.empty()) return prefix + "it is empty";
  if (pattern.size() > WaitUntil::kMaxPattern) {
    return prefix + "it has " + std::to_string(pattern.size()) + " bytes (at most " +
           std::to_string(WaitUntil::kMaxPattern) + ")";
  }
  auto regex = std::make_unique<Regex>(piece(pattern), options());
  if (!regex->ok()) return prefix + clean_utf8(regex->error());
  if (regex->ProgramSize() > kMaxProgram) return prefix + "it is too complex";
  return LinePattern(std::move(regex));
}

int LinePattern::steps() const { return regex_->ProgramSize(); }

bool LinePattern::matches(std::string_view line) const { return RE2::PartialMatch(piece(line), *regex_); }

}  // namespace errand
