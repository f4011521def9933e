// SPDX-License-Identifier: Apache-2.0
#include "errand/engine_config.h"

#include <gtest/gtest.h>

#include <functional>

namespace errand {
namespace {

TEST(BackgroundConfigTest, Defaults) {
  const EngineConfig config;
  EXPECT_EQ(config.max_concurrent_background, 5);
  EXPECT_EQ(config.max_output_chars, 64u * 1024);
  EXPECT_EQ(config.max_output_file_bytes, 64u << 20);
  EXPECT_EQ(config.stop_grace.count(), 2000);
  EXPECT_EQ(config.output_drain.count(), 100);
  EXPECT_EQ(config.max_survivor_tasks, 20);
  EXPECT_FALSE(validate(config));
}

TEST(BackgroundConfigTest, ValuesCanBeOverridden) {
  EngineConfig config;
  config.max_concurrent_background = 10'000;
  config.max_output_chars = 1024;
  config.max_session_output_bytes = 0;
  config.min_free_bytes = 0;
  config.max_survivor_tasks = 0;
  config.stop_grace = std::chrono::milliseconds(0);
  EXPECT_FALSE(validate(config));
}

TEST(BackgroundConfigTest, ValuesOutOfRangeAreNamed) {
  const struct {
    std::function<void(EngineConfig&)> change;
    const char* text;
  } cases[] = {
      {[](EngineConfig& c) { c.max_concurrent_background = 0; },
       "max_concurrent_background: 0 is out of range (1..10000)"},
      {[](EngineConfig& c) { c.max_concurrent_background = 10'001; },
       "max_concurrent_background: 10001 is out of range (1..10000)"},
      {[](EngineConfig& c) { c.max_concurrent_background = -5; },
       "max_concurrent_background: -5 is out of range (1..10000)"},
      {[](EngineConfig& c) { c.max_output_chars = 12; }, "max_output_chars: 12 is out of range (1024..16777216)"},
      {[](EngineConfig& c) { c.max_output_chars = 16'777'217; },
       "max_output_chars: 16777217 is out of range (1024..16777216)"},
      {[](EngineConfig& c) { c.max_output_file_bytes = 131'071; },
       "max_output_file_bytes: 131071 is out of range (131072..)"},
      {[](EngineConfig& c) { c.stop_grace = std::chrono::milliseconds(60'001); },
       "stop_grace_ms: 60001 is out of range (0..60000)"},
      {[](EngineConfig& c) { c.output_drain = std::chrono::milliseconds(-1); },
       "output_drain_ms: -1 is out of range (0..5000)"},
      {[](EngineConfig& c) { c.max_survivor_tasks = -1; }, "max_survivor_tasks: -1 is out of range (0..)"},
  };
  for (const auto& one : cases) {
    EngineConfig config;
    one.change(config);
    EXPECT_EQ(validate(config), one.text);
  }
}

}  // namespace
}  // namespace errand
