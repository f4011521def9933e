// SPDX-License-Identifier: Apache-2.0
#include "support/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/utf8.h"
#include "support/paths.h"

namespace errand::log {
namespace {

struct Log {
  std::shared_ptr<spdlog::logger> logger;
  std::vector<std::string> secrets;
};

// Published once and never freed: threads may still write while the program ends.
std::atomic<Log*> current{nullptr};

spdlog::level::level_enum convert(Level level) {
  switch (level) {
    case Level::trace:
      return spdlog::level::trace;
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      break;
  }
  return spdlog::level::err;
}

std::string strike_out(std::string line, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    for (std::size_t at = line.find(secret); at != std::string::npos; at = line.find(secret, at)) {
      line.replace(at, secret.size(), "***");
    }
  }
  return line;
}

}  // namespace

std::string open(const std::string& state_home) {
  const char* wanted = std::getenv("ERRAND_LOG");
  if (wanted == nullptr || *wanted == '\0' || current.load() != nullptr) return {};
  const std::string name = wanted;
  spdlog::level::level_enum level = spdlog::level::debug;
  if (name != "1") {
    level = spdlog::level::from_str(name);
    if (level == spdlog::level::off) {
      return fmt::format("ERRAND_LOG: \"{}\" is not allowed; allowed: trace, debug, info, warn, error, 1",
                         clean_utf8(name));
    }
  }
  if (std::string error = ensure_private_folder(state_home); !error.empty()) return error;
  const std::string path = state_home + "/errand.log";
  // Made here, so that nobody else may read it from its first byte on.
  if (!UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600))) {
    return fmt::format("cannot open \"{}\": {}", path, std::strerror(errno));
  }
  auto log = std::make_unique<Log>();
  try {
    log->logger = std::make_shared<spdlog::logger>("errand", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  } catch (const spdlog::spdlog_ex& error) {
    return fmt::format("cannot open \"{}\": {}", path, error.what());
  }
  log->logger->set_level(level);
  log->logger->flush_on(spdlog::level::trace);
  log->logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %P %t %l %v");
  // A log that cannot be written must not write to the terminal instead.
  log->logger->set_error_handler([](const std::string&) {});
  for (const char* variable : {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && std::strlen(value) >= 4) log->secrets.emplace_back(value);
  }
  current.store(log.release());
  return {};
}

bool enabled(Level level) {
  const Log* log = current.load();
  return log != nullptr && log->logger->should_log(convert(level));
}

void write(Level level, std::string_view line) {
  if (!enabled(level)) return;
  const Log* log = current.load();
  const std::string text = strike_out(std::string(line), log->secrets);
  log->logger->log(convert(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace errand::log
