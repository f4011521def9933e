// SPDX-License-Identifier: Apache-2.0
// The command line: what was asked for, or why that cannot be. The only room that knows CLI11.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace errand::cli {

struct Request {
  enum class What { repl, demo, config, trust, text };
  enum class Trust { add, remove, list };
  What what = What::repl;
  Trust trust = Trust::add;
  std::string text;                                        // to be printed: --help, --version
  std::optional<std::string> config_file;                  // --config
  std::vector<std::pair<std::string, std::string>> flags;  // as ConfigSources wants them
};

struct UsageError {
  std::string text;  // "--modle: unknown option (see errand --help)"
};

std::variant<Request, UsageError> parse_command_line(int count, const char* const* arguments);

extern const char* const version;

}  // namespace errand::cli
