// SPDX-License-Identifier: Apache-2.0
// Where the keeper is found, and that an upgrade under a running engine breaks nothing.
#include "engine/keeper_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace errand::testing;

TEST(KeeperPathTest, AsConfiguredElseBesideTheProgram) {
  EngineConfig config;
  config.keeper_path = "/no/such/keeper";
  EXPECT_EQ(find_keeper(config), "/no/such/keeper");
  EXPECT_EQ(find_keeper(EngineConfig{}), std::filesystem::canonical("/proc/self/exe").parent_path() / "errand-keeper");
}

// A keeper must start whatever becomes of the libraries on the disk.
TEST(KeeperPathTest, TheKeeperNeedsNoLibraries) {
  const std::string program = read_file(ERRAND_BUILD_DIR "/errand-keeper");
  ASSERT_GT(program.size(), 1000u);
  EXPECT_EQ(program.find("/ld-linux"), std::string::npos) << "it names a dynamic loader";
}

// An installer puts a new file in the old one's place: the running engine goes on with what it opened.
TEST(KeeperPathTest, AnUpgradeUnderARunningEngineBreaksNothing) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  const std::string original = config.keeper_path;
  config.keeper_path = folder / "errand-keeper";
  std::filesystem::copy_file(original, config.keeper_path);
  Engine engine(config);
  const std::string id = launch(engine, "ps -o ppid= -p $PPID; sleep 1000; true");
  ASSERT_TRUE(await_output(engine, id, "\n"));
  const pid_t zygote = std::atoi(output_of(engine, id).c_str());
  ASSERT_GT(zygote, 1);

  std::ofstream(folder / "new") << "#!/bin/sh\nexit 1\n";
  ASSERT_EQ(::chmod((folder / "new").c_str(), 0755), 0);
  std::filesystem::rename(folder / "new", config.keeper_path);
  EXPECT_EQ(await_ended(engine, launch(engine, "true"))->status, TaskStatus::completed);
  // So does the zygote's successor.
  ASSERT_EQ(::kill(zygote, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return !process_exists(zygote); }));
  for (int i = 0; i < 3; ++i) {
    const TaskSnapshot task = await_ended(engine, launch(engine, "true"));
    EXPECT_EQ(task->status, TaskStatus::completed) << ending_text(*task);
  }
  EXPECT_EQ(engine.get(id)->status, TaskStatus::running);
  // An engine that is made now finds the new file.
  config.output_folder = folder / "other";
  Engine later(config);
  EXPECT_EQ(await_ended(later, launch(later, "true"))->cause, EndCause::could_not_start);
}

}  // namespace
}  // namespace errand
