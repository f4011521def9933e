// SPDX-License-Identifier: Apache-2.0
#include "engine/proc_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace errand::proc {
namespace {

const std::string kRest =
    " S 4710 4711 4711 0 -1 4194560 100 0 0 0 7 5 30 20 20 0 3 0 1234 1000000 25 18446744073709551615 1 1 0\n";

TEST(ProcFilesTest, AStatIsReadBehindTheLastParenthesisOfAName) {
  for (const std::string name : {"bash", "a b", "x) R 1 (y", ")", ""}) {
    const auto stat = parse_stat("4711 (" + name + ")" + kRest);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->name, name);
    EXPECT_EQ(stat->state, 'S');
    EXPECT_EQ(stat->parent, 4710);
    EXPECT_EQ(stat->own_ticks, 12u);
    EXPECT_EQ(stat->reaped_ticks, 50u);
    EXPECT_EQ(stat->threads, 3);
    EXPECT_EQ(stat->start_ticks, 1234u);
    EXPECT_EQ(stat->rss_bytes, 25u * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  }
}

TEST(ProcFilesTest, WhatIsNoStatIsNone) {
  const std::string whole = "4711 (bash)" + kRest;
  for (std::size_t size = 0; size < whole.find(" 25 ") + 1; ++size)
    EXPECT_FALSE(parse_stat(whole.substr(0, size))) << size;
  EXPECT_FALSE(parse_stat(") ("));
  EXPECT_FALSE(parse_stat("4711 (bash) S x 4711 4711 0 -1 4194560 100 0 0 0 7 5 30 20 20 0 3 0 1234 1000000 25\n"));
}

TEST(ProcFilesTest, ThisProcess) {
  const auto stat = read_stat(::getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, ::getppid());
  EXPECT_FALSE(stat->dead());
  EXPECT_GT(stat->rss_bytes, 0u);
  EXPECT_TRUE(network_namespace("/proc/self"));
  EXPECT_TRUE(socket_inodes("/proc/self"));
}

TEST(ProcFilesTest, WhatIsGoneHasNoSocketsAndIsNoSecret) {
  const auto inodes = socket_inodes("/proc/999999999");
  ASSERT_TRUE(inodes);
  EXPECT_TRUE(inodes->empty());
}

TEST(ProcFilesTest, AZombieIsDeadUnlessThreadsOfItLive) {
  Stat stat;
  stat.state = 'Z';
  stat.threads = 1;
  EXPECT_TRUE(stat.dead());
  stat.threads = 2;
  EXPECT_FALSE(stat.dead());
}

}  // namespace
}  // namespace errand::proc
