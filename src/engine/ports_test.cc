// SPDX-License-Identifier: Apache-2.0
#include "engine/ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "engine/engine_testing.h"
#include "engine/listener_testing.h"
#include "engine/process_list.h"

namespace errand {
namespace {

using testing::await_ended;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::listen_command;
using testing::output_of;
using testing::OwnListener;

class PortsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_python()) GTEST_SKIP() << "no python3";
  }

  // A task that prints its keeper and then what the command prints; the numbers, when there are `count`.
  std::vector<int> numbers_of(const std::string& command, std::size_t count) {
    id_ = testing::launch(engine_, "echo $PPID; " + command);
    std::vector<int> numbers;
    EXPECT_TRUE(eventually([&] {
      std::istringstream text(output_of(engine_, id_));
      numbers.clear();
      for (int number = 0; text >> number;) numbers.push_back(number);
      return numbers.size() >= count;
    })) << output_of(engine_, id_);
    numbers.resize(count);
    return numbers;
  }
  std::vector<std::uint16_t> inspected_ports() {
    std::vector<std::uint16_t> ports;
    const TaskSnapshot task = engine_.inspect(id_);
    for (const ProcessInfo& process : task->processes) {
      ports.insert(ports.end(), process.ports.begin(), process.ports.end());
    }
    return ports;
  }

  testing::TemporaryFolder folder_;
  Engine engine_{testing::test_config(folder_)};
  std::string id_;
};

std::uint16_t port_of(int number) { return static_cast<std::uint16_t>(number); }

// What a process of another user sees, who may read nobody's descriptors but its own.
PortState seen_by_nobody(pid_t keeper, std::uint16_t port) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(100);
    ::_exit(static_cast<int>(port_state(keeper, port)));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return static_cast<PortState>(WEXITSTATUS(status));
}

TEST_F(PortsTest, OwnListenersOfBothFamiliesAndNobodys) {
  const auto four = numbers_of("exec " + listen_command("127.0.0.1"), 2);
  EXPECT_EQ(port_state(four[0], port_of(four[1])), PortState::own);
  EXPECT_THAT(inspected_ports(), ElementsAre(port_of(four[1])));
  EXPECT_THAT(processes_text(engine_.inspect(id_)->processes), HasSubstr(" :" + std::to_string(four[1])));

  OwnListener closed;
  closed.close();
  EXPECT_EQ(port_state(four[0], closed.port()), PortState::closed);
}

TEST_F(PortsTest, Version6) {
  if (!testing::file_exists("/proc/net/if_inet6")) GTEST_SKIP() << "no IPv6 here";
  const auto six = numbers_of("exec " + listen_command("::"), 2);
  EXPECT_EQ(port_state(six[0], port_of(six[1])), PortState::own);
  EXPECT_THAT(inspected_ports(), ElementsAre(port_of(six[1])));
}

TEST_F(PortsTest, AChildDeepInTheTreeAndASurvivorCount) {
  const auto numbers = numbers_of("(setsid " + listen_command() + " & ); true", 2);
  const TaskSnapshot ended = await_ended(engine_, id_);
  ASSERT_FALSE(ended->processes.empty());
  EXPECT_EQ(port_state(numbers[0], port_of(numbers[1])), PortState::own);
  EXPECT_THAT(inspected_ports(), ElementsAre(port_of(numbers[1])));
  EXPECT_THAT(ending_text(*engine_.inspect(id_)), HasSubstr(" :" + std::to_string(numbers[1])));
}

TEST_F(PortsTest, AStrangersIsOne) {
  const OwnListener mine;  // this process is above the keeper, not below it
  const auto numbers = numbers_of("sleep 1000; true", 1);
  EXPECT_EQ(port_state(numbers[0], mine.port()), PortState::stranger);
  EXPECT_EQ(port_state(0, mine.port()), PortState::stranger) << "a task that has no keeper any more";
}

TEST_F(PortsTest, AnotherNamespaceHasPortsOfItsOwn) {
  if (!testing::can_unshare_network()) GTEST_SKIP() << "unshare -rn is not permitted here";
  OwnListener mine;
  // The same number, in a namespace where this process's listener does not stand.
  const auto numbers = numbers_of("exec unshare -rn " + listen_command("0.0.0.0", mine.port()), 2);
  ASSERT_EQ(numbers[1], mine.port());
  EXPECT_EQ(port_state(numbers[0], mine.port()), PortState::own);
  EXPECT_THAT(inspected_ports(), ElementsAre(mine.port()));

  const OwnListener other;
  EXPECT_EQ(port_state(numbers[0], other.port()), PortState::closed) << "nobody has it in there";
}

