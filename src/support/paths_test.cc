// SPDX-License-Identifier: Apache-2.0
#include "support/paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/iso8601.h"
#include "support/uuid.h"

namespace errand {
namespace {

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/errand-paths-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = std::filesystem::canonical(name).string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

mode_t mode_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(EncodeFolder, SlashesSpacesAndOddCharacters) {
  EXPECT_EQ(encode_folder("/home/u/p"), "home-u-p");
  EXPECT_EQ(encode_folder("/home/u/my project\t(1)"), "home-u-my_project__1_");
  EXPECT_EQ(encode_folder("/home/u/a'b\"c$d;e\n"), "home-u-a_b_c_d_e_");
  EXPECT_EQ(encode_folder("/srv/v1.2_x-y"), "srv-v1.2_x-y");
  EXPECT_EQ(encode_folder("/home/ü/项目"), "home-ü-项目");
  EXPECT_EQ(encode_folder("/a\xC2\xA0"
                          "b\xE3\x80\x80"
                          "c\xE2\x80\xAE"
                          "d"),
            "a_b_c_d");
  EXPECT_EQ(encode_folder("/bad\xff"), "bad_");
  EXPECT_EQ(encode_folder("/"), "_");
}

TEST(EncodeFolder, LongNamesAreCutAndHashed) {
  EXPECT_EQ(encode_folder("/" + std::string(200, 'a')), std::string(200, 'a'));
  const std::string one = encode_folder("/" + std::string(300, 'a') + "1");
  const std::string two = encode_folder("/" + std::string(300, 'a') + "2");
  EXPECT_EQ(one.size(), 200u);
  EXPECT_EQ(one.substr(0, 192), std::string(191, 'a') + "-");
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef", 192), std::string::npos);
  EXPECT_NE(one, two);
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "项";
  EXPECT_LE(encode_folder("/" + wide).size(), 200u);  // no code point is cut: still valid UTF-8
  EXPECT_EQ(encode_folder("/" + wide).substr(0, 189), wide.substr(0, 189));
}

TEST_F(PathsTest, SymlinksAreResolvedInTheProjectFolder) {
  std::filesystem::create_directory(folder_ + "/real");
  std::filesystem::create_symlink(folder_ + "/real", folder_ + "/link");
  EXPECT_EQ(project_folder_in("/state", folder_ + "/link"), "/state/projects/" + encode_folder(folder_ + "/real"));
  EXPECT_EQ(project_folder_in("/state", folder_ + "/none"), "/state/projects/" + encode_folder(folder_ + "/none"));
  std::string error;
  EXPECT_FALSE(real_path(folder_ + "/none", error));
  EXPECT_EQ(error, "cannot resolve \"" + folder_ + "/none\": No such file or directory");
}

TEST_F(PathsTest, PrivateFoldersAreMadeWithTheirParents) {
  EXPECT_EQ(ensure_private_folder(folder_ + "/a/b/c"), "");
  for (const char* part : {"/a", "/a/b", "/a/b/c"}) EXPECT_EQ(mode_of(folder_ + part), 0700u) << part;
  EXPECT_EQ(ensure_private_folder(folder_ + "/a/b/c"), "");
  EXPECT_EQ(ensure_private_folder(folder_ + "/a/d/"), "");
  EXPECT_EQ(mode_of(folder_ + "/a/d"), 0700u);
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_EQ(ensure_private_folder(folder_ + "/file"), "cannot make folder \"" + folder_ + "/file\": Not a directory");
  EXPECT_EQ(ensure_private_folder(folder_ + "/file/x"),
            "cannot make folder \"" + folder_ + "/file/x\": Not a directory");
}

TEST(Homes, FollowXdgAndIgnoreRelativeValues) {
  const std::string old_home = getenv("HOME") ? getenv("HOME") : "";
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_STATE_HOME", "/var/s/", 1);
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(state_home(), "/var/s/errand");
  EXPECT_EQ(config_home(), "/home/someone/.config/errand");
  unsetenv("XDG_STATE_HOME");
  unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(state_home(), "/home/someone/.local/state/errand");
  unsetenv("HOME");
  EXPECT_TRUE(state_home().starts_with('/'));
  if (!old_home.empty()) setenv("HOME", old_home.c_str(), 1);
}

TEST(Uuid, Version4AndDistinct) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = new_uuid();
    ASSERT_EQ(uuid.size(), 36u);
    for (const std::size_t at : {8u, 13u, 18u, 23u}) EXPECT_EQ(uuid[at], '-') << uuid;
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
    EXPECT_TRUE(seen.insert(uuid).second);
  }
  EXPECT_EQ(random_hex(4).size(), 8u);
}

TEST(Iso8601, RoundTrip) {
  EXPECT_EQ(to_iso8601(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(to_iso8601(1769860800123), "2026-01-31T12:00:00.123Z");
  EXPECT_EQ(to_iso8601(-1), "1969-12-31T23:59:59.999Z");
  for (const std::int64_t ms : {0LL, 1769860800123LL, 951782399999LL, -62135596800000LL})
    EXPECT_EQ(from_iso8601(to_iso8601(ms)), ms);
  EXPECT_EQ(from_iso8601("2026-01-31T12:00:00Z"), 1769860800000);
  EXPECT_EQ(from_iso8601("2026-01-31T12:00:00.5Z"), 1769860800500);
  EXPECT_EQ(from_iso8601("2026-01-31T12:00:00.123456789Z"), 1769860800123);
  for (const char* bad :
       {"", "2026-01-31", "2026-02-30T12:00:00.000Z", "2026-01-31T24:00:00.000Z", "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.000", "2026-01-31 12:00:00.000Z", "+026-01-31T12:00:00.000Z"}) {
    EXPECT_EQ(from_iso8601(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace errand
