// SPDX-License-Identifier: Apache-2.0
// The file calls that output files need: a seam, so that tests can have a disk that is full, slow or hung.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace errand {

// Results below zero are -errno.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // A new file (0600), for appending; an old one of that name is emptied. The descriptor.
  virtual int create(const std::string& path) = 0;
  // Bytes written, maybe fewer than asked for.
  virtual long write(int fd, std::string_view bytes) = 0;
  // Names that the file still has: 0 after it was removed.
  virtual long links(int fd) = 0;
  // Bytes that a user may still write to the file's disk.
  virtual long long free_bytes(int fd) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int remove(const std::string& path) = 0;
};

// The kernel's. Lives for ever.
FileSystem& real_file_system();

}  // namespace errand
