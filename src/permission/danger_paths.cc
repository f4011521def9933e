// SPDX-License-Identifier: Apache-2.0
#include "permission/danger_paths.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace errand {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string_view>;

// First parts of paths. Trees on which the system stands:
const Names kSystemTrees = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr",
                            "etc", "boot", "dev", "proc",  "sys",   "System", "nix"};
// Trees that hold everybody's things: they themselves matter, single things in them mostly do not.
const Names kSharedTrees = {"var",   "root", "home",    "opt",          "srv",   "run",    "mnt",
                            "media", "snap", "Library", "Applications", "Users", "Volumes"};
const Names kHarmlessDevices = {"null",  "zero",   "full",   "random", "urandom",
                                "stdin", "stdout", "stderr", "tty",    "ptmx"};
const Names kHomeTreasures = {".ssh",     ".gnupg",    ".config", ".local",    ".aws",     ".kube", ".password-store",
                              ".mozilla", "Documents", "Desktop", "Downloads", "Pictures", "Music", "Videos",
                              "Library",  ".git"};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(path)) {
    if (part != "/" && !part.empty()) parts.push_back(part.string());
  }
  return parts;
}

std::string normal(const std::string& path) {
  std::string text = fs::path(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  // "//" is a root of its own to the library, not to Linux.
  while (text.size() > 1 && text[0] == '/' && text[1] == '/') text.erase(0, 1);
  return text;
}

bool is_below(const std::string& path, const std::string& folder) {
  if (folder.empty()) return false;
  if (folder == "/") return path.size() > 1;
  return path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/';
}

bool is_at_or_above(const std::string& path, const std::string& folder) {
  return !folder.empty() && (path == folder || is_below(folder, path));
}

bool is_disk(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return false;
  if (parts[0] == "proc") return parts[1] == "sysrq-trigger" || parts[1] == "kcore" || parts[1] == "kmem";
  if (parts[0] != "dev") return false;
  static const Names kFolders = {"disk", "mapper", "block"};
  if (parts.size() > 2 && kFolders.contains(parts[1])) return true;
  static const char* const kNames[] = {"sd[a-z]*", "hd[a-z]*", "vd[a-z]*",   "xvd[a-z]*", "nvme[0-9]*", "mmcblk[0-9]*",
                                       "dm-*",     "md[0-9]*", "loop[0-9]*", "sr[0-9]*",  "disk[0-9]*", "rdisk[0-9]*",
                                       "nbd*",     "zd[0-9]*", "mem",        "kmem",      "port",       "sd*",
                                       "nvme*",    "vd*",      "mtd*",       "pmem*",     "ram[0-9]*"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return ::fnmatch(name, parts[1].c_str(), 0) == 0; });
}

bool matches_all(const std::string& name) {
  return name.find('*') != std::string::npos && name.find_first_not_of("*?.[]!^") == std::string::npos;
}

// What a pattern may match of the paths that matter most.
std::vector<std::string> well_known(const PathContext& context) {
  std::vector<std::string> paths;
  for (const Names* names : {&kSystemTrees, &kSharedTrees}) {
    for (std::string_view name : *names) paths.push_back("/" + std::string(name));
  }
  for (const char* name :
       {"/usr/bin", "/usr/lib", "/usr/sbin", "/usr/share", "/usr/local", "/usr/include", "/home/user", "/var/lib",
        "/var/log", "/etc/passwd", "/etc/shadow", "/dev/sda", "/dev/nvme0n1", "/dev/vda"}) {
    paths.emplace_back(name);
  }
  for (const std::string& folder : {context.home, context.project}) {
    for (std::string at = normal(folder); at.size() > 1; at = normal(fs::path(at).parent_path().string()))
      paths.push_back(at);
  }
  return paths;
}

PathRank rank_of_pattern(const std::string& path, const PathContext& context) {
  PathRank rank = rank_of_absolute(path, context);
  const fs::path as_path(path);
  if (matches_all(as_path.filename().string())) {
    rank = std::max(rank, rank_of_absolute(normal(as_path.parent_path().string()), context));
  }
  for (const std::string& known : well_known(context)) {
    if (::fnmatch(path.c_str(), known.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) {
      rank = std::max(rank, rank_of_absolute(known, context));
    }
  }
  return rank;
}

PathRank rank_of_links(const std::string& path, bool follows_last, const PathContext& context) {
  std::error_code error;
  const fs::path as_path(path);
  fs::path real;
  if (follows_last) {
    real = fs::canonical(as_path, error);
  } else {
    real = fs::canonical(as_path.parent_path(), error);
    if (!error) real /= as_path.filename();
  }
  return error ? PathRank::none : rank_of_absolute(normal(real.string()), context);
}

}  // namespace

