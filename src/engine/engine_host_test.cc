// SPDX-License-Identifier: Apache-2.0
// The engine as a guest: what it must leave alone in the process that uses it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

// Runs `body` in a process of its own, which may change what belongs to the process; its answer must be 0, else it says
// which step went wrong.
void in_a_host(const std::function<int()>& body) {
  const pid_t host = ::fork();
  ASSERT_GE(host, 0);
  if (host == 0) ::_exit(body());
  int status = 0;
  ASSERT_EQ(::waitpid(host, &status, 0), host);
  ASSERT_TRUE(WIFEXITED(status)) << "the host died by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the step that went wrong";
}

TaskSnapshot run(Engine& engine, const std::string& command) {
  const LaunchResult result = engine.launch(request_of(command));
  const auto* launched = std::get_if<Launched>(&result);
  return launched != nullptr ? engine.wait_end(launched->id, kDeadline) : nullptr;
}

bool exits_with(Engine& engine, int code) {
  const TaskSnapshot task = run(engine, "exit " + std::to_string(code));
  return task && task->exit_code == code;
}

struct SignalState {
  std::array<void (*)(int), NSIG> handlers{};
  std::array<int, NSIG> flags{};
  std::string masks;
};

SignalState signal_state() {
  SignalState state;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    state.handlers[static_cast<std::size_t>(signal)] = action.sa_handler;
    state.flags[static_cast<std::size_t>(signal)] = action.sa_flags;
  }
  sigset_t mask;
  ::sigemptyset(&mask);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  for (int signal = 1; signal < NSIG; ++signal) state.masks += ::sigismember(&mask, signal) == 1 ? 'b' : '.';
  return state;
}

bool same(const SignalState& a, const SignalState& b) {
  return a.handlers == b.handlers && a.flags == b.flags && a.masks == b.masks;
}

void on_signal(int) {}

TEST(HostTest, NoHandlerDispositionOrMaskIsChanged) {
  const TemporaryFolder folder;
  in_a_host([&] {
    ::signal(SIGUSR1, on_signal);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGINT, SIG_IGN);
    sigset_t block;
    ::sigemptyset(&block);
    ::sigaddset(&block, SIGUSR2);
    ::pthread_sigmask(SIG_BLOCK, &block, nullptr);
    const SignalState before = signal_state();
    Engine engine(test_config(folder));
    if (!same(before, signal_state())) return 1;
    if (!exits_with(engine, 3)) return 2;
    const auto id = std::get<Launched>(engine.launch(request_of("sleep 1000"))).id;
    if (!same(before, signal_state())) return 3;
    engine.stop(id);
    engine.close();
    return same(before, signal_state()) ? 0 : 4;
  });
}

// A signal for the host must reach a thread of the host's.
TEST(HostTest, TheEnginesThreadsTakeNoSignal) {
  const TemporaryFolder folder;
  in_a_host([&] {
    Engine engine(test_config(folder));
    if (!exits_with(engine, 0)) return 1;
    int others = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      if (entry.path().filename() == std::to_string(::getpid())) continue;
      const std::string status = read_file(entry.path() / "status");
      const std::size_t at = status.find("SigBlk:\t");
      if (at == std::string::npos) continue;
      const auto blocked = std::strtoull(status.c_str() + at + 8, nullptr, 16);
      // All but what cannot be blocked, and the two that glibc keeps for itself.
      const unsigned long long kept = 1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1) | 3ULL << 31;
      if ((blocked | kept) != ~0ULL && !kSanitized) return 2;
      ++others;
    }
    return others > 0 ? 0 : 3;
  });
}

TEST(HostTest, TheHostIsMadeNoSubreaper) {
  const TemporaryFolder folder;
  in_a_host([&] {
    const auto is_subreaper = [] {
      int set = -1;
      return ::prctl(PR_GET_CHILD_SUBREAPER, &set) == 0 ? set : -1;
    };
    Engine engine(test_config(folder));
    if (!exits_with(engine, 0)) return 1;
    if (is_subreaper() != 0) return 2;
    engine.close();
    return is_subreaper() == 0 ? 0 : 3;
  });
}

