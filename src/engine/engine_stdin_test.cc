// SPDX-License-Identifier: Apache-2.0
// What a task finds where others hang: it may ask for input, for a terminal, or hand its output to a helper.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace errand::testing;

class StdinTest : public ::testing::Test {
 protected:
  std::string run(const std::string& command) {
    const std::string id = launch(engine_, command);
    await_ended(engine_, id);
    return output_of(engine_, id);
  }
  TemporaryFolder folder_;
  Engine engine_{test_config(folder_)};
};

TEST_F(StdinTest, AQuestionIsAnsweredByTheEndOfTheInputAtOnce) {
  EXPECT_EQ(run("read -p 'Continue? [y/N] ' answer; echo \"$? <$answer>\""), "1 <>\n");
  EXPECT_EQ(run("cat; cat /dev/stdin; cat /proc/self/fd/0; echo end"), "end\n");
}

TEST_F(StdinTest, ThereIsNoTerminalToAskOn) {
  EXPECT_EQ(run("(: </dev/tty) 2>/dev/null || echo none; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no tty"),
            "none\nno tty\n");
}

// An interactive shell wants the terminal for its own group; without one it can stop nobody.
TEST_F(StdinTest, AnInteractiveShellGetsNoTerminalAndEnds) {
  const std::string text = run("sh -i -c 'echo in it' 2>/dev/null; echo $?");
  EXPECT_TRUE(text.ends_with("in it\n0\n")) << text;
}

TEST_F(StdinTest, AFifoThatNobodyWritesHoldsUpItsTaskOnly) {
  const std::string fifo = folder_ / "fifo";
  const std::string id = launch(engine_, "mkfifo " + fifo + "; echo ready; cat " + fifo + "; echo through");
  ASSERT_TRUE(await_output(engine_, id, "ready"));
  EXPECT_EQ(run("echo other"), "other\n");
  EXPECT_EQ(run("echo word >" + fifo), "");
  await_ended(engine_, id);
  EXPECT_EQ(output_of(engine_, id), "ready\nword\nthrough\n");
}

// `exec > >(tee file)`: the helper holds the pipe when the shell ends. It ends with its own input; nobody waits for it.
TEST_F(StdinTest, AHelperThatHoldsThePipeHoldsUpNoEnd) {
  const std::string copy = folder_ / "copy";
  const std::string id = launch(engine_, "exec > >(tee " + copy + "); echo hi");
  EXPECT_EQ(await_ended(engine_, id)->exit_code, 0);
  EXPECT_TRUE(eventually([&] { return engine_.inspect(id)->processes.empty(); }));
  EXPECT_EQ(output_of(engine_, id), "hi\n");
  const std::string held = launch(engine_, "exec > >(tee " + copy + " & sleep 1000); echo hi");
  const TaskSnapshot task = await_ended(engine_, held);
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_FALSE(task->processes.empty());
  EXPECT_EQ(engine_.stop(held).outcome, StopReport::Outcome::survivors_ended);
}

}  // namespace
}  // namespace errand
