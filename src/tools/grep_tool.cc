// SPDX-License-Identifier: Apache-2.0
// grep: ripgrep where it is installed, else the search of our own; both answer in the same form.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/utf8.h"
#include "tools/builtin.h"
#include "tools/file_access.h"
#include "tools/file_search.h"
#include "tools/run_program.h"
#include "tools/task_text.h"

namespace errand {
namespace {

constexpr std::int64_t kDefaultLines = 250;
constexpr std::size_t kMostBytes = 30000;

SearchResult search_with_ripgrep(const std::string& program, const SearchRequest& request, std::stop_token stop) {
  std::vector<std::string> argv = {program,           "--no-config", "--color=never",     "--no-heading",
                                   "--with-filename", "--sort=path", "--max-columns=500", "--max-columns-preview"};
  switch (request.mode) {
    case SearchRequest::Mode::content:
      argv.push_back("--line-number");
      break;
    case SearchRequest::Mode::files:
      argv.push_back("--files-with-matches");
      break;
    case SearchRequest::Mode::count:
      argv.push_back("--count");
      break;
  }
  if (request.ignore_case) argv.push_back("--ignore-case");
  if (request.mode == SearchRequest::Mode::content && request.context > 0) {
    argv.push_back("--context=" + std::to_string(request.context));
  }
  if (!request.glob.empty()) argv.push_back("--glob=" + request.glob);
  argv.insert(argv.end(), {"-e", request.pattern, "--", request.path});

  const ProgramResult ran = run_program(argv, request.folder, kMostBytes, stop);
  SearchResult result;
  result.cut = ran.cut;
  result.stopped = ran.stopped;
  result.out = clean_utf8(ran.out);
  // 1 means no match; 2 with matches means that some files could not be read.
  if (!ran.error.empty()) {
    result.error = ran.error;
  } else if (!ran.cut && !ran.stopped && ran.exit_code.value_or(2) > 1 && ran.out.empty()) {
    result.error = clean_utf8(trim_end(ran.err));
    if (result.error.empty()) result.error = "the search program ended without a result";
  }
  return result;
}

class GrepTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return true; }

  std::optional<PermissionQuery> permission(const json::object& input, const ToolContext& context) const override {
    return read_query(spec_.name, start(input), context);
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token stop) override {
    SearchRequest request;
    request.pattern = string_argument(input, "pattern");
    request.glob = string_argument(input, "glob");
    request.ignore_case = flag_argument(input, "ignore_case");
    request.context = static_cast<int>(int_argument(input, "context", 0));
    const std::string mode = string_argument(input, "mode");
    if (mode == "files") request.mode = SearchRequest::Mode::files;
    if (mode == "count") request.mode = SearchRequest::Mode::count;
    request.folder = context.cwd;
    request.path = shown_path(start(input), context);
    for (const std::string* text : {&request.pattern, &request.glob, &request.path}) {
      if (text->find('\0') != std::string::npos) return error_result("arguments must not contain a NUL character");
    }
    const std::string absolute = absolute_path(request.path, context);
    struct stat status{};
    if (::stat(absolute.c_str(), &status) != 0) {
      return error_result("cannot open \"" + clean_utf8(absolute) + "\": " + std::strerror(errno));
    }

    const std::string program = find_program("rg");
    const SearchResult found =
        program.empty() ? search_files(request, kMostBytes, stop) : search_with_ripgrep(program, request, stop);
    if (found.stopped) return error_result("the search was aborted by the user");
    if (!found.error.empty()) return error_result(found.error);
    return ToolResult{limited(found, int_argument(input, "limit", kDefaultLines)), false, {}};
  }

 private:
  static std::string start(const json::object& input) {
    const std::string path = string_argument(input, "path");
    return path.empty() ? "." : path;
  }

  // Relative where that is shorter to read: inside the folder.
  static std::string shown_path(const std::string& path, const ToolContext& context) {
    const std::filesystem::path absolute = absolute_path(path, context);
    const std::filesystem::path relative = absolute.lexically_relative(std::filesystem::path(context.cwd));
    return relative.empty() || *relative.begin() == ".." ? absolute.string() : relative.string();
  }

  static std::string limited(const SearchResult& found, std::int64_t most) {
    std::string text;
    std::int64_t lines = 0;
    bool more = found.cut;
    for (std::size_t at = 0; at < found.out.size();) {
      std::size_t end = found.out.find('\n', at);
      // A line that the bound has cut through is left out.
      if (end == std::string::npos && found.cut) break;
      if (end == std::string::npos) end = found.out.size();
      if (lines == most) {
        more = true;
        break;
      }
      std::string_view line = std::string_view(found.out).substr(at, end - at);
      if (line.starts_with("./")) line.remove_prefix(2);
      text += line;
      text += '\n';
      ++lines;
      at = end + 1;
    }
    if (more) return text + "(there are more; narrow the pattern, the path or the glob)";
    if (text.empty()) return "No matches.";
    text.pop_back();
    return text;
  }

  const ToolSpec spec_ = make_spec(
      "grep",
      "Searches files for a regular expression; answers path:line:text, in the order of the paths. Hidden, ignored and "
      "binary files are left out. Faster and safer than grep through bash.",
      R"json({"type": "object", "properties": {
        "pattern": {"type": "string", "description": "The regular expression (RE2 syntax)"},
        "path": {"type": "string", "description": "File or folder to search; default: the shell's current folder"},
        "glob": {"type": "string", "description": "Only files that match, e.g. *.cc or src/**/*.h"},
        "ignore_case": {"type": "boolean"},
        "context": {"type": "integer", "minimum": 0, "maximum": 50, "description": "Lines to show before and after each match"},
        "mode": {"type": "string", "enum": ["content", "files", "count"], "description": "Matching lines (the default), only the files' names, or the number of matches a file"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "How many lines to answer at most; default 250"}
      }, "required": ["pattern"]})json");
};

}  // namespace

std::unique_ptr<Tool> make_grep_tool() { return std::make_unique<GrepTool>(); }

}  // namespace errand
