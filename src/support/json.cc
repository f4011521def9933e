// SPDX-License-Identifier: Apache-2.0
#include "support/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/utf8.h"

namespace errand {
namespace {

constexpr std::size_t kMaxDepth = 256;

std::string position_text(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  // Columns count characters, as an editor does.
  const std::size_t column = utf8_length(before.substr(line_start)) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

// The text is known to be invalid.
std::size_t first_invalid(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    std::size_t length = 1;
    while (length <= 4 && !is_valid_utf8(text.substr(offset, length))) ++length;
    if (length > 4) break;
    offset += length;
  }
  return offset;
}

// What the grammar wants at the end of a prefix that is well-formed as far as it goes; the parser itself only knows
// that what came was wrong.
class Expectation {
 public:
  explicit Expectation(std::string_view prefix) {
    for (std::size_t i = 0; i < prefix.size(); ++i) i = step(prefix, i);
  }

  std::string text() const {
    if (in_string_) return "control character or bad escape in a string";
    switch (want_) {
      case Want::value:
        return "expected a value";
      case Want::value_or_end:
        return "expected a value or ']'";
      case Want::key_or_end:
        return "expected a string or '}'";
      case Want::key:
        return "expected a string";
      case Want::colon:
        return "expected ':'";
      case Want::comma:
        break;
    }
    if (open_.empty()) return "expected the end of the text";
    return open_.back() == '{' ? "expected ',' or '}'" : "expected ',' or ']'";
  }

 private:
  enum class Want { value, value_or_end, key_or_end, key, colon, comma };

  std::size_t step(std::string_view prefix, std::size_t i) {
    switch (prefix[i]) {
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        break;
      case '{':
        open_.push_back('{'), want_ = Want::key_or_end;
        break;
      case '[':
        open_.push_back('['), want_ = Want::value_or_end;
        break;
      case '}':
      case ']':
        if (!open_.empty()) open_.pop_back();
        want_ = Want::comma;
        break;
      case ',':
        want_ = !open_.empty() && open_.back() == '{' ? Want::key : Want::value;
        break;
      case ':':
        want_ = Want::value;
        break;
      case '"':
        for (++i; i < prefix.size() && prefix[i] != '"'; ++i) {
          if (prefix[i] == '\\') ++i;
        }
        in_string_ = i >= prefix.size();
        want_ = want_ == Want::key || want_ == Want::key_or_end ? Want::colon : Want::comma;
        break;
      default:  // a number or a literal; one that is cut is still the value that was wanted
        while (i + 1 < prefix.size() && prefix.find_first_of(" \t\r\n,]}", i + 1) != i + 1) ++i;
        want_ = i + 1 == prefix.size() && !complete_literal(prefix, i) ? want_ : Want::comma;
    }
    return i;
  }

  static bool complete_literal(std::string_view prefix, std::size_t end) {
    const std::string_view head = prefix.substr(0, end + 1);
    const char last = head.back();
    return head.ends_with("true") || head.ends_with("false") || head.ends_with("null") || (last >= '0' && last <= '9');
  }

  std::vector<char> open_;
  Want want_ = Want::value;
  bool in_string_ = false;
};

// Walks a text that is known to be valid JSON; keeps no values, only offsets.
class Locator {
 public:
  explicit Locator(std::string_view text) : text_(text) {}

  std::size_t find(std::string_view pointer) {
    skip_space();
    while (!pointer.empty()) {
      pointer.remove_prefix(1);
      const std::string_view part = pointer.substr(0, pointer.find('/'));
      pointer.remove_prefix(part.size());
      const std::size_t here = at_;
      if (!enter(unescape(part))) return here;
    }
    return at_;
  }

 private:
  static std::string unescape(std::string_view part) {
    std::string plain;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool escaped = part[i] == '~' && i + 1 < part.size();
      plain += escaped ? (part[++i] == '0' ? '~' : '/') : part[i];
    }
    return plain;
  }

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  void skip_string() {
    for (++at_; text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    ++at_;
  }

  void skip_value() {
    int depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        skip_string();
        continue;
      }
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      ++at_;
      if (depth == 0 && c != '}' && c != ']') {  // a number or a literal
        at_ = std::min(text_.find_first_of(" \t\r\n,]}", at_), text_.size());
      }
    } while (depth > 0);
  }

  // To the member or item; of a key that stands twice, the last, which is the one that the parser keeps.
  bool enter(const std::string& part) {
    const bool is_object = text_[at_] == '{';
    if (!is_object && text_[at_] != '[') return false;
    ++at_;
    std::size_t found = std::string_view::npos;
    for (std::size_t index = 0;; ++index) {
      skip_space();
      if (text_[at_] == '}' || text_[at_] == ']') break;
      std::string name = std::to_string(index);
      if (is_object) {
        const std::size_t begin = at_;
        skip_string();
        name = json::value_to<std::string>(json::parse(text_.substr(begin, at_ - begin)));
        skip_space();
        ++at_;  // the colon
        skip_space();
      }
      if (name == part) found = at_;
      skip_value();
      skip_space();
      if (text_[at_] == ',') ++at_;
    }
    if (found != std::string_view::npos) at_ = found;
    return found != std::string_view::npos;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string reason_text(const json::error_code& code, std::string_view text, std::size_t offset) {
  if (code == json::error::incomplete) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos ? "the text is empty"
                                                                       : "the text ends too early";
  }
  if (code == json::error::too_deep) return "nested more than " + std::to_string(kMaxDepth) + " deep";
  if (code == json::error::extra_data) return "expected the end of the text";
  if (code == json::error::syntax) return Expectation(text.substr(0, offset)).text();
  return code.message();
}

// Boost.JSON 1.81 reads 1e400 as infinity and 0e333333333 as 0 times infinity, and would write words for them that are
// no JSON. The nearest number takes their place.
void make_finite(json::value& value) {
  if (double* number = value.if_double()) {
    if (std::isnan(*number)) *number = 0;
    *number = std::clamp(*number, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
  } else if (json::array* array = value.if_array()) {
    for (json::value& item : *array) make_finite(item);
  } else if (json::object* object = value.if_object()) {
    for (auto& member : *object) make_finite(member.value());
  }
}

}  // namespace

std::optional<json::value> parse_json(std::string_view text, std::string& error) {
  if (!is_valid_utf8(text)) {
    const std::size_t bad = first_invalid(text);
    error = position_text(text, bad) + "invalid UTF-8";
    return std::nullopt;
  }
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::parser parser({}, options);
  json::error_code code;
  const std::size_t used = parser.write(text.data(), text.size(), code);
  if (code) {
    error = position_text(text, used) + reason_text(code, text, used);
    return std::nullopt;
  }
  json::value value = parser.release();
  make_finite(value);
  return value;
}

int json_line(std::string_view text, std::string_view pointer) {
  const std::size_t offset = Locator(text).find(pointer);
  return static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n')) + 1;
}

std::string to_text(const json::value& value) { return json::serialize(value); }

std::optional<std::string> get_string(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

std::optional<std::int64_t> get_int(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_int64()) return value->get_int64();
  // Models write 5.0 where an integer is asked for, and JSON Schema takes it for one.
  if (value->is_double()) {
    const double number = value->get_double();
    if (std::trunc(number) == number && std::abs(number) <= 9007199254740992.0)
      return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

std::optional<bool> get_bool(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_bool()) return std::nullopt;
  return value->get_bool();
}

const json::object* get_object(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* get_array(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_array();
}

}  // namespace errand
