// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <CLI/CLI.hpp>

namespace errand::cli {

const char* const version = ERRAND_VERSION;

std::variant<Request, UsageError> parse_command_line(int count, const char* const* arguments) {
  Request request;
  CLI::App app(
      "A terminal coding agent whose background work is real: commands go on while you and the model do, and\n"
      "both are told when they end. Without a command: the REPL in this folder.",
      "errand");
  app.set_help_flag("--help,-h", "Print this and exit");
  bool wants_version = false;
  app.add_flag("--version", wants_version, "Print the version and exit");
  std::optional<std::string> model, mode;
  app.add_option("--model", model, "anthropic:NAME or scripted:FILE")->type_name("MODEL");
  app.add_option("--permission-mode", mode, "default, accept-edits, plan or bypass")->type_name("MODE");
  app.add_option("--config", request.config_file, "This file instead of the user's config.toml")->type_name("FILE");
  app.allow_extras();
  CLI::App* demo = app.add_subcommand("demo", "A tour on a scripted model: real processes, no key, no network");
  demo->set_help_flag();
  demo->allow_extras();
  CLI::App* config = app.add_subcommand("config", "What is in force here, and where each value came from");
  config->set_help_flag();
  config->allow_extras();
  config->fallthrough();  // `errand config --model ...` too: what would be in force with it
  CLI::App* trust =
      app.add_subcommand("trust", "Let this folder's .errand/config.toml set what else only you may; --remove, --list");
  trust->set_help_flag();
  trust->allow_extras();
  trust->fallthrough();
  CLI::Option* remove = trust->add_flag("--remove");
  CLI::Option* list = trust->add_flag("--list")->excludes(remove);
  app.require_subcommand(0, 1);
  try {
    app.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    request.what = Request::What::text;
    request.text = app.help();
    return request;
  } catch (const CLI::ParseError& error) {
    return UsageError{std::string(error.what()) + " (see errand --help)"};
  }
  if (const std::vector<std::string> extras = app.remaining(true); !extras.empty()) {
    // The parser's own mark, which it keeps in the list.
    const std::string& first = extras.front() == "--" && extras.size() > 1 ? extras[1] : extras.front();
    return UsageError{first + (first.starts_with('-') ? ": unknown option" : ": unknown command") +
                      " (see errand --help)"};
  }
  if (wants_version) {
    request.what = Request::What::text;
    request.text = std::string("errand ") + version + "\n";
    return request;
  }
  if (model) request.flags.emplace_back("model", *model);
  if (mode) request.flags.emplace_back("permission_mode", *mode);
  if (demo->parsed()) request.what = Request::What::demo;
  if (config->parsed()) request.what = Request::What::config;
  if (trust->parsed()) {
    request.what = Request::What::trust;
    if (remove->count() > 0) request.trust = Request::Trust::remove;
    if (list->count() > 0) request.trust = Request::Trust::list;
  }
  return request;
}

}  // namespace errand::cli
