// SPDX-License-Identifier: Apache-2.0
// Starting, ending and stopping, each with real processes and for both ways to find a tree.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <thread>

#include "keeper/keeper_testing.h"

namespace errand::keeper {
namespace {

// Everything that is known for outliving its parent.
const char* const kStubborn =
    "setsid sleep 1000 & nohup sleep 1000 & (trap '' TERM HUP; sleep 1000) & "
    "(setsid bash -c 'setsid sleep 1000 & exit' &); sleep 1000";
constexpr std::size_t kStubbornSleeps = 5;

class KeeperTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ASSERT_TRUE(zygote_.start(GetParam())); }
  void TearDown() override {
    EXPECT_TRUE(marker_.alive().empty());
    marker_.kill_all();
  }

  Task launch(const std::string& line, std::uint32_t grace_ms = 2000) {
    Command command = Command::shell(line, marker_);
    command.grace_ms = grace_ms;
    return launch(command);
  }
  Task launch(const Command& command) {
    auto task = zygote_.launch(command);
    EXPECT_TRUE(task.has_value());
    if (!task) return {};
    const auto event = task->next();
    EXPECT_TRUE(event && event->kind == KeeperEventKind::started && event->pid > 0);
    shell_ = event ? event->pid : 0;
    return std::move(*task);
  }
  bool await_processes(const std::string& name, std::size_t count) {
    return eventually([&] { return marker_.alive(name).size() == count; });
  }

  ZygoteClient zygote_;
  Marker marker_;
  pid_t shell_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Finding, KeeperTest, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "ByScan" : "ByChildrenFiles"; });

TEST_P(KeeperTest, EveryExitCodeIsReportedAsItIs) {
  for (int code = 0; code < 256; ++code) {
    Task task = launch("exit " + std::to_string(code));
    const auto event = task.next();
    ASSERT_TRUE(event) << code;
    EXPECT_EQ(event->kind, KeeperEventKind::exited);
    EXPECT_EQ(event->pid, shell_);
    EXPECT_TRUE(WIFEXITED(event->status));
    EXPECT_EQ(WEXITSTATUS(event->status), code);
    EXPECT_EQ(event->live, 0U);
    const auto last = task.next();
    ASSERT_TRUE(last) << code;
    EXPECT_EQ(last->kind, KeeperEventKind::empty);
    EXPECT_TRUE(task.at_end());
  }
}

TEST_P(KeeperTest, DeathByASignalIsReportedAsItIs) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV,
                           SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSYS, SIGXCPU, SIGRTMIN}) {
    Command command = Command::shell("ulimit -c 0; kill -" + std::to_string(signal) + " $$", marker_);
    command.path = "/bin/sh";  // bash has handlers of its own
    Task task = launch(command);
    const auto event = task.await(KeeperEventKind::exited);
    ASSERT_TRUE(event) << signal;
    EXPECT_TRUE(WIFSIGNALED(event->status)) << signal;
    EXPECT_EQ(WTERMSIG(event->status), signal);
  }
}

TEST_P(KeeperTest, TheShellHasAWorldOfItsOwn) {
  Command command = Command::shell(
      "pwd; echo \"$ERRAND_WORD\"; ulimit -Sn; ls /proc/self/fd | tr '\\n' ' '; echo; readlink /proc/self/fd/0; "
      "cat /proc/self/status | grep -E '^(SigBlk|SigIgn|SigCgt)'; cut -d' ' -f6,7 /proc/$$/stat; echo $$; echo "
      "to-stderr "
      ">&2",
      marker_);
  command.cwd = "/usr";
  command.environment.push_back("ERRAND_WORD=a word");
  command.nofile_soft = 77;
  Task task = launch(command);
  std::istringstream lines(task.read_output());
  const auto line = [&lines] {
    std::string text;
    std::getline(lines, text);
    return text;
  };
  EXPECT_EQ(line(), "/usr");
  EXPECT_EQ(line(), "a word");
  EXPECT_EQ(line(), "77");
  EXPECT_EQ(line(), "0 1 2 3 ");  // 3 is ls reading the folder
  EXPECT_EQ(line(), "/dev/null");
  EXPECT_EQ(line(), "SigBlk:\t0000000000000000");
  EXPECT_EQ(line(), "SigIgn:\t0000000000000000");
  EXPECT_EQ(line(), "SigCgt:\t0000000000000000");
  std::istringstream session(line());
  pid_t sid = 0;
  int terminal = -1;
  session >> sid >> terminal;
  EXPECT_EQ(sid, shell_);
  EXPECT_EQ(terminal, 0);
  EXPECT_EQ(line(), std::to_string(shell_));
  EXPECT_EQ(line(), "to-stderr");
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, ProcessNamesTellWhatTheyAre) {
  Task task = launch("sleep 1000");
  const pid_t keeper = parent_of(shell_);
  EXPECT_EQ(look_at(keeper)->name, "errand-keeper");
  EXPECT_EQ(look_at(parent_of(keeper))->name, "errand-zygote");
  task.stop(0);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, AMissingFolderOrShellIsAStartThatFailed) {
  Command no_folder = Command::shell("true", marker_);
  no_folder.cwd = "/no such folder";
  Command no_shell = Command::shell("true", marker_);
  no_shell.path = "/no/such/shell";
  Command not_executable = Command::shell("true", marker_);
  not_executable.path = "/etc/passwd";
  const struct {
    const Command& command;
    StartStep step;
    int error;
  } cases[] = {{no_folder, StartStep::chdir, ENOENT},
               {no_shell, StartStep::exec, ENOENT},
               {not_executable, StartStep::exec, EACCES}};
  for (const auto& one : cases) {
    auto task = zygote_.launch(one.command);
    ASSERT_TRUE(task);
    const auto event = task->next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, KeeperEventKind::could_not_start);
    EXPECT_EQ(event->step, one.step);
    EXPECT_EQ(event->error, one.error);
    EXPECT_TRUE(task->at_end());
    EXPECT_EQ(task->read_output(), "");
  }
}

