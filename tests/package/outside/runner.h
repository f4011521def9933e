// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// What the command printed, and how it ended.
std::string run(const std::string& command);