bool is_harmless_sink(const std::string& path) {
  const std::vector<std::string> parts = parts_of(normal(path));
  if (parts.size() < 2 || parts[0] != "dev") return false;
  return (parts.size() == 2 && (kHarmlessDevices.contains(parts[1]) || parts[1].starts_with("tty"))) ||
         parts[1] == "fd" || parts[1] == "pts" || parts[1] == "shm";
}

PathRank rank_of_absolute(const std::string& path, const PathContext& context) {
  const std::vector<std::string> parts = parts_of(path);
  if (parts.empty()) return PathRank::tree;
  if (is_disk(parts)) return PathRank::disk;
  const std::string home = normal(context.home), project = normal(context.project);
  const std::string& top = parts[0];
  if (is_at_or_above(path, home)) return PathRank::tree;
  if (parts.size() == 1 && (kSystemTrees.contains(top) || kSharedTrees.contains(top))) return PathRank::tree;
  if (parts.size() == 2 && (top == "home" || top == "Users")) return PathRank::tree;

  // The project may lie anywhere, also where a system's things do; what is in it is the user's.
  const std::vector<std::string> project_parts = parts_of(project);
  if (is_below(path, project) && project_parts.size() > 1) {
    return path == project + "/.git" ? PathRank::notable : PathRank::none;
  }
  if (kSystemTrees.contains(top)) {
    if (top == "dev" && parts.size() > 2 && parts[1] == "shm") return PathRank::none;
    if (top == "usr" && parts[1] == "local" && parts.size() > 3) return PathRank::none;
    if (top == "usr" && parts.size() == 2) return PathRank::tree;
    return PathRank::system;
  }
  if (is_at_or_above(path, project)) return PathRank::notable;
  if (top == "var") {
    if (parts.size() == 2 && parts[1] == "tmp") return PathRank::notable;
    return parts.size() == 2 ? PathRank::system : PathRank::none;
  }
  if (top == "root" && parts.size() == 2 && kHomeTreasures.contains(parts[1])) return PathRank::notable;
  if ((top == "mnt" || top == "media" || top == "Volumes") && parts.size() <= 3) return PathRank::notable;
  if (!home.empty() && is_below(path, home)) {
    const std::vector<std::string> inner = parts_of(path.substr(home.size()));
    const bool key = inner[0] == ".ssh" || inner[0] == ".gnupg" || inner[0] == ".aws";
    if (key || (inner.size() == 1 && kHomeTreasures.contains(inner[0]))) return PathRank::notable;
    return PathRank::none;
  }
  // A first-level folder of somebody's own, "/tmp" itself among them.
  if (parts.size() == 1) return PathRank::notable;
  return PathRank::none;
}

PathRank rank_of(const ShellWord& word, const PathContext& context) {
  if (word.text.empty() || word.text.find('\0') != std::string::npos) return PathRank::none;
  const bool absolute = word.text[0] == '/';
  // The missing part in front may be empty or not; what follows a slash is then below something else.
  std::vector<std::string> paths;
  if (absolute) {
    paths.push_back(word.text);
  } else if (context.folders.empty()) {
    const std::string inner = normal(word.text);
    const bool whole = inner == "." || inner == ".." || inner.starts_with("../") || matches_all(inner);
    return whole ? PathRank::notable : PathRank::none;
  }
  if (!absolute) {
    for (const std::string& folder : context.folders) paths.push_back((fs::path(folder) / word.text).string());
  }
  PathRank rank = PathRank::none;
  for (const std::string& path : paths) {
    const std::string plain = normal(path);
    rank = std::max(rank, word.glob ? rank_of_pattern(plain, context) : rank_of_absolute(plain, context));
    if (context.remote || rank >= PathRank::tree) continue;
    const bool follows = path.ends_with("/") || path.ends_with("/.");
    rank = std::max(rank, rank_of_links(plain, follows, context));
    if (word.glob && matches_all(fs::path(plain).filename().string())) {
      rank = std::max(rank, rank_of_links(normal(fs::path(plain).parent_path().string()), true, context));
    }
  }
  return rank;
}

}  // namespace errand