TEST_P(KeeperTest, ARequestThatMakesNoSenseStartsNothing) {
  StartRequest request;
  request.argc = 1;
  request.strings_size = 9;
  const std::string strings("/\0/bin/x\0", 9);  // no argument
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const std::vector<std::vector<int>> descriptors{{}, {null.get()}, {null.get(), null.get()}};
  for (const auto& fds : descriptors) {
    auto task = zygote_.keeper();
    ASSERT_TRUE(task && task->send_start(request, strings, fds));
    const auto event = task->next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, KeeperEventKind::could_not_start);
    EXPECT_EQ(event->step, StartStep::read_request);
    EXPECT_TRUE(task->at_end());
  }
  auto task = zygote_.keeper();
  ASSERT_TRUE(task && task->send_raw("garbage", 7));
  EXPECT_TRUE(task->at_end());
}

TEST_P(KeeperTest, ADuplexChannelIsTheChildsInputAndOutput) {
  Command command = Command::shell("read line; echo \"got $line\"; echo noise >&2", marker_);
  command.path = "/bin/sh";  // bash takes a socket for a remote login and reads its start files
  command.duplex = true;
  Task task = launch(command);
  ASSERT_EQ(::send(task.duplex(), "hello\n", 6, MSG_NOSIGNAL), 6);
  char answer[16] = {};
  ASSERT_EQ(::recv(task.duplex(), answer, 10, MSG_WAITALL), 10);
  EXPECT_STREQ(answer, "got hello\n");
  EXPECT_EQ(task.read_output(), "noise\n");
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, SurvivorsAreCountedAtTheExitAndStoppedLater) {
  Task task = launch("sleep 1000 & sleep 1000 & echo hi");
  const auto exited = task.next();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->kind, KeeperEventKind::exited);
  EXPECT_EQ(exited->status, 0);
  EXPECT_EQ(exited->live, 2U);
  EXPECT_EQ(task.read_line(), "hi");
  task.stop(2000);
  const auto stopped = task.next();
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->kind, KeeperEventKind::stopped);
  EXPECT_EQ(stopped->live, 2U);
  EXPECT_EQ(stopped->left, 0U);
  const auto empty = task.next();
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->kind, KeeperEventKind::empty);
  EXPECT_TRUE(task.at_end());
  EXPECT_EQ(task.read_output(), "");
}

TEST_P(KeeperTest, SurvivorsThatEndByThemselvesMakeItEmpty) {
  Task task = launch("(read line < /dev/null; sleep 0.2) & exit 3");
  const auto exited = task.next();
  ASSERT_TRUE(exited);
  EXPECT_EQ(WEXITSTATUS(exited->status), 3);
  const auto empty = task.next();
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->kind, KeeperEventKind::empty);
}

TEST_P(KeeperTest, AStopLeavesNothingOfAStubbornTree) {
  for (const std::uint32_t grace : {0U, 300U}) {
    Task task = launch(kStubborn);
    ASSERT_TRUE(await_processes("sleep", kStubbornSleeps));
    const std::size_t all = marker_.alive().size();
    task.stop(grace);
    const auto stopped = task.await(KeeperEventKind::stopped);
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->live, all);
    EXPECT_EQ(stopped->left, 0U);
    EXPECT_TRUE(marker_.alive().empty()) << "nothing may be left when the answer is there";
    EXPECT_TRUE(task.await(KeeperEventKind::empty));
  }
}

