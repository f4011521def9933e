// SPDX-License-Identifier: Apache-2.0
// The engine's own words about tasks that are not in the public header.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace errand {

// "5 s", "0.25 s", "90 s"
std::string seconds_text(std::chrono::milliseconds duration);
// "timed out after 5 s"
std::string timed_out_text(std::chrono::milliseconds timeout);
// "could not start: chdir \"/x\": No such file or directory"; without an object: "could not start: pipe: Too many ..."
std::string could_not_start_text(std::string_view step, std::string_view object, int error);
// The errno's text, from any thread.
std::string errno_text(int error);

}  // namespace errand
