// SPDX-License-Identifier: Apache-2.0
#include "agent/system_prompt.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/utf8.h"

namespace errand {
namespace {

namespace fs = std::filesystem;

class SystemPromptTest : public testing::Test {
 protected:
  SystemPromptTest() {
    std::string name = (fs::temp_directory_path() / "errand-prompt-XXXXXX").string();
    root = ::mkdtemp(name.data());
    fs::create_directories(root + "/outer/repo/a/b");
  }
  ~SystemPromptTest() override { fs::remove_all(root); }
  void write(const std::string& path, const std::string& text) { std::ofstream(root + path, std::ios::binary) << text; }

  std::string root;
};

TEST_F(SystemPromptTest, instructions_come_from_the_repositorys_root_down_to_the_folder) {
  fs::create_directory(root + "/outer/repo/.git");
  write("/outer/AGENTS.md", "outside");
  write("/outer/repo/AGENTS.md", "root");
  write("/outer/repo/a/b/AGENTS.md", "nearest");
  const auto files = project_instructions(root + "/outer/repo/a/b");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].text, "root");
  EXPECT_EQ(files[1].text, "nearest");
  const std::string prompt = system_prompt(root + "/outer/repo/a/b", "2026-01-01", files);
  EXPECT_LT(prompt.find("root\n"), prompt.find("nearest\n"));
  EXPECT_EQ(prompt.find("outside"), std::string::npos);
}

TEST_F(SystemPromptTest, without_a_repository_only_the_folders_own_counts) {
  write("/outer/AGENTS.md", "outside");
  write("/outer/repo/AGENTS.md", "own");
  const auto files = project_instructions(root + "/outer/repo");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].text, "own");
}

TEST_F(SystemPromptTest, a_huge_or_broken_file_is_cut_and_cleaned_and_a_folder_is_no_file) {
  write("/outer/repo/AGENTS.md", "\xff" + std::string(100000, 'x'));
  auto files = project_instructions(root + "/outer/repo");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(is_valid_utf8(files[0].text));
  EXPECT_LT(files[0].text.size(), 66000u);
  EXPECT_NE(files[0].text.find("(the rest of this file was cut)"), std::string::npos);
  fs::create_directory(root + "/outer/repo/a/AGENTS.md");
  EXPECT_TRUE(project_instructions(root + "/outer/repo/a").empty());
}

TEST_F(SystemPromptTest, it_says_what_a_notification_is_not) {
  const std::string prompt = system_prompt("/p", "2026-01-01", {});
  EXPECT_NE(prompt.find("/p"), std::string::npos);
  EXPECT_NE(prompt.find("never answers a question"), std::string::npos);
  EXPECT_NE(prompt.find("never consent"), std::string::npos);
}

}  // namespace
}  // namespace errand
