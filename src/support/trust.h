// SPDX-License-Identifier: Apache-2.0
// The folders whose project's file the user has trusted: a private file in the state folder, one resolved absolute path
// a line. It is the path that is trusted: what stands there later, too, and nothing above or below it. Lines that are
// no absolute path (a comment written by hand) mean nothing and stay.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace errand {

std::string trust_file(const std::string& state_home);

// In the order in which they were trusted, or why the file cannot be read. No file: no folder.
std::variant<std::vector<std::string>, std::string> trusted_folders(const std::string& state_home);

// Remembers the folder, or forgets it. Whether that changed anything, or what failed (then nothing changed).
std::variant<bool, std::string> set_trust(const std::string& state_home, const std::string& real_folder, bool trusted);

}  // namespace errand
