// SPDX-License-Identifier: Apache-2.0
#include "engine/environment.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

extern char** environ;

namespace errand {
namespace {

void set(std::vector<std::string>& environment, std::string_view name, const std::string* value) {
  const auto is_name = [name](const std::string& entry) {
    return entry.size() > name.size() && entry[name.size()] == '=' && entry.compare(0, name.size(), name) == 0;
  };
  std::erase_if(environment, is_name);
  if (value != nullptr) environment.push_back(std::string(name) + "=" + *value);
}

void set(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  const std::string text(value);
  set(environment, name, &text);
}

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

}  // namespace

std::vector<std::string> task_environment(const EngineConfig& config, std::string_view task_id,
                                          std::string_view token) {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  for (const std::string& name : config.hidden_environment) set(environment, name, nullptr);
  set(environment, "TERM", "dumb");
  set(environment, "PAGER", "cat");
  set(environment, "GIT_PAGER", "cat");
  set(environment, "NO_COLOR", "1");
  set(environment, "PYTHONUNBUFFERED", "1");
  for (const auto& [name, value] : config.environment) set(environment, name, value ? &*value : nullptr);
  // Last: ownership hangs on these. A host that is a task itself has values of its own, which are not inherited.
  if (task_id.empty()) {
    set(environment, "ERRAND_TASK_ID", nullptr);
  } else {
    set(environment, "ERRAND_TASK_ID", task_id);
  }
  set(environment, "ERRAND_TASK_TOKEN", token);
  return environment;
}

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    std::random_device device;  // a kernel without getrandom
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(device());
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : bytes) {
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

std::string find_shell(const EngineConfig& config) {
  if (!config.shell.empty()) return config.shell;
  const char* const path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const std::string candidate = std::string(folder) + "/bash";
    if (folder.starts_with('/') && is_program(candidate)) return candidate;
  }
  for (const char* candidate : {"/bin/bash", "/usr/bin/bash"}) {
    if (is_program(candidate)) return candidate;
  }
  return "/bin/sh";
}

bool is_blank(std::string_view text) {
  // The white space outside ASCII, as UTF-8: NBSP, ogham, the U+2000 block, line and paragraph separators, ideographic.
  constexpr std::string_view kWide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
                                        "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
                                        "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
                                        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
  while (!text.empty()) {
    const char c = text.front();
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1C' && c <= '\x1F')) {
      text.remove_prefix(1);
      continue;
    }
    const auto* wide =
        std::find_if(std::begin(kWide), std::end(kWide), [&](auto space) { return text.starts_with(space); });
    if (wide == std::end(kWide)) return false;
    text.remove_prefix(wide->size());
  }
  return true;
}

}  // namespace errand
