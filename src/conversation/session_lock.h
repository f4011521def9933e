// SPDX-License-Identifier: Apache-2.0
// The lock that says a session lives: an open-file-description lock on the file `lock` in the session's folder. The
// kernel drops it with the process, however that ends; the pid in the file is for the message only. Not inherited
// across exec.
#pragma once

#include <string>

#include "base/fd.h"

namespace errand {

class SessionLock {
 public:
  // An empty text, or `session is in use by process 4711`, or what failed.
  std::string acquire(const std::string& path);
  bool held() const { return static_cast<bool>(fd_); }
  void release() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace errand