// The host's children are the host's: each is there to be waited for, with its own status, whatever the engine does
// meanwhile.
TEST(HostTest, TheHostsChildrenAndTheirStatusAreTheHosts) {
  const TemporaryFolder folder;
  in_a_host([&] {
    EngineConfig config = test_config(folder);
    config.max_concurrent_background = 100;
    Engine engine(config);
    std::set<pid_t> children;
    for (int i = 0; i < 20; ++i) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(i);
      children.insert(child);
      if (!exits_with(engine, 40 + i)) return 1;
    }
    engine.close();
    std::set<int> codes;
    for (const pid_t child : children) {
      int status = 0;
      if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 2;
      codes.insert(WEXITSTATUS(status));
    }
    if (codes.size() != 20) return 3;
    return ::waitpid(-1, nullptr, WNOHANG | __WALL) == -1 && errno == ECHILD ? 0 : 4;
  });
}

// A host that waits for any child, all the time, in a thread of its own: it sees its own child, and nothing else ever,
// not even for the moment in which a zygote is started.
TEST(HostTest, AWaitForAnyChildSeesTheHostsOwnOnly) {
  const TemporaryFolder folder;
  in_a_host([&] {
    const pid_t own = ::fork();
    if (own == 0) {
      for (;;) ::pause();
    }
    std::atomic<pid_t> seen = 0;
    std::thread waiter([&] { seen = ::waitpid(-1, nullptr, 0); });
    for (int i = 0; i < 10 && seen == 0; ++i) {
      EngineConfig config = test_config(folder);
      config.output_folder.clear();
      Engine engine(config);
      if (!exits_with(engine, 7)) return 1;
    }
    ::kill(own, SIGKILL);
    waiter.join();
    return seen == own ? 0 : 2;
  });
}

std::atomic<int> child_signals = 0;

TEST(HostTest, AHostWithAHandlerForItsChildrenHearsOfItsOwnOnly) {
  const TemporaryFolder folder;
  in_a_host([&] {
    ::signal(SIGCHLD, [](int) { ++child_signals; });
    Engine engine(test_config(folder));
    for (int i = 0; i < 5; ++i) {
      if (!exits_with(engine, i)) return 1;
    }
    engine.close();
    return child_signals == 0 ? 0 : 2;
  });
}

TEST(HostTest, EightThreadsLaunchReadAndStop) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 100;
  Engine engine(config);
  std::atomic<int> faults = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string text = std::to_string(t) + "." + std::to_string(i);
        const bool long_one = i % 3 == 2;
        const auto result = engine.launch(request_of("echo " + text + (long_one ? "; sleep 1000" : "")));
        const std::string id = std::get<Launched>(result).id;
        if (long_one) {
          if (!await_output(engine, id, text)) ++faults;
          if (engine.stop(id).outcome != StopReport::Outcome::stopped) ++faults;
        }
        const TaskSnapshot task = engine.wait_end(id, kDeadline);
        if (task->status != (long_one ? TaskStatus::cancelled : TaskStatus::completed)) ++faults;
        if (output_of(engine, id) != text + "\n" || engine.list().empty() || !engine.inspect(id)) ++faults;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, 0);
  EXPECT_EQ(engine.notifications().drain().size(), 80u);
  EXPECT_EQ(engine.running_count(), 0);
}

