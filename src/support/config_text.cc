// SPDX-License-Identifier: Apache-2.0
#include "support/config_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "support/json.h"

namespace errand {
namespace {

using List = std::vector<std::string>;

// JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
std::string quoted(std::string_view text) {
  std::string quoted;
  for (const char c : to_text(json::value(clean_utf8(text)))) {
    if (c == '\x7f') {
      quoted += "\\u007f";
    } else {
      quoted += c;
    }
  }
  return quoted;
}

std::string line(const std::string& text, const std::string& origin) {
  return fmt::format("{:<44}  # {}\n", text, clean_utf8(origin));
}

bool of_one_origin(const ConfigEntry& entry) {
  return std::all_of(entry.origins.begin(), entry.origins.end(),
                     [&](const std::string& origin) { return origin == entry.origins.front(); });
}

}  // namespace

std::string config_value_text(const ConfigValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const std::string* text = std::get_if<std::string>(&value)) return quoted(*text);
  std::string joined;
  for (const std::string& item : std::get<List>(value)) joined += (joined.empty() ? "" : ", ") + quoted(item);
  return "[" + joined + "]";
}

std::string config_text(const Config& config, std::string_view default_model) {
  std::string text;
  for (const ConfigEntry& entry : config.entries()) {
    const std::string name(entry.key->name);
    if (name == "model" && entry.value == ConfigValue(std::string()) && !default_model.empty()) {
      text += line(name + " = " + quoted(default_model), "default with ANTHROPIC_API_KEY");
      continue;
    }
    if (entry.value == ConfigValue(std::string())) {  // unset, which a file cannot say
      text += line("# " + name + " = \"\"", entry.origins.front());
      continue;
    }
    if (of_one_origin(entry)) {
      text += line(name + " = " + config_value_text(entry.value), entry.origins.front());
      continue;
    }
    text += name + " = [\n";
    const List& list = std::get<List>(entry.value);
    for (std::size_t i = 0; i < list.size(); ++i) text += line("  " + quoted(list[i]) + ",", entry.origins[i]);
    text += "]\n";
  }
  return text;
}

std::string ignored_text(const std::vector<GuardedSetting>& settings) {
  std::string text;
  for (const GuardedSetting& setting : settings) {
    if (setting.in_force) continue;
    text +=
        line(fmt::format("# {} = {}", setting.key->name, config_value_text(setting.value)),
             setting.origin + (setting.key->by_project == ByProject::never ? ", ignored: no project's file can set it"
                                                                           : ", ignored: folder not trusted"));
  }
  return text;
}

}  // namespace errand
