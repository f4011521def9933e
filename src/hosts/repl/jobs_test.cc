// SPDX-License-Identifier: Apache-2.0
// Commands beside the loop: what they say, who slows whom, how they end.
#include "repl/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>

#include "repl/bg_follow.h"

namespace errand::repl {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool wait_readable(const Jobs& jobs) {
  pollfd polled{jobs.descriptor(), POLLIN, 0};
  return ::poll(&polled, 1, 30'000) == 1;
}

TEST(JobsTest, WhatAJobSaysIsShownAndSlowsIt) {
  Jobs jobs;
  std::atomic<int> said = 0;
  jobs.start(
      [&](const std::stop_token&, const Jobs::Say& say) {
        for (int i = 1; i <= 3; ++i) {
          EXPECT_TRUE(say(std::to_string(i) + "\n"));
          said = i;
        }
        return std::string("end");
      },
      true);
  std::vector<std::string> shown;
  while (!jobs.empty()) {
    ASSERT_TRUE(wait_readable(jobs));
    EXPECT_LE(said, static_cast<int>(shown.size())) << "it went on though nobody took what it said";
    for (std::string& text : jobs.take()) shown.push_back(std::move(text));
  }
  EXPECT_THAT(shown, ElementsAre("1", "2", "3", "end"));
}

TEST(JobsTest, HeardKeepsWhatWasSaid) {
  Jobs jobs;
  jobs.start([](const std::stop_token&, const Jobs::Say&) { return std::string("text"); }, false);
  ASSERT_TRUE(wait_readable(jobs));
  jobs.heard();
  pollfd polled{jobs.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
  EXPECT_THAT(jobs.take(), ElementsAre("text"));
}

TEST(JobsTest, InterruptEndsTheInterruptibleOnce) {
  Jobs jobs;
  EXPECT_FALSE(jobs.interrupt());
  std::stop_source released;
  jobs.start(
      [token = released.get_token()](const std::stop_token& stop, const Jobs::Say&) {
        while (!token.stop_requested()) std::this_thread::sleep_for(1ms);
        return std::string(stop.stop_requested() ? "asked" : "by itself");
      },
      false);
  EXPECT_FALSE(jobs.interrupt());
  jobs.start(
      [](const std::stop_token&, const Jobs::Say& say) { return std::string(say("never taken") ? "" : "ended"); },
      true);
  EXPECT_TRUE(jobs.interrupt());
  EXPECT_FALSE(jobs.interrupt()) << "it was asked";
  released.request_stop();
  const std::vector<std::string> texts = jobs.join();
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], "by itself");
  EXPECT_TRUE(texts[1] == "never taken\nended" || texts[1] == "ended") << texts[1];
  EXPECT_TRUE(jobs.empty());
}

TEST(JobsTest, TheEndOfItsOwnerEndsAJobThatWaits) {
  Jobs jobs;
  jobs.start(
      [](const std::stop_token&, const Jobs::Say& say) {
        while (say("more")) {
        }
        return std::string();
      },
      true);
  ASSERT_TRUE(wait_readable(jobs));
}

TEST(ParseTimeTest, NumbersWithAUnit) {
  EXPECT_EQ(parse_time("500ms"), 500ms);
  EXPECT_EQ(parse_time("30s"), 30s);
  EXPECT_EQ(parse_time("2m"), 2min);
  EXPECT_EQ(parse_time("1h"), 1h);
  EXPECT_EQ(parse_time("0s"), 0s);
  for (const char* wrong : {"", "5", "s", "-1s", "1d", "1 s", "1.5s", "9223372036854775807h", "99999999999999999999s"})
    EXPECT_FALSE(parse_time(wrong)) << wrong;
}

}  // namespace
}  // namespace errand::repl
