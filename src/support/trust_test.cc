// SPDX-License-Identifier: Apache-2.0
#include "support/trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace errand {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class TrustTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "errand-trust-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    state_ = folder_ + "/state/errand";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> trusted() const {
    const auto found = trusted_folders(state_);
    const auto* folders = std::get_if<std::vector<std::string>>(&found);
    return folders ? *folders : std::vector<std::string>{"error: " + std::get<std::string>(found)};
  }
  bool set(const std::string& folder, bool wanted) const {
    const auto done = set_trust(state_, folder, wanted);
    const bool* changed = std::get_if<bool>(&done);
    if (changed == nullptr) ADD_FAILURE() << std::get<std::string>(done);
    return changed != nullptr && *changed;
  }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(trust_file(state_)).rdbuf();
    return text.str();
  }

  std::string folder_, state_;
};

TEST_F(TrustTest, IsRememberedOnceAndTakenBack) {
  EXPECT_THAT(trusted(), IsEmpty());
  EXPECT_TRUE(set("/a b", true));
  EXPECT_FALSE(set("/a b", true));
  EXPECT_TRUE(set("/c\xff", true)) << "a path is bytes";
  EXPECT_THAT(trusted(), ElementsAre("/a b", "/c\xff"));
  EXPECT_FALSE(set("/a", false));
  EXPECT_TRUE(set("/a b", false));
  EXPECT_THAT(trusted(), ElementsAre("/c\xff"));
}

TEST_F(TrustTest, TheFileIsPrivateAndReplacedAsAWhole) {
  ::mode_t old = ::umask(0);
  set("/a", true);
  ::umask(old);
  struct stat info{};
  ASSERT_EQ(::stat(trust_file(state_).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(state_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  std::ifstream reader(trust_file(state_));
  set("/b", true);
  std::ostringstream seen;
  seen << reader.rdbuf();
  EXPECT_EQ(seen.str(), "/a\n") << "who reads has the old one";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(state_), {}), 1) << "nothing is left beside it";
}

TEST_F(TrustTest, WhatIsWrittenByHandStaysAndTrustsNothing) {
  set("/a", true);
  std::ofstream(trust_file(state_)) << "# mine\nrelative\n\n/a\n/b";
  EXPECT_THAT(trusted(), ElementsAre("/a", "/b"));
  EXPECT_TRUE(set("/a", false));
  EXPECT_EQ(content(), "# mine\nrelative\n\n/b\n");
}

TEST_F(TrustTest, AFolderNamedLikeTwoLinesIsNotTwoFolders) {
  const auto done = set_trust(state_, "/x\n/home/somebody", true);
  ASSERT_TRUE(std::holds_alternative<std::string>(done));
  EXPECT_THAT(std::get<std::string>(done), HasSubstr("line break"));
  EXPECT_THAT(trusted(), IsEmpty());
}

TEST_F(TrustTest, WhatFailsSaysWhyAndChangesNothing) {
  std::ofstream(folder_ + "/state") << "a file\n";
  const auto done = set_trust(state_, "/a", true);
  ASSERT_TRUE(std::holds_alternative<std::string>(done));
  EXPECT_EQ(std::get<std::string>(done), "cannot make folder \"" + state_ + "\": Not a directory");
  std::filesystem::remove(folder_ + "/state");
  std::filesystem::create_directories(trust_file(state_) + "/x");
  EXPECT_THAT(trusted(), ElementsAre("error: cannot read \"" + trust_file(state_) + "\": Is a directory"));
  EXPECT_TRUE(std::holds_alternative<std::string>(set_trust(state_, "/a", true)));
}

TEST_F(TrustTest, ChangesAtTheSameTimeAreAllKept) {
  set("/first", true);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([this, i] {
        for (int k = 0; k < 10; ++k) set("/" + std::to_string(i) + "/" + std::to_string(k), true);
      });
    }
  }
  EXPECT_THAT(trusted(), SizeIs(41));
}

}  // namespace
}  // namespace errand
