// SPDX-License-Identifier: Apache-2.0
#include "conversation/old_outputs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "conversation/session_lock.h"

namespace errand {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class OldOutputsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "errand-old.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    home_ = name;
  }
  void TearDown() override { fs::remove_all(home_); }

  fs::path file(const std::string& name, std::chrono::hours age) {
    const fs::path path = home_ / "projects" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
    return path;
  }
  std::size_t clean(std::chrono::seconds age = 7 * 24h) {
    return remove_old_outputs(home_.string(), age, std::stop_source().get_token());
  }

  fs::path home_;
};

TEST_F(OldOutputsTest, WhatIsOldGoesAndWhatIsYoungStays) {
  const fs::path old = file("p/s1/tasks/bg-1.output", 8 * 24h), young = file("p/s1/tasks/bg-2.output", 6 * 24h);
  const fs::path other = file("q/s2/tasks/fg-1.output", 300 * 24h), session = file("q/s2.jsonl", 300 * 24h);
  EXPECT_EQ(clean(), 2u);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_FALSE(fs::exists(other));
  EXPECT_FALSE(fs::exists(other.parent_path())) << "the empty folder";
  EXPECT_TRUE(fs::exists(session)) << "conversations stay";
  EXPECT_EQ(clean(), 0u);
}

TEST_F(OldOutputsTest, ALiveSessionsFilesStay) {
  const fs::path old = file("p/s1/tasks/bg-1.output", 100 * 24h);
  {
    SessionLock live;
    ASSERT_EQ(live.acquire((home_ / "projects/p/s1/lock").string()), "");
    EXPECT_EQ(clean(), 0u);
    EXPECT_TRUE(fs::exists(old));
  }
  EXPECT_EQ(clean(), 1u);
}

TEST_F(OldOutputsTest, NothingElseIsTouchedAndNoLinkFollowed) {
  const fs::path other = file("p/s1/tasks/notes.txt", 100 * 24h);
  const fs::path outside = file("../outside/tasks/bg-1.output", 100 * 24h);
  fs::create_directory_symlink(home_ / "outside", home_ / "projects/p/s2");
  fs::create_directories(home_ / "projects/p/s3");
  fs::create_directory_symlink(home_ / "outside/tasks", home_ / "projects/p/s3/tasks");
  fs::create_symlink(outside, home_ / "projects/p/s1/tasks/bg-9.output");
  EXPECT_EQ(clean(), 0u);
  EXPECT_TRUE(fs::exists(other));
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_TRUE(fs::is_symlink(home_ / "projects/p/s1/tasks/bg-9.output"));
}

TEST_F(OldOutputsTest, AStopEndsIt) {
  const fs::path old = file("p/s1/tasks/bg-1.output", 100 * 24h);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(remove_old_outputs(home_.string(), 1h, stop.get_token()), 0u);
  EXPECT_TRUE(fs::exists(old));
}

TEST_F(OldOutputsTest, AtASessionsEndAllOfItsOutputsGo) {
  const fs::path young = file("p/s1/tasks/bg-1.output", 0h), notes = file("p/s2/tasks/notes.txt", 0h);
  remove_outputs(young.parent_path().string());
  EXPECT_FALSE(fs::exists(young.parent_path()));
  remove_outputs(notes.parent_path().string());
  EXPECT_TRUE(fs::exists(notes));
  remove_outputs((home_ / "none").string());
  remove_outputs("");
}

TEST_F(OldOutputsTest, NoStateFolderIsNothingToDo) { EXPECT_EQ(clean(), 0u); }

}  // namespace
}  // namespace errand
