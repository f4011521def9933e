// SPDX-License-Identifier: Apache-2.0
// read: a text file's lines with their numbers, a bounded part at a time.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/utf8.h"
#include "tools/builtin.h"
#include "tools/file_access.h"

namespace errand {
namespace {

constexpr std::int64_t kDefaultLines = 2000;
constexpr std::size_t kMostCharactersInLine = 2000;
constexpr std::size_t kMostBytes = 200000;
// More of one line than this is never held: the rest is skipped, and said.
constexpr std::size_t kMostHeldOfLine = 1 << 20;
constexpr std::size_t kBinaryProbe = 8192;

std::string quoted(const std::string& path) { return "\"" + clean_utf8(path) + "\""; }

// Lines of a descriptor, one after another, without holding the file.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  // False at the end. `skipped` counts the bytes of the line that were not kept.
  bool next(std::string& line, std::size_t& skipped) {
    line.clear();
    skipped = 0;
    bool any = false;
    while (at_ < size_ || fill()) {
      any = true;
      const char* start = buffer_ + at_;
      const auto* newline = static_cast<const char*>(std::memchr(start, '\n', size_ - at_));
      const std::size_t count = newline ? static_cast<std::size_t>(newline - start) : size_ - at_;
      const std::size_t room = kMostHeldOfLine - line.size();
      line.append(start, count < room ? count : room);
      if (count > room) skipped += count - room;
      at_ += count + (newline ? 1 : 0);
      if (newline) return true;
    }
    return any;
  }
  // Set when reading failed; next() has then answered false.
  int error() const { return error_; }
  // NUL bytes near the start: no text. Asked before the first line.
  bool looks_binary() {
    if (at_ == size_) fill();
    return std::memchr(buffer_, '\0', size_ < kBinaryProbe ? size_ : kBinaryProbe) != nullptr;
  }

 private:
  bool fill() {
    ssize_t got;
    do {
      got = ::read(fd_, buffer_, sizeof buffer_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) error_ = errno;
    at_ = 0;
    size_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    return size_ > 0;
  }

  int fd_;
  int error_ = 0;
  std::size_t at_ = 0, size_ = 0;
  char buffer_[65536];
};

std::string numbered(std::int64_t number, std::string line, std::size_t skipped) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  std::string digits = std::to_string(number);
  if (digits.size() < 6) digits.insert(0, 6 - digits.size(), ' ');
  std::string text = digits + "\t" + cut_middle(clean_utf8(line), kMostCharactersInLine);
  if (skipped > 0) text += "... (" + std::to_string(skipped) + " more bytes)";
  return text + "\n";
}

class ReadTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return true; }

  std::optional<PermissionQuery> permission(const json::object& input, const ToolContext& context) const override {
    return read_query(spec_.name, string_argument(input, "path"), context);
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token stop) override {
    const std::string given = string_argument(input, "path");
    if (given.empty() || given.find('\0') != std::string::npos) return error_result("path must be the name of a file");
    const std::string path = absolute_path(given, context);
    // Not blocking: opening a FIFO would wait for its writer.
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd) return error_result("cannot open " + quoted(path) + ": " + std::strerror(errno));
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0)
      return error_result("cannot read " + quoted(path) + ": " + std::strerror(errno));
    if (S_ISDIR(status.st_mode))
      return error_result(quoted(path) + " is a folder; list it with bash (ls), or search it with grep");
    if (!S_ISREG(status.st_mode)) return error_result(quoted(path) + " is not a regular file");

    LineReader reader(fd.get());
    if (reader.looks_binary()) {
      return error_result(quoted(path) + " is a binary file (" + std::to_string(status.st_size) + " bytes)");
    }
    return read_lines(reader, path, input, stop);
  }

 private:
  static ToolResult read_lines(LineReader& reader, const std::string& path, const json::object& input,
                               const std::stop_token& stop) {
    const std::int64_t first = int_argument(input, "offset", 1);
    const std::int64_t most = int_argument(input, "limit", kDefaultLines);
    std::string text, line;
    std::size_t skipped = 0;
    std::int64_t number = 0, shown = 0;
    bool more = false;
    while (!more && reader.next(line, skipped)) {
      if (stop.stop_requested()) return error_result("reading was aborted by the user");
      if (++number < first) continue;
      more = shown == most || text.size() > kMostBytes;
      if (more) break;
      text += numbered(number, std::move(line), skipped);
      ++shown;
    }
    if (reader.error() != 0) return error_result("cannot read " + quoted(path) + ": " + std::strerror(reader.error()));
    if (number == 0) return ToolResult{"(the file is empty)", false, {}};
    if (shown == 0) {
      return error_result("offset " + std::to_string(first) + " is past the end: " + quoted(path) + " has " +
                          std::to_string(number) + (number == 1 ? " line" : " lines"));
    }
    if (more) {
      text += "(there are more lines; go on with offset " + std::to_string(number) + ")";
    } else {
      text.pop_back();
    }
    return ToolResult{std::move(text), false, {}};
  }

  const ToolSpec spec_ = make_spec(
      "read",
      "Reads a text file: its lines with their numbers, 2,000 lines unless told otherwise. Long lines are cut in the "
      "middle. Files outside the project need permission.",
      R"json({"type": "object", "properties": {
        "path": {"type": "string", "description": "The file, absolute or relative to the shell's current folder"},
        "offset": {"type": "integer", "minimum": 1, "description": "Number of the first line to show; default 1"},
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show; default 2000"}
      }, "required": ["path"]})json");
};

}  // namespace

std::unique_ptr<Tool> make_read_tool() { return std::make_unique<ReadTool>(); }

}  // namespace errand
