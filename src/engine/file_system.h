// SPDX-License-Identifier: Apache-2.0
// The file calls that output files need: a seam, so that tests can have a disk that is full, slow or hung.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace errand {

// Which file it is, whatever its name: another one that came in its place, with the same number even, was born later.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t born_ns = 0;  // 0 where the file system does not tell
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity identity_of(int fd);  // all 0: not known

// Results below zero are -errno.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // A new file (0600), for appending; an old one of that name is emptied, unless it has another name too (-EEXIST). A
  // FIFO that nobody reads from is not waited for (-EEXIST). The descriptor.
  virtual int create(const std::string& path) = 0;
  // Bytes written, maybe fewer than asked for.
  virtual long write(int fd, std::string_view bytes) = 0;
  // Names that the file still has: 0 after it was removed.
  virtual long links(int fd) = 0;
  virtual FileIdentity identity(int fd) = 0;
  // Bytes that a user may still write to the file's disk.
  virtual long long free_bytes(int fd) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int remove(const std::string& path) = 0;
};

// The kernel's. Lives for ever.
FileSystem& real_file_system();

}  // namespace errand