TEST_P(KeeperTest, AStopEndsWhatIsStopped) {
  for (const std::uint32_t grace : {0U, 60000U}) {
    Task task = launch("sleep 1000 & kill -STOP $!; kill -STOP $$");
    ASSERT_TRUE(eventually([&] {
      const auto all = marker_.alive();
      return all.size() == 2 && std::all_of(all.begin(), all.end(), [](pid_t pid) {
               const auto look = look_at(pid);
               return look && look->state == 'T';
             });
    }));
    task.stop(grace);
    const auto stopped = task.await(KeeperEventKind::stopped);
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->left, 0U);
    EXPECT_TRUE(task.await(KeeperEventKind::empty));
  }
}

TEST_P(KeeperTest, AStopIsAnsweredAsSoonAsTheTreeIsGone) {
  Task task = launch("sleep 1000 & wait");
  ASSERT_TRUE(await_processes("sleep", 1));
  task.stop(60000);  // as long as the patience
  ASSERT_TRUE(task.await(KeeperEventKind::stopped));
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, ASecondStopIsAnsweredAndMayShortenTheGrace) {
  Task task = launch("trap '' TERM; echo ready; sleep 1000 & wait");
  ASSERT_EQ(task.read_line(), "ready");
  ASSERT_TRUE(await_processes("sleep", 1));
  task.stop(60000);
  task.stop(100);
  task.stop(60000);
  for (int i = 0; i < 3; ++i) {
    const auto stopped = task.await(KeeperEventKind::stopped);
    ASSERT_TRUE(stopped) << i;
    EXPECT_EQ(stopped->live, 2U);
    EXPECT_EQ(stopped->left, 0U);
  }
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, AHandlerOfTermMayCleanUpWithCommands) {
  Task task = launch(
      "trap 'for i in 1 2 3; do /bin/echo cleaning $i; sleep 0.02; done; exit 9' TERM; echo ready; "
      "while :; do sleep 0.05; done");
  ASSERT_EQ(task.read_line(), "ready");
  task.stop(60000);
  const auto exited = task.await(KeeperEventKind::exited);
  ASSERT_TRUE(exited);
  EXPECT_TRUE(WIFEXITED(exited->status));
  EXPECT_EQ(WEXITSTATUS(exited->status), 9);
  EXPECT_NE(task.read_output().find("cleaning 1\ncleaning 2\ncleaning 3\n"), std::string::npos);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, ATreeThatGrowsDuringTheGraceIsKilledAtOnce) {
  Task task = launch(
      "trap 'for i in 1 2 3 4 5; do sleep 1000 & done; while :; do wait; done' TERM; echo ready; "
      "while :; do sleep 0.05; done");
  ASSERT_EQ(task.read_line(), "ready");
  task.stop(600000);  // ten times the patience
  const auto stopped = task.await(KeeperEventKind::stopped);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->left, 0U);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, ACometIsEnded) {
  // Each one forks the next and exits; no process lives longer than some milliseconds.
  Task task = launch("export F='trap \"\" TERM; setsid bash -c \"$F\" & exit'; echo ready; exec bash -c \"$F\"");
  ASSERT_EQ(task.read_line(), "ready");
  ASSERT_TRUE(task.await(KeeperEventKind::exited));
  task.stop(50);
  const auto stopped = task.await(KeeperEventKind::stopped);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->left, 0U);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, ZombiesAreNotLive) {
  // The sleep that the shell becomes does not reap the child that it inherited.
  // (The child waits for that: the shell would reap it.)
  Task task = launch("(while [ \"$(cat /proc/$$/comm)\" != sleep ]; do sleep 0.01; done; exit 3) & exec sleep 1000");
  ASSERT_TRUE(eventually([&] {
    const auto look = look_at(shell_);
    const auto children = children_of(shell_);
    return look && look->name == "sleep" && children.size() == 1 && !is_alive(children[0]);
  }));
  task.stop(60000);
  const auto stopped = task.await(KeeperEventKind::stopped);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->live, 1U);
}

