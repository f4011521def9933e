// SPDX-License-Identifier: Apache-2.0
#include "tools/file_search.h"

#include <fnmatch.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/utf8.h"

namespace errand {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBinaryProbe = 8192;
constexpr std::size_t kMostShownOfLine = 500;

class Search {
 public:
  Search(const SearchRequest& request, const RE2& pattern, std::size_t most, const std::stop_token& stop)
      : request_(request), pattern_(pattern), most_(most), stop_(stop) {}

  // Whether to go on.
  bool visit(const fs::path& path, const std::string& shown) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (error) return true;
    if (fs::is_directory(status)) return visit_folder(path, shown);
    if (fs::is_regular_file(status) && glob_matches(shown)) search_file(path, shown);
    return going_on();
  }

  SearchResult take() { return std::move(result_); }

 private:
  bool visit_folder(const fs::path& folder, const std::string& shown) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (!name.starts_with('.')) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      if (!visit(folder / name, shown.empty() || shown == "." ? name : (fs::path(shown) / name).string())) return false;
    }
    return true;
  }

  bool glob_matches(const std::string& shown) const {
    if (request_.glob.empty()) return true;
    const bool of_path = request_.glob.find('/') != std::string::npos;
    const std::string subject = of_path ? shown : fs::path(shown).filename().string();
    if (::fnmatch(request_.glob.c_str(), subject.c_str(), 0) == 0) return true;
    // "**/x" means x at the top, too.
    return request_.glob.starts_with("**/") && ::fnmatch(request_.glob.c_str() + 3, subject.c_str(), 0) == 0;
  }

  static bool is_binary(std::ifstream& file) {
    char probe[kBinaryProbe];
    file.read(probe, sizeof probe);
    const bool binary = std::memchr(probe, '\0', static_cast<std::size_t>(file.gcount())) != nullptr;
    file.clear();
    file.seekg(0);
    return binary;
  }

  void search_file(const fs::path& path, const std::string& shown) {
    std::ifstream file(path, std::ios::binary);
    if (!file || is_binary(file)) return;
    std::deque<std::pair<long, std::string>> before;
    long number = 0, matches = 0, last_printed = 0;
    int after = 0;
    for (std::string line; going_on() && std::getline(file, line);) {
      ++number;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const bool match = RE2::PartialMatch(line, pattern_);
      if (match) {
        ++matches;
        if (request_.mode == SearchRequest::Mode::files) return emit(shown);
      }
      if (request_.mode != SearchRequest::Mode::content) continue;
      if (match) {
        const long first = before.empty() ? number : before.front().first;
        if (request_.context > 0 && printed_any_ && first != last_printed + 1) emit("--");
        for (const auto& [at, text] : before) emit_line(shown, at, text, '-');
        before.clear();
        emit_line(shown, number, line, ':');
        last_printed = number;
        after = request_.context;
      } else if (after > 0) {
        --after;
        emit_line(shown, number, line, '-');
        last_printed = number;
      } else if (request_.context > 0) {
        before.emplace_back(number, std::move(line));
        if (before.size() > static_cast<std::size_t>(request_.context)) before.pop_front();
      }
    }
    if (request_.mode == SearchRequest::Mode::count && matches > 0) emit(shown + ":" + std::to_string(matches));
  }

  void emit_line(const std::string& shown, long number, const std::string& text, char mark) {
    emit(shown + mark + std::to_string(number) + mark + cut_middle(clean_utf8(text), kMostShownOfLine));
    printed_any_ = true;
  }

  void emit(const std::string& line) {
    if (result_.out.size() + line.size() + 1 > most_) {
      result_.cut = true;
      return;
    }
    result_.out += line + "\n";
  }

  bool going_on() {
    result_.stopped = stop_.stop_requested();
    return !result_.cut && !result_.stopped;
  }

  const SearchRequest& request_;
  const RE2& pattern_;
  const std::size_t most_;
  const std::stop_token stop_;
  SearchResult result_;
  bool printed_any_ = false;
};

}  // namespace

SearchResult search_files(const SearchRequest& request, std::size_t most_bytes, std::stop_token stop) {
  SearchResult failed;
  RE2::Options options;
  options.set_log_errors(false);
  options.set_case_sensitive(!request.ignore_case);
  const RE2 pattern(request.pattern, options);
  if (!pattern.ok()) {
    failed.error = "bad pattern: " + pattern.error();
    return failed;
  }
  const fs::path start = fs::path(request.folder) / request.path;
  std::error_code error;
  if (!fs::exists(start, error)) {
    failed.error = "cannot open \"" + start.string() + "\": " + (error ? error.message() : "No such file or directory");
    return failed;
  }
  Search search(request, pattern, most_bytes, stop);
  search.visit(fs::is_symlink(start, error) ? fs::canonical(start, error) : start, request.path);
  return search.take();
}

}  // namespace errand