// After a fork the child's engine is dead and the parent's goes on, also when it had not started anything before; and
// an engine that the child makes for itself works beside it.
TEST(HostTest, AfterAForkTheParentGoesOnAndTheChildMayHaveAnEngineOfItsOwn) {
  const TemporaryFolder folder;
  for (const bool launched_before : {false, true}) {
    in_a_host([&] {
      EngineConfig config = test_config(folder);
      Engine engine(config);
      if (launched_before && !exits_with(engine, 1)) return 1;
      const pid_t copy = ::fork();
      if (copy == 0) {
        if (!std::holds_alternative<Rejected>(engine.launch(request_of("true")))) ::_exit(1);
        if (!engine.list().empty() || engine.cancel("bg-1") || engine.get("bg-1")) ::_exit(2);
        if (kSanitized) ::_exit(0);  // TSan knows no threads that are started after such a fork
        EngineConfig own = config;
        own.output_folder = folder / "own";
        Engine second(own);
        if (!exits_with(second, 9)) ::_exit(3);
        if (!second.close().left.empty()) ::_exit(4);
        ::_exit(0);
      }
      if (!exits_with(engine, 2)) return 2;
      int status = 0;
      if (::waitpid(copy, &status, 0) != copy || !WIFEXITED(status)) return 3;
      if (WEXITSTATUS(status) != 0) return 10 + WEXITSTATUS(status);
      if (!exits_with(engine, 3)) return 4;
      return engine.close().left.empty() ? 0 : 5;
    });
  }
}

// Nothing that a task, a keeper or a closed socket does raises SIGPIPE in the host.
TEST(HostTest, AHostThatDiesBySigpipeLives) {
  const TemporaryFolder folder;
  in_a_host([&] {
    ::signal(SIGPIPE, SIG_DFL);
    Engine engine(test_config(folder));
    for (int i = 0; i < 5; ++i) {
      const auto id = std::get<Launched>(engine.launch(request_of("echo $PPID; sleep 1000; true"))).id;
      if (!await_output(engine, id, "\n")) return 1;
      ::kill(std::atoi(output_of(engine, id).c_str()), SIGKILL);  // the keeper: the next word to it finds nobody
      engine.stop(id);
      if (!exits_with(engine, i)) return 2;
    }
    return 0;
  });
}

TEST(HostTest, AHostWithoutDescriptors012IsServedToo) {
  const TemporaryFolder folder;
  in_a_host([&] {
    for (const int fd : {0, 1, 2}) ::close(fd);
    Engine engine(test_config(folder));
    const TaskSnapshot task = run(engine, "cat; echo out; echo err >&2; readlink /proc/self/fd/0");
    if (!task || task->exit_code != 0) return 1;
    if (output_of(engine, task->id) != "out\nerr\n/dev/null\n") return 2;
    if (read_file(task->output_file) != "out\nerr\n/dev/null\n") return 3;
    return 0;
  });
}

TEST(HostTest, AHostThatIgnoresSigchldKeepsThatAndIsServed) {
  const TemporaryFolder folder;
  in_a_host([&] {
    ::signal(SIGCHLD, SIG_IGN);
    Engine engine(test_config(folder));
    for (int i = 0; i < 3; ++i) {
      if (!exits_with(engine, i)) return 1;
    }
    const auto id = std::get<Launched>(engine.launch(request_of("sleep 1000 & sleep 1000"))).id;
    if (engine.stop(id).outcome != StopReport::Outcome::stopped) return 2;
    struct sigaction action{};
    ::sigaction(SIGCHLD, nullptr, &action);
    return action.sa_handler == SIG_IGN ? 0 : 3;
  });
}

TEST(HostTest, SeveralEnginesInOneProcessKnowNothingOfEachOther) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
  config.output_folder = folder / "a";
  auto first = std::make_unique<Engine>(config);
  config.output_folder = folder / "b";
  Engine second(config);
  const std::string a = launch(*first, "echo a; sleep 1000");
  const std::string b = launch(second, "echo b; sleep 1000");
  EXPECT_EQ(a, "bg-1");
  EXPECT_EQ(b, "bg-1");
  ASSERT_TRUE(await_output(*first, a, "a"));
  ASSERT_TRUE(await_output(second, b, "b"));
  first.reset();
  EXPECT_EQ(second.get(b)->status, TaskStatus::running);
  EXPECT_TRUE(process_exists(processes_with("ERRAND_TEST_MARK=" + folder.path()).at(0)));
  EXPECT_EQ(await_ended(second, launch(second, "true"))->status, TaskStatus::completed);
  EXPECT_EQ(second.stop(b).outcome, StopReport::Outcome::stopped);
  EXPECT_TRUE(processes_with("ERRAND_TEST_MARK=" + folder.path()).empty());
}