TEST_P(KeeperTest, TheKeeperLeavesNoZombies) {
  Task task = launch("for i in 1 2 3 4 5 6 7 8 9 10; do (setsid true & setsid false &) ; done; echo done; sleep 1000");
  ASSERT_EQ(task.read_line(), "done");
  const pid_t keeper = parent_of(shell_);
  EXPECT_TRUE(eventually([&] {
    const auto children = children_of(keeper);
    return children.size() == 1 && children[0] == shell_;
  }));
  task.stop(0);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, AChildOfASecondThreadWhoseProcessLostItsFirstIsFound) {
  // The test program itself is the task: main() below.
  Command command = Command::shell("", marker_);
  command.path = "/proc/self/exe";
  char self[4096] = {};
  ASSERT_GT(::readlink("/proc/self/exe", self, sizeof self - 1), 0);
  command.path = self;
  command.argv = {"thread-task", "--fork-in-a-thread"};
  Task task = launch(command);
  ASSERT_EQ(task.read_line(), "ready");
  ASSERT_TRUE(eventually([&] { return look_at(shell_)->state == 'Z'; })) << "the first thread has gone";
  task.stop(200);
  const auto stopped = task.await(KeeperEventKind::stopped);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->live, 2U);
  EXPECT_EQ(stopped->left, 0U);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, ATermOfTheKeeperEndsItsTask) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Task task = launch("sleep 1000 & wait");
    ASSERT_TRUE(await_processes("sleep", 1));
    ASSERT_EQ(::kill(parent_of(shell_), signal), 0);
    const auto exited = task.next();
    ASSERT_TRUE(exited);
    EXPECT_EQ(exited->kind, KeeperEventKind::exited);
    EXPECT_EQ(WTERMSIG(exited->status), SIGTERM);
    EXPECT_TRUE(task.await(KeeperEventKind::empty));
  }
}

TEST_P(KeeperTest, HangingUpEndsTheTask) {
  Task task = launch(kStubborn, 200);
  ASSERT_TRUE(await_processes("sleep", kStubbornSleeps));
  const int copy = ::dup(task.channel());  // a descriptor elsewhere does not keep it alive
  task.hang_up();
  EXPECT_TRUE(marker_.all_gone());
  ::close(copy);
}

TEST_P(KeeperTest, AnIdleKeeperGoesWhenItIsStoppedOrHungUpOn) {
  auto stopped = zygote_.keeper();
  ASSERT_TRUE(stopped && stopped->stop(0));
  const auto event = stopped->next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, KeeperEventKind::stopped);
  EXPECT_EQ(event->live, 0U);
  EXPECT_EQ(event->left, 0U);
  EXPECT_TRUE(stopped->at_end());

  Task task = launch("sleep 1000");
  const pid_t zygote = parent_of(parent_of(shell_));
  auto spare = zygote_.keeper();
  ASSERT_TRUE(eventually([&] { return children_of(zygote).size() == 2; }));
  spare->hang_up();
  EXPECT_TRUE(eventually([&] { return children_of(zygote).size() == 1; }));
  task.stop(0);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
}

TEST_P(KeeperTest, TheZygoteGoesWithItsLastKeeper) {
  Task task = launch("sleep 1000");
  const pid_t zygote = parent_of(parent_of(shell_));
  zygote_.hang_up();
  // The task goes on meanwhile: nobody but the last keeper takes the zygote along.
  EXPECT_TRUE(is_alive(zygote));
  task.stop(0);
  EXPECT_TRUE(task.await(KeeperEventKind::empty));
  EXPECT_TRUE(eventually([&] { return !is_alive(zygote); }));
}

TEST_P(KeeperTest, ManyTasksAtOnce) {
  std::vector<Task> tasks;
  for (int i = 0; i < 60; ++i) {
    auto task = zygote_.launch(Command::shell("sleep 1000 & exit 5", marker_));
    ASSERT_TRUE(task);
    tasks.push_back(std::move(*task));
  }
  for (Task& task : tasks) {
    const auto exited = task.await(KeeperEventKind::exited);
    ASSERT_TRUE(exited);
    EXPECT_EQ(WEXITSTATUS(exited->status), 5);
    EXPECT_EQ(exited->live, 1U);
  }
  for (Task& task : tasks) task.stop(1000);
  for (Task& task : tasks) {
    const auto stopped = task.await(KeeperEventKind::stopped);
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->live, 1U);
    EXPECT_TRUE(task.await(KeeperEventKind::empty));
  }
}

// What the task of AChildOfASecondThread... does: a thread forks a child that ignores SIGTERM, as the thread does, and
// the first thread goes.
int fork_in_a_thread() {
  ::signal(SIGTERM, SIG_IGN);
  std::thread([] {
    if (::fork() == 0) {
      for (;;) ::pause();
    }
    if (::write(1, "ready\n", 6) != 6) ::_exit(1);
    for (;;) ::pause();
  }).detach();
  ::pthread_exit(nullptr);
}

}  // namespace
}  // namespace errand::keeper

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--fork-in-a-thread") == 0) return errand::keeper::fork_in_a_thread();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
