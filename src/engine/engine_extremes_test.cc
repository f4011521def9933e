// SPDX-License-Identifier: Apache-2.0
// Times and folders that hosts give without a thought: the longest duration, none at all, a folder that is gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "engine/engine_testing.h"
#include "errand/engine.h"
#include "errand/wait.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;
using std::chrono::milliseconds;

std::chrono::microseconds cpu_of_this_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(ExtremesTest, TheLongestTimeoutDoesNotStrike) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  LaunchRequest request = request_of("sleep 0.3");
  for (const milliseconds timeout : {milliseconds::max(), milliseconds::max() / 2}) {
    request.timeout = timeout;
    EXPECT_EQ(ending_text(*await_ended(engine, launch(engine, request))), "completed (exit code 0)");
  }
}

TEST(ExtremesTest, ATimeoutBelowZeroIsNone) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  LaunchRequest request = request_of("sleep 1000");
  for (const milliseconds timeout : {milliseconds::min(), milliseconds(-50), milliseconds(0)}) {
    request.timeout = timeout;
    EXPECT_EQ(ending_text(*await_ended(engine, launch(engine, request))), "failed (timed out after 0 s)");
  }
}

TEST(ExtremesTest, AWaitForTheLongestSilenceSleeps) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  WaitRequest request;
  request.ids = {launch(engine, "sleep 1000")};
  request.until.kind = WaitUntil::Kind::quiet;
  request.until.quiet = milliseconds::max();
  request.timeout = 1s;
  const auto before = cpu_of_this_thread();
  EXPECT_EQ(engine.wait(request).end, WaitResult::End::timed_out);
  EXPECT_LT(cpu_of_this_thread() - before, 200ms);
}

// What was meant for one folder must not run in another one.
TEST(ExtremesTest, AHostWhoseFolderWasRemovedStartsNothingElsewhere) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const int before = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::string gone = folder / "gone";
  ASSERT_EQ(::mkdir(gone.c_str(), 0700), 0);
  ASSERT_EQ(::chdir(gone.c_str()), 0);
  ASSERT_EQ(::rmdir(gone.c_str()), 0);
  for (const char* cwd : {"", "tmp"}) {
    const std::string id = launch(engine, request_of("pwd", cwd));
    EXPECT_EQ(ending_text(*await_ended(engine, id)), "failed (could not start: getcwd: No such file or directory)");
    EXPECT_EQ(output_of(engine, id), "");
  }
  const std::string id = launch(engine, request_of("pwd", folder.path()));
  await_ended(engine, id);
  EXPECT_EQ(output_of(engine, id), folder.path() + "\n") << "a folder that is named needs no other";
  ASSERT_EQ(::fchdir(before), 0);
  ::close(before);
}

}  // namespace
}  // namespace errand