std::atomic<int> copies = 0;

// fork() runs the handlers of pthread_atfork; what shares the memory until exec does not.
TEST(HostTest, AStartMakesNoCopyOfTheHost) {
  const TemporaryFolder folder;
  in_a_host([&] {
    if (::pthread_atfork([] { ++copies; }, nullptr, nullptr) != 0) return 1;
    Engine engine(test_config(folder));
    for (int i = 0; i < 3; ++i) {
      if (!exits_with(engine, i)) return 2;
    }
    return copies == 0 ? 0 : 3;
  });
}

TEST(HostTest, ThreadsDoNotGrowWithTheTasks) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 40;
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  Engine engine(config);
  for (int i = 0; i < 40; ++i) launch(engine, "echo ready; sleep 1000");
  for (const TaskSnapshot& task : engine.list()) ASSERT_TRUE(await_output(engine, task->id, "ready"));
  EXPECT_LE(threads() - before, 8) << "the supervisor's, and a few for files";
}

// The zygote comes with the first launch, and one keeper more than there are tasks waits for the next.
TEST(HostTest, AKeeperATaskAndASpareOne) {
  const TemporaryFolder folder;
  ASSERT_TRUE(eventually([] { return zygotes_of().empty(); })) << "of an earlier engine";
  Engine engine(test_config(folder));
  EXPECT_TRUE(zygotes_of().empty());
  const auto keepers = [] {
    const auto zygotes = zygotes_of();
    if (zygotes.size() != 1) return -1;
    const std::string pid = std::to_string(zygotes[0]);
    const std::string children = read_file("/proc/" + pid + "/task/" + pid + "/children");
    return static_cast<int>(std::count(children.begin(), children.end(), ' '));
  };
  if (!file_exists("/proc/self/task/" + std::to_string(::getpid()) + "/children")) GTEST_SKIP() << "no children files";
  for (int tasks = 1; tasks <= 3; ++tasks) {
    launch(engine, "echo ready; sleep 1000");
    EXPECT_TRUE(eventually([&] { return keepers() == tasks + 1; })) << keepers() << " keepers of " << tasks << " tasks";
  }
}

// What can be expected to go wrong is a value, whatever is called with whatever.
TEST(HostTest, NothingIsThrownForWhatMayHappen) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 1;
  Engine engine(config);
  EXPECT_NO_THROW({
    for (const char* id : {"", "bg-", "bg-0", "bg-99999999999999999999", "fg-1", "nonsense", "\xff"}) {
      EXPECT_EQ(engine.get(id), nullptr);
      EXPECT_EQ(engine.inspect(id), nullptr);
      EXPECT_EQ(engine.wait_end(id, 0ms), nullptr);
      EXPECT_FALSE(engine.tail(id, 5));
      EXPECT_FALSE(engine.cancel(id));
      EXPECT_FALSE(engine.adopt(id));
      EXPECT_EQ(engine.stop(id).outcome, StopReport::Outcome::unknown);
      engine.forget(id);
    }
    EXPECT_TRUE(std::holds_alternative<Rejected>(engine.launch(request_of("\n\t "))));
    launch(engine, "sleep 1000");
    EXPECT_TRUE(std::holds_alternative<Rejected>(engine.launch(request_of("true"))));
    engine.close();
    EXPECT_TRUE(std::holds_alternative<Rejected>(engine.launch(request_of("true"))));
    EXPECT_TRUE(engine.close().left.empty());
  });
}

}  // namespace
}  // namespace errand
