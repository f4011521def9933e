// SPDX-License-Identifier: Apache-2.0
// The configuration: one table of keys, and the value that is in force for each, with where it came from.
//
// Sources, the later wins: built-in defaults, the user's file, the project's file, the environment (ERRAND_<KEY> in
// upper case), flags. Lists (allow, deny) add up instead: nobody's deny is ever taken away by a later source. Unknown
// keys and wrong values are refused, wherever they stand. What would widen permissions or name a program is ignored in
// a project's file, with a warning, since whoever wrote the project is not the user; until the user trusts the folder.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace errand {

using ConfigValue = std::variant<bool, std::int64_t, std::string, std::vector<std::string>>;

// Whether a project's file may set a key.
enum class ByProject { yes, when_trusted, never };

struct ConfigKey {
  std::string_view name;
  ConfigValue fallback;  // its type is the key's type
  std::string_view meaning;
  std::int64_t min = 0;  // of an integer
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  ByProject by_project = ByProject::yes;
};

// In the order in which `errand config` lists them.
const std::vector<ConfigKey>& config_keys();

struct ConfigEntry {
  const ConfigKey* key = nullptr;
  ConfigValue value;
  // "default", "/home/u/.config/errand/config.toml:3", "ERRAND_MODEL", "--model"; of a list: one an item, in order.
  std::vector<std::string> origins;
};

class Config {
 public:
  Config();  // the defaults

  // The name must be one of the table, and of that type.
  bool flag(std::string_view name) const;
  std::int64_t number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::string>& list(std::string_view name) const;

  bool is_default(std::string_view name) const;
  const ConfigEntry& entry(std::string_view name) const;
  const std::vector<ConfigEntry>& entries() const { return entries_; }

 private:
  friend class ConfigLoader;
  std::vector<ConfigEntry> entries_;
};

struct ConfigSources {
  std::string user_file;            // empty: config_home() + "/config.toml", which may be missing
  std::string project_folder;       // empty: no project's file; else its .errand/config.toml, which may be missing
  bool project_is_trusted = false;  // see trust.h
  // Name and value as typed, the name as in the table: {"model", "anthropic:x"}.
  std::vector<std::pair<std::string, std::string>> flags;
  // Replaces the process's environment in tests.
  std::function<std::optional<std::string>(const std::string&)> environment;
};

// What a project's file says of a key that not every project may set.
struct GuardedSetting {
  const ConfigKey* key = nullptr;
  ConfigValue value;
  std::string origin;  // "/p/.errand/config.toml:3"
  bool in_force = false;
};

struct LoadedConfig {
  Config config;
  std::vector<std::string> warnings;  // for the user, a line each
  std::vector<GuardedSetting> guarded;
};

// The configuration, or the first thing that is wrong with it:
// `/x/config.toml:3: max_steps: 0 is not allowed; allowed: 1..10000`.
std::variant<LoadedConfig, std::string> load_config(const ConfigSources& sources);

}  // namespace errand
