// SPDX-License-Identifier: Apache-2.0
// What the demo works on: a small C project with tests that run for some seconds and a tiny HTTP server, and the script
// that the model follows.
#pragma once

#include <string>

namespace errand::demo {

// A folder of its own, gone with everything in it at the end of the object's life.
class TemporaryFolder {
 public:
  // An empty path() when it could not be made; `error` says why.
  explicit TemporaryFolder(std::string& error);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes the project into an existing folder. An empty text, or what failed.
std::string write_project(const std::string& folder);
// The model's script, a file of the scripted model.
std::string write_script(const std::string& file);

}  // namespace errand::demo
