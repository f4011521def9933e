// SPDX-License-Identifier: Apache-2.0
#include "support/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"
#include "base/utf8.h"

namespace errand {
namespace {

constexpr std::size_t kMaxFile = 1 << 20;

std::string failure(const char* what, const std::string& path) {
  return fmt::format("cannot {} \"{}\": {}", what, clean_utf8(path), std::strerror(errno));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0;
}

}  // namespace

std::string read_text_file(const std::string& path, bool may_be_missing, std::string& error) {
  const auto fail = [&](const char* what) {
    error = failure(what, path);
    return std::string();
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return may_be_missing && (errno == ENOENT || errno == ENOTDIR) ? std::string() : fail("open");
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("read");
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxFile) {
      error = fmt::format("cannot read \"{}\": more than {} bytes", clean_utf8(path), kMaxFile);
      return {};
    }
  }
}

std::string replace_private_file(const std::string& path, std::string_view text) {
  std::string beside = path + ".XXXXXX";
  const UniqueFd fd(::mkostemp(beside.data(), O_CLOEXEC));  // 0600
  if (!fd) return failure("write", path);
  if (write_all(fd.get(), text) && ::rename(beside.c_str(), path.c_str()) == 0) return {};
  const std::string why = failure("write", path);
  ::unlink(beside.c_str());
  return why;
}

}  // namespace errand
