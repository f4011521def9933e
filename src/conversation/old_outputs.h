// SPDX-License-Identifier: Apache-2.0
// Cleans up the output files that earlier sessions left: `<state home>/projects/<project>/<session>/tasks/*.output`.
//
// A session that lives is known by its lock, which is taken while its files are removed, so it can neither begin nor go
// on meanwhile. Nothing but regular files of that name is touched, no link is followed, the conversations stay.
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>

namespace errand {

// Removes the files that were written last longer than `age` ago, at most kMostRemovedOutputs of them: the rest is for
// the next time. How many. What cannot be read or removed is passed over.
inline constexpr std::size_t kMostRemovedOutputs = 10'000;
std::size_t remove_old_outputs(const std::string& state_home, std::chrono::seconds age, const std::stop_token& stop);

// All output files in the folder, and the folder if it is empty then: at the end of the session that owns it.
void remove_outputs(const std::string& folder);

}  // namespace errand