TEST_F(PortsTest, ProcessesOfOneTaskMayStandInSeveralNamespaces) {
  if (!testing::can_unshare_network()) GTEST_SKIP() << "unshare -rn is not permitted here";
  const auto numbers =
      numbers_of(listen_command("127.0.0.1") + " & unshare -rn " + listen_command("0.0.0.0", 4711) + " & wait", 3);
  const std::uint16_t outside = port_of(numbers[1] == 4711 ? numbers[2] : numbers[1]);
  EXPECT_EQ(port_state(numbers[0], 4711), PortState::own);
  EXPECT_EQ(port_state(numbers[0], outside), PortState::own);
  EXPECT_THAT(inspected_ports(), ::testing::UnorderedElementsAre(4711, outside));
}

TEST_F(PortsTest, AnOwnerThatCannotBeReadIsUnknown) {
  // A process that hides itself (PR_SET_DUMPABLE 0) can be read by root alone; one of root's by root alone, too.
  const auto numbers =
      numbers_of("exec " + listen_command("127.0.0.1", 0, "import ctypes\nctypes.CDLL(None).prctl(4,0)"), 2);
  EXPECT_EQ(seen_by_nobody(numbers[0], port_of(numbers[1])), PortState::unknown);
  EXPECT_EQ(seen_by_nobody(0, port_of(numbers[1])), PortState::unknown);
  EXPECT_EQ(port_state(numbers[0], port_of(numbers[1])), ::geteuid() == 0 ? PortState::own : PortState::unknown);
}

TEST_F(PortsTest, AProcessThatCannotBeReadIsNamedWithoutPorts) {
  const auto numbers =
      numbers_of("exec " + listen_command("127.0.0.1", 0, "import ctypes\nctypes.CDLL(None).prctl(4,0)"), 2);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(100);
    const auto processes = living_descendants(numbers[0]);
    ::_exit(processes.size() == 1 && processes[0].ports.empty() &&
                    processes[0].command.find("python3") != std::string::npos
                ? 0
                : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Its other threads run on, and /proc shows nothing of it but them.
TEST_F(PortsTest, AProcessWhoseFirstThreadHasGoneIsAliveAndListens) {
  const auto numbers = numbers_of(
      "exec python3 -c 'import socket,time,threading,ctypes,platform\n"
      "s=socket.socket()\ns.bind((\"127.0.0.1\",0))\ns.listen()\n"
      "threading.Thread(target=time.sleep,args=(1000,)).start()\nprint(s.getsockname()[1],flush=True)\n"
      "ctypes.CDLL(None).syscall(93 if platform.machine()==\"aarch64\" else 60,0)'",
      2);
  std::vector<ProcessInfo> processes;
  ASSERT_TRUE(eventually([&] {
    processes = living_descendants(numbers[0]);
    return processes.size() == 1 &&
           testing::read_file("/proc/" + std::to_string(processes[0].pid) + "/cmdline").empty();
  }));
  EXPECT_THAT(processes[0].command, HasSubstr("python3 -c import"));
  EXPECT_THAT(processes[0].ports, ElementsAre(port_of(numbers[1])));
  EXPECT_EQ(port_state(numbers[0], port_of(numbers[1])), PortState::own);
}

TEST(PortLineTest, OnlyWhatListens) {
  const auto line = [](std::string_view text) { return parse_listen_line(text); };
  const auto four =
      line("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0");
  ASSERT_TRUE(four);
  EXPECT_EQ(four->port, 8080);
  EXPECT_EQ(four->inode, 12345u);
  const auto six = line(
      "  11: 00000000000000000000000000000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 "
      "00:00000000 00000000     0        0 4026531840 1 0");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->port, 3000);
  EXPECT_EQ(six->inode, 4026531840u);
  EXPECT_FALSE(
      line("   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 99 1 0"));
  EXPECT_FALSE(
      line("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"));
  EXPECT_FALSE(line("   0: 0100007F 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345"));
  EXPECT_FALSE(line("   0: 0100007F:1F90 00000000:0000 0A"));
  EXPECT_FALSE(line(""));
}

}  // namespace
}  // namespace errand
