// SPDX-License-Identifier: Apache-2.0
// Patterns that cost microseconds a byte: they hold up nobody but who asked.
#include "engine/paced_pattern.h"

#include <gtest/gtest.h>

#include <chrono>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;
using Found = PacedPattern::Found;

// RE2 has too many states to keep for this one, and goes through all of them byte by byte.
constexpr const char* kSlow = "(a|b)*a(a|b){900}c";
std::string evil_line() {
  std::string line;
  unsigned state = 1;
  for (int i = 0; i < 1900; ++i) line += ((state = state * 1103515245 + 12345) >> 16) % 2 != 0 ? 'a' : 'b';
  return line;
}

std::shared_ptr<const LinePattern> compile(const char* pattern) {
  return std::make_shared<const LinePattern>(std::get<LinePattern>(LinePattern::compile(pattern)));
}

TEST(PacedPatternTest, ASlowPatternsLinesArePutAsideAndTheOldestPassedOver) {
  PacedPattern paced(compile(kSlow));
  const std::string line = evil_line();
  int looked = 0;
  while (paced.look(line) == Found::no && looked < 1000) ++looked;
  EXPECT_LT(looked, 1000) << "it was not found out";
  EXPECT_EQ(paced.look("a" + std::string(900, 'b') + "c"), Found::later);
  std::optional<std::string> match;
  while (!match && paced.look_aside(match)) {
  }
  EXPECT_TRUE(match);
  EXPECT_FALSE(paced.any_aside());
  EXPECT_EQ(paced.take_passed_over(), 0u);
  const std::size_t fit = PacedPattern::kMostAside / line.size();
  for (std::size_t i = 0; i < fit + 10; ++i) paced.look(line);
  EXPECT_EQ(paced.take_passed_over(), 10u);
}

TEST(PacedPatternTest, AQuickPatternIsNeverPutAside) {
  const std::string line = evil_line();
  for (const char* pattern : {"error|warning", "[ab]{100}d", "\\pL+ \\pN"}) {
    PacedPattern paced(compile(pattern));
    for (int i = 0; i < 3000; ++i) ASSERT_EQ(paced.look(line), Found::no) << pattern;
  }
}

// Another task's end came seconds late.
TEST(PacedPatternTest, AnEvilPatternOnAFloodHoldsUpNobodyElse) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string flood = launch(engine, "while :; do printf '%s\\n' " + evil_line() + "; done");
  ASSERT_TRUE(await_output(engine, flood, "\n"));
  std::vector<std::variant<Watch, Rejected>> watches;
  for (int i = 0; i < 5; ++i) {
    watches.push_back(engine.watch(flood, kSlow, [](const WatchBatch&) {}));
    ASSERT_TRUE(std::holds_alternative<Watch>(watches.back()));
  }
  // The first lines are paid for, once; from then on ends are as quick as ever, though a load of lines costs seconds.
  std::chrono::steady_clock::duration best = 1h;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    await_ended(engine, launch(engine, "true"));
    best = std::min(best, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(best, 1s);
  EXPECT_EQ(engine.stop(flood).outcome, StopReport::Outcome::stopped);
}

TEST(PacedPatternTest, AWaitForASlowPatternFindsItAfterMuchElse) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string needle = "a" + std::string(900, 'b') + "c";
  WaitRequest request;
  request.ids = {launch(engine, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do printf '%s\\n' " + evil_line() +
                                    "; done; echo " + needle + "; sleep 1000")};
  request.until.kind = WaitUntil::Kind::pattern;
  request.until.pattern = kSlow;
  request.timeout = kDeadline;
  const WaitResult result = engine.wait(request);
  ASSERT_EQ(result.end, WaitResult::End::happened);
  EXPECT_EQ(result.answers[0].line, needle);
}

}  // namespace
}  // namespace errand
