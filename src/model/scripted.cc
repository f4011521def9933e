// SPDX-License-Identifier: Apache-2.0
#include "model/scripted.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/utf8.h"
#include "support/uuid.h"

namespace errand {
namespace {

constexpr std::int64_t kMaxDelayMs = 3'600'000;

struct ScriptTool {
  std::string name;
  json::object input;
};

struct ScriptTurn {
  std::string text;
  std::vector<ScriptTool> tools;
  std::unique_ptr<RE2> when;
  std::int64_t delay_ms = 0;
  bool used = false;
};

// Reads the file's value; the first error ends it. A place is a JSON pointer and its readable form at once:
// "/turns/1/tools/0/name" and "turns[1].tools[0].name".
class ScriptReader {
 public:
  explicit ScriptReader(std::string_view text) : text_(text) {}

  bool read(std::vector<ScriptTurn>& turns) {
    const auto value = parse_json(text_, error_);
    if (!value) return false;
    const json::object* root = value->if_object();
    if (root == nullptr) return fail("", "must be an object with the field \"turns\"");
    if (!known_fields(*root, "", {"turns"})) return false;
    const json::array* list = get_array(*root, "turns");
    if (list == nullptr) return fail(root->contains("turns") ? "/turns" : "", "\"turns\" must be a list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      turns.emplace_back();
      if (!read_turn((*list)[i], "/turns/" + std::to_string(i), turns.back())) return false;
    }
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  bool fail(const std::string& place, const std::string& problem) {
    std::string readable;
    for (std::size_t at = 0; at < place.size();) {
      const std::size_t end = std::min(place.find('/', at + 1), place.size());
      const std::string part = place.substr(at + 1, end - at - 1);
      const bool index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
      readable += index ? "[" + part + "]" : (readable.empty() ? "" : ".") + part;
      at = end;
    }
    error_ = fmt::format("line {}: {}{}", json_line(text_, place), readable.empty() ? "" : readable + ": ", problem);
    return false;
  }

  bool known_fields(const json::object& object, const std::string& place,
                    std::initializer_list<std::string_view> known) {
    for (const auto& member : object) {
      const std::string_view name(member.key().data(), member.key().size());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      std::string names;
      for (const std::string_view one : known) names += (names.empty() ? "" : ", ") + std::string(one);
      std::string pointer;  // a name of the file's own choice
      for (const char c : name) pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      return fail(place + "/" + pointer, "unknown field; the fields are " + names);
    }
    return true;
  }

  bool read_turn(const json::value& value, const std::string& place, ScriptTurn& turn) {
    const json::object* object = value.if_object();
    if (object == nullptr) return fail(place, "must be an object");
    if (!known_fields(*object, place, {"text", "tools", "when", "delay_ms"})) return false;
    std::string when;
    if (!read_string(*object, "text", place, turn.text) || !read_string(*object, "when", place, when)) return false;
    if (object->contains("when")) {
      RE2::Options options;
      options.set_log_errors(false);
      turn.when = std::make_unique<RE2>(when, options);
      if (!turn.when->ok()) return fail(place + "/when", "is no regular expression: " + turn.when->error());
    }
    if (object->contains("delay_ms")) {
      const auto delay = get_int(*object, "delay_ms");
      if (!delay || *delay < 0 || *delay > kMaxDelayMs) {
        return fail(place + "/delay_ms", fmt::format("must be a whole number, 0..{}", kMaxDelayMs));
      }
      turn.delay_ms = *delay;
    }
    if (!object->contains("tools")) return true;
    const json::array* tools = get_array(*object, "tools");
    if (tools == nullptr) return fail(place + "/tools", "must be a list");
    for (std::size_t i = 0; i < tools->size(); ++i) {
      turn.tools.emplace_back();
      if (!read_tool((*tools)[i], place + "/tools/" + std::to_string(i), turn.tools.back())) return false;
    }
    return true;
  }

  bool read_tool(const json::value& value, const std::string& place, ScriptTool& tool) {
    const json::object* object = value.if_object();
    if (object == nullptr) return fail(place, "must be an object");
    if (!known_fields(*object, place, {"name", "input"})) return false;
    if (!read_string(*object, "name", place, tool.name)) return false;
    if (tool.name.empty()) return fail(place + "/name", "must be a name");
    if (const json::object* input = get_object(*object, "input")) {
      tool.input = *input;
    } else if (object->contains("input")) {
      return fail(place + "/input", "must be an object");
    }
    return true;
  }

  bool read_string(const json::object& object, std::string_view name, const std::string& place, std::string& into) {
    if (!object.contains(name)) return true;
    const auto text = get_string(object, name);
    if (!text) return fail(place + "/" + std::string(name), "must be a string");
    into = *text;
    return true;
  }

  std::string_view text_;
  std::string error_;
};

std::string newest_user_text(const ModelRequest& request) {
  const auto newest = std::find_if(request.turns.rbegin(), request.turns.rend(),
                                   [](const RequestTurn& turn) { return turn.role == Role::user; });
  std::string text;
  if (newest == request.turns.rend()) return text;
  for (const RequestPart& part : newest->parts) {
    const std::string* added = nullptr;
    if (const auto* block = std::get_if<TextBlock>(&part)) added = &block->text;
    if (const auto* block = std::get_if<ToolResultBlock>(&part)) added = &block->text;
    if (added != nullptr) text += (text.empty() ? "" : "\n") + *added;
  }
  return text;
}

class Scripted : public Model {
 public:
  Scripted(std::string file, std::vector<ScriptTurn> turns) : file_(std::move(file)), turns_(std::move(turns)) {}

