// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command_line.h"
#include "cli/settings.h"
#include "conversation/old_outputs.h"
#include "demo/demo.h"
#include "engine/signal_block.h"
#include "model/factory.h"
#include "repl/repl.h"
#include "support/config.h"
#include "support/config_text.h"
#include "support/log.h"
#include "support/paths.h"
#include "support/trust.h"
#include "terminal/text.h"

namespace errand::cli {
namespace {

constexpr int wrong_usage = 2;

// Names of files and folders are others' words: they are not to drive the terminal.
void complain(const std::string& what) { std::fprintf(stderr, "errand: %s\n", terminal::visible_text(what).c_str()); }

int fail(int code, const std::string& what) {
  complain(what);
  return code;
}

std::string model_text(const Model& model) {
  return "model " + model.name() + (model.is_script() ? " (a script, not a model)" : "");
}

// The folder that errand works in, and the configuration that is in force there; its warnings have been said.
struct Place {
  std::string folder;
  LoadedConfig loaded;
};

// Whether the user has trusted the folder, which is a real path as the kernel gives it; `why` says why that is not
// known.
bool is_trusted(const std::string& folder, std::string& why) {
  const auto trusted = trusted_folders(state_home());
  if (const auto* wrong = std::get_if<std::string>(&trusted)) {
    why = *wrong;
    return false;
  }
  const auto& folders = std::get<std::vector<std::string>>(trusted);
  return std::find(folders.begin(), folders.end(), folder) != folders.end();
}

// The exit code instead, when it has been said what is wrong.
std::variant<Place, int> place_of(const Request& request, bool warns = true) {
  std::error_code error;
  Place place;
  place.folder = std::filesystem::current_path(error).string();
  if (error) return fail(1, "cannot find the current folder: " + error.message());

  ConfigSources sources;
  std::string unknown;
  sources.project_folder = place.folder;
  sources.project_is_trusted = is_trusted(place.folder, unknown);
  sources.flags = request.flags;
  if (request.config_file) {
    if (::access(request.config_file->c_str(), R_OK) != 0)
      return fail(wrong_usage, "--config: cannot open \"" + *request.config_file + "\": " + std::strerror(errno));
    sources.user_file = *request.config_file;
  }
  auto loaded = load_config(sources);
  if (const auto* wrong = std::get_if<std::string>(&loaded)) return fail(wrong_usage, *wrong);
  place.loaded = std::move(std::get<LoadedConfig>(loaded));
  if (!warns) return place;
  if (!unknown.empty() && !place.loaded.guarded.empty()) complain(unknown + "; so this folder is not trusted");
  for (const std::string& warning : place.loaded.warnings) complain(warning);
  return place;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : fail(1, std::string("cannot write: ") + std::strerror(errno));
}

int print_config(const Request& request) {
  const auto place = place_of(request);
  if (const int* code = std::get_if<int>(&place)) return *code;
  const LoadedConfig& loaded = std::get<Place>(place).loaded;
  return print(config_text(loaded.config, default_model()) + ignored_text(loaded.guarded));
}

int fail_to_trust(const std::string& why) {
  return fail(1, "trust: " + why + "; nothing is changed (the state folder, $XDG_STATE_HOME/errand, must be writable)");
}

int list_trusted() {
  const auto trusted = trusted_folders(state_home());
  if (const auto* why = std::get_if<std::string>(&trusted)) return fail(1, "trust: " + *why);
  std::string text;
  for (const std::string& folder : std::get<std::vector<std::string>>(trusted)) {
    text += terminal::visible_text(folder) + "\n";
  }
  return print(text);
}

// Needs no configuration that can be read: what is wrong in it may be the reason.
int distrust_here() {
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  if (error) return fail(1, "cannot find the current folder: " + error.message());
  const auto changed = set_trust(state_home(), folder, false);
  if (const auto* why = std::get_if<std::string>(&changed)) return fail_to_trust(*why);
  return print(terminal::visible_text(folder) +
               (std::get<bool>(changed) ? " is not trusted any more.\n" : " was not trusted; nothing is changed.\n"));
}

int trust_here(const Request& request) {
  const auto found = place_of(request, false);
  if (const int* code = std::get_if<int>(&found)) return *code;
  const auto& [folder, loaded] = std::get<Place>(found);
  // Shown before it counts, and as it is: whoever wrote it may want to hide something.
  std::string settings;
  for (const GuardedSetting& setting : loaded.guarded) {
    if (setting.key->by_project != ByProject::when_trusted) continue;
    settings += "  " + std::string(setting.key->name) + " = " + config_value_text(setting.value) + "\n";
    if (setting.value == ConfigValue(std::string("bypass")))
      settings += "    (nothing is asked any more, whatever the model does)\n";
  }
  const std::string file = folder + "/.errand/config.toml";
  const std::string shown = settings.empty() ? file + " sets nothing today that needs your trust; it may later.\n"
                                             : file + " sets, with your trust:\n" + settings;
  if (const int code = print(terminal::visible_text(shown)); code != 0) return code;
  const auto changed = set_trust(state_home(), folder, true);
  if (const auto* why = std::get_if<std::string>(&changed)) return fail_to_trust(*why);
  return print(terminal::visible_text(folder) +
               (std::get<bool>(changed) ? " is trusted from now on" : " is trusted already") +
               "; \"errand trust --remove\" here takes it back.\n");
}

int trust_command(const Request& request) {
  switch (request.trust) {
    case Request::Trust::list:
      return list_trusted();
    case Request::Trust::remove:
      return distrust_here();
    case Request::Trust::add:
      break;
  }
  return trust_here(request);
}

std::jthread clean_old_outputs(std::int64_t keep_days) {
  // With 0 days, files of sessions that ended without removing them themselves. One that is only just beginning may not
  // have its lock yet, but has young files.
  const std::chrono::seconds age = keep_days > 0 ? std::chrono::hours(24 * keep_days) : std::chrono::minutes(1);
  const SignalBlock blocked;  // signals are the session's
  try {
    return std::jthread([age](const std::stop_token& stop) { remove_old_outputs(state_home(), age, stop); });
  } catch (const std::system_error&) {
    return {};  // no thread to be had: the next start may have one
  }
}

int run_repl_here(const Request& request) {
  const auto place = place_of(request);
  if (const int* code = std::get_if<int>(&place)) return *code;
  const auto& [folder, loaded] = std::get<Place>(place);
  const Config& config = loaded.config;
  if (const std::string why = log::open(state_home()); !why.empty()) complain(why);

  repl::ReplOptions options;
  options.session = session_options(config, folder);
  const std::string wanted = config.text("model").empty() ? default_model() : config.text("model");
  if (!wanted.empty()) {
    ModelOptions settings;
    settings.first_event_ms = config.number("first_event_ms");
    auto made = make_model(wanted, settings);
    if (const auto* why = std::get_if<std::string>(&made)) return fail(wrong_usage, *why);
    options.model = std::move(std::get<std::unique_ptr<Model>>(made));
  }
  options.banner.push_back("errand " + std::string(version) + " - " +
                           terminal::visible_text((options.model ? model_text(*options.model) + " - " : "") + folder));
  if (!options.model) options.banner.emplace_back(no_model_text());
  // Beside the session, so that the prompt does not wait for it; stopped with the session.
  const std::jthread cleaner = clean_old_outputs(config.number("output_keep_days"));
  return repl::run_repl(std::move(options));
}

// Descriptors 0, 1 and 2 that were closed would be given to the next files opened, and what is printed would go there.
void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // open answers with the lowest free number, which is this one; it stays open as long as we live.
    if (::open("/dev/null", O_RDWR) != descriptor) return;
  }
}

int start(const Request& request) {
  switch (request.what) {
    case Request::What::text:
      return print(request.text);
    case Request::What::config:
      return print_config(request);
    case Request::What::trust:
      return trust_command(request);
    case Request::What::demo:
      return demo::run_demo(version);
    case Request::What::repl:
      break;
  }
  return run_repl_here(request);
}

}  // namespace

int run(int count, const char* const* arguments) {
  fill_standard_descriptors();
  // A reader that goes away is an error of the write, not the end of us before the tasks are ended.
  std::signal(SIGPIPE, SIG_IGN);
  const auto parsed = parse_command_line(count, arguments);
  if (const auto* wrong = std::get_if<UsageError>(&parsed)) return fail(wrong_usage, wrong->text);
  try {
    return start(std::get<Request>(parsed));
  } catch (const std::system_error& error) {  // no thread for the session
    return fail(1, "cannot start: " + error.code().message());
  }
}

}  // namespace errand::cli
