// SPDX-License-Identifier: Apache-2.0
// Folders that only their owner may look into.
#pragma once

#include <string>

namespace errand {

// Makes the folder and its parents; the folder itself is private (0700) afterwards. -errno, or 0.
int make_private_folder(const std::string& path);

}  // namespace errand