  std::string name() const override { return "scripted:" + file_; }
  bool is_script() const override { return true; }

  ModelResult respond(const ModelRequest& request, ModelObserver& observer, std::stop_token stop) override {
    static const ScriptTurn end{"(end of script)", {}, nullptr, 0, false};
    ScriptTurn* chosen = choose(newest_user_text(request));
    if (chosen != nullptr) chosen->used = true;
    const ScriptTurn& turn = chosen != nullptr ? *chosen : end;
    if (!sleep(turn.delay_ms, stop)) return ModelFailure{true, "aborted", {}};

    ModelReply reply;
    std::string streamed;
    for (std::string_view rest = turn.text; !rest.empty();) {
      if (stop.stop_requested()) return aborted(std::move(streamed));
      const std::string_view word = next_word(rest);
      observer.on_text(word);
      streamed += word;
      rest.remove_prefix(word.size());
    }
    if (stop.stop_requested()) return aborted(std::move(streamed));
    if (!turn.text.empty()) reply.blocks.emplace_back(TextBlock{turn.text});
    for (const ScriptTool& tool : turn.tools) {
      reply.blocks.emplace_back(ToolUseBlock{"toolu_" + random_hex(12), tool.name, tool.input});
    }
    reply.stop = turn.tools.empty() ? StopReason::end_turn : StopReason::tool_use;
    reply.stop_text = turn.tools.empty() ? "end_turn" : "tool_use";
    return reply;
  }

 private:
  ScriptTurn* choose(const std::string& newest) {
    const auto take = [&](auto matches) -> ScriptTurn* {
      const auto found = std::find_if(turns_.begin(), turns_.end(),
                                      [&](const ScriptTurn& turn) { return !turn.used && matches(turn); });
      return found == turns_.end() ? nullptr : &*found;
    };
    ScriptTurn* chosen =
        take([&](const ScriptTurn& turn) { return turn.when && RE2::PartialMatch(newest, *turn.when); });
    return chosen != nullptr ? chosen : take([](const ScriptTurn& turn) { return turn.when == nullptr; });
  }

  static ModelFailure aborted(std::string streamed) {
    ModelFailure failure{true, "aborted", {}};
    if (!streamed.empty()) failure.partial.emplace_back(TextBlock{std::move(streamed)});
    return failure;
  }

  // A word with the white space behind it.
  static std::string_view next_word(std::string_view text) {
    const std::size_t space = std::min(text.find_first_of(" \n\t"), text.size());
    return text.substr(0, std::min(text.find_first_not_of(" \n\t", space), text.size()));
  }

  static bool sleep(std::int64_t ms, const std::stop_token& stop) {
    if (ms == 0) return !stop.stop_requested();
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, std::chrono::milliseconds(ms), [] { return false; });
    return !stop.stop_requested();
  }

  const std::string file_;
  std::vector<ScriptTurn> turns_;
};

}  // namespace

std::variant<std::unique_ptr<Model>, std::string> load_scripted(const std::string& file) {
  const auto fail = [&](const std::string& problem) {
    return fmt::format("scripted: \"{}\": {}", clean_utf8(file), problem);
  };
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  // A folder opens, and fails only when it is read.
  if (!stream || (text.str().empty() && errno != 0)) {
    return fail("cannot be read: " + std::string(std::strerror(errno != 0 ? errno : EIO)));
  }
  const std::string content = text.str();
  std::vector<ScriptTurn> turns;
  ScriptReader reader(content);
  if (!reader.read(turns)) return fail(reader.error());
  return std::make_unique<Scripted>(file, std::move(turns));
}

}  // namespace errand
