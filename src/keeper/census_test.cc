// SPDX-License-Identifier: Apache-2.0
// Many who ask for all processes at once have them read once.
#include "keeper/census.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "keeper/keeper_testing.h"

namespace errand::keeper {
namespace {

// A scan a keeper is quadratic: 300 tasks that ended together took nine seconds.
TEST(CensusTest, OneLookAtAllProcessesServesAllWhoAskedBeforeIt) {
  constexpr int kAskers = 20;
  Census census;
  ASSERT_TRUE(census.share());
  // The lock is held here until all are waiting for it.
  int file = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).string().find("errand-census") != std::string::npos) {
      file = std::atoi(entry.path().filename().c_str());
    }
  }
  ASSERT_GE(file, 0);
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(file, F_SETLK, &range), 0);

  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::vector<pid_t> askers;
  for (int i = 0; i < kAskers; ++i) {
    askers.push_back(::fork());
    if (askers.back() != 0) continue;
    if (::write(ends[1], "a", 1) != 1) ::_exit(1);
    Array<Seen> seen;
    const bool taken = census.take(seen);
    const bool found = std::any_of(seen.begin(), seen.end(), [](const Seen& one) { return one.pid == ::getpid(); });
    ::_exit(taken && found ? 0 : 1);
  }
  char bytes[kAskers];
  for (int got = 0; got < kAskers;) {
    const ssize_t more = ::read(ends[0], bytes, static_cast<std::size_t>(kAskers - got));
    ASSERT_GT(more, 0);
    got += static_cast<int>(more);
  }
  EXPECT_TRUE(eventually([&] {
    return std::all_of(askers.begin(), askers.end(), [](pid_t pid) {
      const auto look = look_at(pid);
      return look && look->state == 'S';
    });
  }));
  range.l_type = F_UNLCK;
  ASSERT_EQ(::fcntl(file, F_SETLK, &range), 0);
  for (const pid_t asker : askers) {
    int status = -1;
    EXPECT_EQ(::waitpid(asker, &status, 0), asker);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(census.readings(), 1U);
  Array<Seen> seen;
  EXPECT_TRUE(census.take(seen));
  EXPECT_EQ(census.readings(), 2U) << "what was seen before the question is no answer";
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace errand::keeper
