// SPDX-License-Identifier: Apache-2.0
// Where the product keeps its things: $XDG_STATE_HOME/errand and $XDG_CONFIG_HOME/errand, and in the former one folder
// a project. Nothing here makes a folder but ensure_private_folder().
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace errand {

// $XDG_STATE_HOME/errand, else ~/.local/state/errand. A relative value of the variable is ignored, as the XDG
// specification wants. The home is $HOME, else the password file's.
std::string state_home();
// $XDG_CONFIG_HOME/errand, else ~/.config/errand.
std::string config_home();

// Symlinks, "." and ".." resolved; nothing, and the reason in `error`, when the path does not exist.
std::optional<std::string> real_path(const std::string& path, std::string& error);

// The name of a project's folder: leading slash dropped, '/' becomes '-', whitespace and odd characters become '_';
// over 200 bytes it is cut and ends in '-' and 8 hex digits of a hash of the whole. Takes a resolved absolute path.
std::string encode_folder(std::string_view absolute);

// state_home + "/projects/" + encode_folder(the folder, resolved; as given when it cannot be).
std::string project_folder_in(const std::string& state_home, const std::string& cwd);

// Makes the folder and its missing parents with mode 0700. An empty text, or what failed:
// `cannot make folder "/x/y": Permission denied`.
std::string ensure_private_folder(const std::string& path);

}  // namespace errand
