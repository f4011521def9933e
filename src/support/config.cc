// SPDX-License-Identifier: Apache-2.0
#include "support/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/utf8.h"
#include "support/config_text.h"
#include "support/paths.h"
#include "support/text_file.h"
#include "support/toml_file.h"

namespace errand {
namespace {

constexpr std::int64_t kNoMax = std::numeric_limits<std::int64_t>::max();

using List = std::vector<std::string>;

ConfigKey number_key(std::string_view name, std::int64_t fallback, std::int64_t min, std::int64_t max,
                     std::string_view meaning) {
  return {name, fallback, meaning, min, max, ByProject::yes};
}

// Keys that widen permissions or name a program: never from an untrusted project.
ConfigKey guarded_key(std::string_view name, ConfigValue fallback, std::string_view meaning,
                      ByProject by_project = ByProject::when_trusted) {
  return {name, std::move(fallback), meaning, 0, kNoMax, by_project};
}

std::string quoted(std::string_view text) { return config_value_text(std::string(text)); }

std::string allowed_text(const ConfigKey& key) {
  if (key.name == "permission_mode") return "\"default\", \"accept-edits\", \"plan\", \"bypass\"";
  if (key.name == "model") return "\"anthropic:NAME\", \"scripted:FILE\"";
  if (key.name == "shell") return "an absolute path";
  if (std::holds_alternative<bool>(key.fallback)) return "true, false";
  if (std::holds_alternative<std::string>(key.fallback)) return "a string";
  if (std::holds_alternative<List>(key.fallback)) return "a list of strings that are not empty";
  return key.max == kNoMax ? fmt::format("{} or more", key.min) : fmt::format("{}..{}", key.min, key.max);
}

bool is_allowed(const ConfigKey& key, const ConfigValue& value) {
  if (value.index() != key.fallback.index()) return false;
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) return *number >= key.min && *number <= key.max;
  if (const List* list = std::get_if<List>(&value)) {
    return std::none_of(list->begin(), list->end(), [](const std::string& item) { return item.empty(); });
  }
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return true;
  if (key.name == "permission_mode") {
    return *text == "default" || *text == "accept-edits" || *text == "plan" || *text == "bypass";
  }
  if (key.name == "shell") return text->starts_with('/');
  if (key.name == "model") {
    for (const std::string_view provider : {"anthropic:", "openai:", "scripted:"}) {
      if (text->starts_with(provider) && text->size() > provider.size()) return true;
    }
    return false;
  }
  return true;
}

std::string refusal(const std::string& origin, const ConfigKey& key, const std::string& value) {
  const std::string subject = origin.find(':') == std::string::npos ? origin : fmt::format("{}: {}", origin, key.name);
  return fmt::format("{}: {} is not allowed; allowed: {}", subject, value, allowed_text(key));
}

std::string known_keys() {
  std::string names;
  for (const ConfigKey& key : config_keys()) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

const ConfigKey* find_key(std::string_view name) {
  for (const ConfigKey& key : config_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// The text of a variable or flag as a value of the key's type; nothing when it is none.
std::optional<ConfigValue> value_from_text(const ConfigKey& key, const std::string& text) {
  if (std::holds_alternative<std::string>(key.fallback)) return text;
  if (std::holds_alternative<bool>(key.fallback)) {
    if (text == "true") return true;
    if (text == "false") return false;
    return std::nullopt;
  }
  if (std::holds_alternative<std::int64_t>(key.fallback)) {
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
  }
  if (!text.starts_with('[')) return List{text};  // one pattern, as it is typed after a flag
  const auto parsed = parse_toml("list = " + text);
  const auto* entries = std::get_if<std::vector<TomlEntry>>(&parsed);
  if (entries == nullptr || entries->size() != 1) return std::nullopt;
  if (const List* list = std::get_if<List>(&entries->front().value)) return *list;
  return std::nullopt;
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = {
      guarded_key("model", std::string(), "which model answers"),
      guarded_key("permission_mode", std::string("default"), "what is asked before a tool with side effects runs"),
      guarded_key("allow", List{}, "what is allowed without asking, e.g. \"bash(git status*)\""),
      {"deny", List{}, "what is always denied"},
      guarded_key("shell", std::string(), "the shell of commands; unset: bash when installed, else sh"),
      // The keys are the user's, not the project's: trust is about what it runs, not about secrets.
      guarded_key("pass_keys", false, "keep ANTHROPIC_API_KEY and OPENAI_API_KEY in the environment of tasks",
                  ByProject::never),
      number_key("max_concurrent_background", 5, 1, 10000, "background commands that run at a time"),
      number_key("max_output_chars", 65536, 1024, 16777216, "bytes of output kept in memory for a running task"),
      number_key("max_output_file_bytes", 67108864, 131072, kNoMax, "size of one output file"),
      number_key("max_session_output_bytes", 1073741824, 0, kNoMax,
                 "size of all output files of a session; 0: no limit"),
      number_key("min_free_bytes", 536870912, 0, kNoMax, "free space that output files leave on the disk; 0: none"),
      number_key("output_keep_days", 7, 0, 36500, "age at which old output files go; 0: at the session's end"),
      number_key("stop_grace_ms", 2000, 0, 60000, "between SIGTERM and SIGKILL"),
      number_key("output_drain_ms", 100, 0, 5000, "how long output is awaited after the shell's exit"),
      number_key("max_survivor_tasks", 20, 0, 1000000, "ended tasks that may still have processes; 0: no limit"),
      number_key("max_concurrent_subagents", 5, 1, 64, "agents that run at a time"),
      number_key("workflow_concurrency", 5, 1, 64, "agents of one workflow that run at a time"),
      number_key("start_window_ms", 300, 0, 5000, "how long background_bash waits for a quick end"),
      number_key("max_steps", 200, 1, 10000, "requests in one turn"),
      number_key("first_event_ms", 600000, 1, 86400000, "how long a model may be silent before its answer begins"),
      number_key("max_tokens", 0, 0, 1000000, "length of one answer; 0: the model's own default"),
      {"wake_for_user_tasks", false, "start a turn when a task ends that was started by hand"},
  };
  return keys;
}

Config::Config() {
  for (const ConfigKey& key : config_keys()) entries_.push_back({&key, key.fallback, {"default"}});
}

const ConfigEntry& Config::entry(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const ConfigEntry& entry) { return entry.key->name == name; });
  if (found == entries_.end()) std::abort();  // a name that the program itself got wrong
  return *found;
}

bool Config::flag(std::string_view name) const { return std::get<bool>(entry(name).value); }
std::int64_t Config::number(std::string_view name) const { return std::get<std::int64_t>(entry(name).value); }
const std::string& Config::text(std::string_view name) const { return std::get<std::string>(entry(name).value); }
const List& Config::list(std::string_view name) const { return std::get<List>(entry(name).value); }

bool Config::is_default(std::string_view name) const {
  const ConfigEntry& found = entry(name);
  return found.origins.size() == 1 && found.origins.front() == "default";
}

// Applies one source after the other; the first error ends it.
class ConfigLoader {
 public:
  std::variant<LoadedConfig, std::string> load(const ConfigSources& sources) {
    const bool named = !sources.user_file.empty();
    const std::string user_file = named ? sources.user_file : config_home() + "/config.toml";
    const bool good = apply_file(user_file, !named) && (sources.project_folder.empty() || apply_project(sources)) &&
                      apply_environment(sources) && apply_flags(sources);
    if (!good) return error_;
    return std::move(loaded_);
  }

 private:
  bool fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  bool apply_project(const ConfigSources& sources) {
    return apply_file(
        sources.project_folder + "/.errand/config.toml", true,
        [&](const ConfigKey& key, const ConfigValue& value, const std::string& origin) {
          if (key.by_project == ByProject::yes) return true;
          const bool in_force = key.by_project == ByProject::when_trusted && sources.project_is_trusted;
          loaded_.guarded.push_back({&key, value, origin, in_force});
          if (in_force) return true;
          loaded_.warnings.push_back(fmt::format(
              "{}: {} is ignored: {}", origin, key.name,
              key.by_project == ByProject::never
                  ? fmt::format("no project's file can set it; set it in {}/config.toml", config_home())
                  : "a project's file cannot widen permissions or name programs until you trust the folder: look at "
                    "the file, then run \"errand trust\" in this folder"));
          return false;
        });
  }

  // `may_set` is asked for each key, and may be nothing.
  bool apply_file(const std::string& path, bool may_be_missing,
                  const std::function<bool(const ConfigKey&, const ConfigValue&, const std::string&)>& may_set = {}) {
    std::string error;
    const std::string text = read_text_file(path, may_be_missing, error);
    if (!error.empty()) return fail(error);
    const auto parsed = parse_toml(text);
    if (const std::string* wrong = std::get_if<std::string>(&parsed)) {
      return fail(fmt::format("{}: {}", clean_utf8(path), *wrong));
    }
    for (const TomlEntry& entry : std::get<std::vector<TomlEntry>>(parsed)) {
      const std::string origin = fmt::format("{}:{}", clean_utf8(path), entry.line);
      const OtherToml* other = std::get_if<OtherToml>(&entry.value);
      const ConfigValue value = other ? ConfigValue() : config_value(entry.value);
      const std::string written = other ? other->text : config_value_text(value);
      const ConfigKey* key = find_key(entry.key);
      if (key == nullptr) {
        return fail(fmt::format("{}: unknown key {} with the value {}; the keys are {}", origin, quoted(entry.key),
                                written, known_keys()));
      }
      if (other != nullptr || !is_allowed(*key, value)) return fail(refusal(origin, *key, written));
      if (may_set && !may_set(*key, value, origin)) continue;
      set(*key, value, origin);
    }
    return true;
  }

  bool apply_environment(const ConfigSources& sources) {
    for (const ConfigKey& key : config_keys()) {
      std::string name = "ERRAND_" + std::string(key.name);
      for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      std::optional<std::string> text;
      if (sources.environment) {
        text = sources.environment(name);
      } else if (const char* value = std::getenv(name.c_str())) {
        text = value;
      }
      // An empty variable is the shell's way to say that there is none.
      if (text && !text->empty() && !apply_text(key, *text, name)) return false;
    }
    return true;
  }

  bool apply_flags(const ConfigSources& sources) {
    for (const auto& [name, text] : sources.flags) {
      const ConfigKey* key = find_key(name);
      if (key == nullptr) return fail(fmt::format("unknown key {}; the keys are {}", quoted(name), known_keys()));
      std::string flag = "--" + name;
      std::replace(flag.begin(), flag.end(), '_', '-');
      if (!apply_text(*key, text, flag)) return false;
    }
    return true;
  }

  bool apply_text(const ConfigKey& key, const std::string& text, const std::string& origin) {
    const std::optional<ConfigValue> value = value_from_text(key, text);
    if (!value || !is_valid_utf8(text) || !is_allowed(key, *value)) return fail(refusal(origin, key, quoted(text)));
    set(key, *value, origin);
    return true;
  }

  static ConfigValue config_value(const TomlValue& value) {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) return *number;
    if (const std::string* text = std::get_if<std::string>(&value)) return *text;
    return std::get<List>(value);
  }

  void set(const ConfigKey& key, const ConfigValue& value, const std::string& origin) {
    ConfigEntry& entry = loaded_.config.entries_[static_cast<std::size_t>(&key - config_keys().data())];
    const List* added = std::get_if<List>(&value);
    if (added == nullptr) {
      entry.value = value;
      entry.origins = {origin};
      return;
    }
    List& list = std::get<List>(entry.value);
    if (list.empty()) entry.origins.clear();
    list.insert(list.end(), added->begin(), added->end());
    entry.origins.insert(entry.origins.end(), added->size(), origin);
    if (list.empty()) entry.origins = {origin};
  }

  LoadedConfig loaded_;
  std::string error_;
};

std::variant<LoadedConfig, std::string> load_config(const ConfigSources& sources) {
  return ConfigLoader().load(sources);
}

}  // namespace errand
