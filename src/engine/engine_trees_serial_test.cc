// SPDX-License-Identifier: Apache-2.0
// Trees that are hard to end, ended by each of the three roads: a stop, the engine's close, the host's death; as the
// user who runs the tests, and by root also as somebody else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <tuple>

#include "base/fd.h"
#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

enum class Road { stop, close, death };
enum class As { caller, somebody };

struct Tree {
  const char* name;
  std::string arguments;
  std::size_t processes;  // at least, when it stands; the task's shell becomes the first
};

const Tree kTrees[] = {{"Bomb", "bomb 500", 450},
                       {"Chain", "chain 30", 30},
                       {"Comets", "comets", 3},
                       {"Daemons", "daemons 20", 20},
                       {"Vfork", "vfork", 2}};

using Parameter = std::tuple<std::size_t, Road, As>;

class TreesSerialTest : public ::testing::TestWithParam<Parameter> {
 protected:
  TreesSerialTest() {
    config_ = test_config(folder_);
    config_.output_folder.clear();  // somebody else could not write there
    config_.environment = {{"ERRAND_TEST_MARK", folder_.path()}};
  }
  std::vector<pid_t> living() const { return processes_with("ERRAND_TEST_MARK=" + folder_.path()); }

  TemporaryFolder folder_;
  EngineConfig config_;
};

std::string name_of(const ::testing::TestParamInfo<Parameter>& which) {
  const char* const roads[] = {"Stop", "Close", "Death"};
  const auto& [index, road, as] = which.param;
  return std::string(kTrees[index].name) + "By" + roads[static_cast<int>(road)] +
         (as == As::caller ? "" : "AsSomebody");
}

INSTANTIATE_TEST_SUITE_P(All, TreesSerialTest,
                         ::testing::Combine(::testing::Range<std::size_t>(0, std::size(kTrees)),
                                            ::testing::Values(Road::stop, Road::close, Road::death),
                                            ::testing::Values(As::caller, As::somebody)),
                         name_of);

TEST_P(TreesSerialTest, NothingIsLeft) {
  const auto& [index, road, as] = GetParam();
  const Tree& tree = kTrees[index];
  if (as == As::somebody && ::getuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  int to_host[2];
  int from_host[2];
  ASSERT_EQ(::pipe2(to_host, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(from_host, O_CLOEXEC), 0);
  const pid_t host = ::fork();
  if (host == 0) {
    const uid_t uid = 400000 + static_cast<uid_t>(::getpid() % 100000);
    if (as == As::somebody && (::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(1);
    char byte = 'r';
    Engine engine(config_);
    LaunchRequest request = request_of("exec " ERRAND_BUILD_DIR "/errand_test_trees " + tree.arguments, "/");
    const std::string id = std::get<Launched>(engine.launch(std::move(request))).id;
    if (!await_output(engine, id, "ready")) byte = 'n';
    if (::write(from_host[1], &byte, 1) != 1 || ::read(to_host[0], &byte, 1) != 1) ::_exit(1);
    bool whole = true;
    if (road == Road::stop) {
      const StopReport report = engine.stop(id);
      whole = report.left.empty() && static_cast<std::size_t>(report.ended) >= std::min<std::size_t>(tree.processes, 2);
    } else if (road == Road::close) {
      whole = engine.close().left.empty();
    }
    byte = whole ? 'y' : 'n';
    if (road != Road::death && ::write(from_host[1], &byte, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ProcessGuard guard(host);
  const UniqueFd ends[] = {UniqueFd(to_host[0]), UniqueFd(to_host[1]), UniqueFd(from_host[0])};
  ::close(from_host[1]);
  char byte = 0;
  ASSERT_EQ(::read(from_host[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'r');
  ASSERT_TRUE(eventually([&] { return living().size() >= tree.processes; })) << living().size();
  if (road == Road::death) {
    guard.kill();
    EXPECT_TRUE(eventually([this] { return living().empty(); })) << living().size();
    EXPECT_TRUE(eventually([&] { return zygotes_of(host).empty(); }));
    return;
  }
  ASSERT_EQ(::write(to_host[1], "g", 1), 1);
  ASSERT_EQ(::read(from_host[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_TRUE(living().empty()) << living().size() << " when it had returned";
}

}  // namespace
}  // namespace errand
