// SPDX-License-Identifier: Apache-2.0
#include "support/paths.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/folder.h"
#include "base/utf8.h"

namespace errand {
namespace {

constexpr std::size_t kMaxName = 200;
constexpr std::size_t kHashPart = 9;  // '-' and 8 digits

std::string home_folder() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return home;
  const passwd* entry = getpwuid(getuid());
  if (entry != nullptr && entry->pw_dir != nullptr && entry->pw_dir[0] == '/') return entry->pw_dir;
  return "/";
}

std::string xdg_home(const char* variable, std::string_view fallback) {
  const char* value = std::getenv(variable);
  std::string home = value != nullptr && value[0] == '/' ? std::string(value) : home_folder() + std::string(fallback);
  while (home.size() > 1 && home.back() == '/') home.pop_back();
  return home + "/errand";
}

// FNV-1a: the name has to be stable between versions and machines, not secret.
std::uint32_t hash(std::string_view text) {
  std::uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  return value;
}

bool plain_ascii(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool is_lead_or_ascii(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// The spaces, marks and separators beyond ASCII that nobody can see or type.
bool odd_code_point(std::string_view code_point) {
  if (code_point.size() == 2) return code_point[0] == '\xC2' && code_point[1] <= '\xA0';  // C1 controls, no-break space
  if (code_point.size() != 3) return false;
  for (const std::string_view odd :
       {"\xE1\x9A\x80", "\xE2\x81\x9F", "\xE2\x81\xA0", "\xE3\x80\x80", "\xEF\xBB\xBF", "\xEF\xBF\xBD"}) {
    if (code_point == odd) return true;
  }
  // U+2000..U+200F and U+2028..U+202F
  return code_point.substr(0, 2) == "\xE2\x80" &&
         (code_point[2] <= '\x8F' || (code_point[2] >= '\xA8' && code_point[2] <= '\xAF'));
}

}  // namespace

std::string state_home() { return xdg_home("XDG_STATE_HOME", "/.local/state"); }
std::string config_home() { return xdg_home("XDG_CONFIG_HOME", "/.config"); }

std::optional<std::string> real_path(const std::string& path, std::string& error) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  if (resolved) return std::string(resolved.get());
  error = fmt::format("cannot resolve \"{}\": {}", clean_utf8(path), std::strerror(errno));
  return std::nullopt;
}

std::string encode_folder(std::string_view absolute) {
  const std::string clean = clean_utf8(absolute);
  std::string_view rest = clean;
  while (rest.starts_with('/')) rest.remove_prefix(1);
  std::string name;
  while (!rest.empty()) {
    std::size_t size = 1;
    while (size < rest.size() && !is_lead_or_ascii(rest[size])) ++size;
    const std::string_view code_point = rest.substr(0, size);
    if (code_point == "/") {
      name += '-';
    } else if (size == 1 ? plain_ascii(code_point[0]) : !odd_code_point(code_point)) {
      name += code_point;
    } else {
      name += '_';
    }
    rest.remove_prefix(size);
  }
  if (name.empty()) return "_";  // the root folder
  if (name.size() <= kMaxName) return name;
  return fmt::format("{}-{:08x}", utf8_prefix(name, kMaxName - kHashPart), hash(absolute));
}

std::string project_folder_in(const std::string& state_home, const std::string& cwd) {
  std::string error;
  return state_home + "/projects/" + encode_folder(real_path(cwd, error).value_or(cwd));
}

std::string ensure_private_folder(const std::string& path) {
  const int error = make_private_folder(path);
  if (error == 0) return {};
  return fmt::format("cannot make folder \"{}\": {}", clean_utf8(path), std::strerror(-error));
}

}  // namespace errand
