// SPDX-License-Identifier: Apache-2.0
// The fault walk: a scenario is run once to count the system calls it makes; then each of them is made to fail, with
// each error that it can have, once and for a while. Whatever fails: nothing hangs, the record tells the truth, there
// is one notification, nothing is left, and the next launch works.
//
// Every seventh failure is tried; ERRAND_STRESS=full tries all. ERRAND_FAULT="read 3 5" (call, number, errno) tries
// one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>

#include "engine/engine_testing.h"
#include "engine/task_text.h"
#include "errand/engine.h"
#include "host_faults.h"

namespace errand {
namespace {

using namespace errand::testing;
using namespace std::chrono_literals;
using fault::Call;
using fault::Plan;

constexpr std::uint32_t kSample = 7;
constexpr std::uint64_t kFlood = 300001;  // bytes of the scenario that goes past the cap
constexpr std::uint32_t kWhile = 25;      // failures in a row

const char* name_of(std::uint32_t call) {
  static constexpr const char* kNames[] = {
#define ERRAND_FAULT_NAME(name) #name,
      ERRAND_FAULT_CALLS(ERRAND_FAULT_NAME)
#undef ERRAND_FAULT_NAME
  };
  return kNames[call];
}

// What each call may answer. A wait that is broken off by a lack of memory is as likely as one by a signal.
std::vector<int> errors_of(Call call) {
  switch (call) {
    case Call::pipe2_call:
    case Call::socketpair_call:
    case Call::memfd_create_call:
    case Call::eventfd_call:
    case Call::epoll_create1_call:
    case Call::opendir_call:
    case Call::pidfd_open_call:
    case Call::signalfd_call:
      return {EMFILE, ENFILE, ENOMEM};
    case Call::dup2_call:
      return {EMFILE, EIO};
    case Call::open_call:
    case Call::openat_call:
      return {EMFILE, ENFILE, ENOMEM, ENOSPC, EIO, EINTR, EAGAIN};
    case Call::fcntl_call:
      return {EMFILE, ENOMEM, EAGAIN, EINTR};
    case Call::epoll_ctl_call:
      return {ENOMEM, ENOSPC};
    case Call::epoll_wait_call:
    case Call::waitid_call:
    case Call::waitpid_call:
    case Call::wake_call:
      return {EINTR};
    case Call::poll_call:
      return {EINTR, ENOMEM, EAGAIN};
    case Call::read_call:
    case Call::pread_call:
      return {EIO, ENOMEM, EAGAIN, EINTR};
    case Call::write_call:
    case Call::pwrite_call:
      return {ENOSPC, EIO, ENOMEM, EAGAIN, EINTR};
    case Call::recv_call:
    case Call::recvmsg_call:
    case Call::send_call:
    case Call::sendmsg_call:
      return {ENOMEM, EAGAIN, EINTR};
    case Call::posix_spawn_call:
    case Call::execve_call:
      return {EAGAIN, ENOMEM, EMFILE, ENFILE, EIO};
    case Call::fork_call:
    case Call::clone_call:
    case Call::thread_call:
    case Call::mmap_call:
    case Call::mremap_call:
      return {EAGAIN, ENOMEM};
    case Call::close_call:
      return {EIO, EINTR};
    case Call::kill_call:
    case Call::pidfd_send_signal_call:
    case Call::prctl_call:
    case Call::none:
      return {};  // cannot fail for a lack of anything
    default:
      return {EIO, ENOMEM, ENOSPC};
  }
}

// Ends the program, with the place, when a run takes longer than anything in it may.
class Watchdog {
 public:
  explicit Watchdog(std::string what)
      : what_(std::move(what)), thread_([this](const std::stop_token& stop) {
          const auto until = std::chrono::steady_clock::now() + 90s;
          while (!stop.stop_requested()) {
            if (std::chrono::steady_clock::now() > until) {
              std::cerr << "hangs: " << what_ << std::endl;
              std::abort();
            }
            std::this_thread::sleep_for(10ms);
          }
        }) {}

 private:
  const std::string what_;
  std::jthread thread_;
};

// Between arm and disarm the main thread makes no call but the engine's.
using Scenario = std::function<void(Engine&, std::vector<LaunchResult>&)>;

struct Side {
  Plan* plan = nullptr;
  std::string keeper;
};

const std::string* id_of(const LaunchResult& result) {
  const auto* launched = std::get_if<Launched>(&result);
  return launched == nullptr ? nullptr : &launched->id;
}

const std::string* run(Engine& engine, std::vector<LaunchResult>& results, const std::string& command) {
  results.push_back(engine.launch(request_of(command, "/")));
  return id_of(results.back());
}

void print_and_exit(Engine& engine, std::vector<LaunchResult>& results) {
  if (const auto* id = run(engine, results, "echo hello")) engine.wait_end(*id, kDeadline);
}

void flood_past_the_cap(Engine& engine, std::vector<LaunchResult>& results) {
  if (const auto* id = run(engine, results, "head -c 300000 /dev/zero | tr '\\0' x; echo")) {
    engine.wait_end(*id, kDeadline);
  }
}

void stop_while_it_runs(Engine& engine, std::vector<LaunchResult>& results) {
  if (const auto* id = run(engine, results, "setsid sleep 1000 & echo hello; sleep 1000")) {
    for (TaskSnapshot task = engine.get(*id); task->output_bytes == 0 && !task->output_error;) {
      if (task->status != TaskStatus::running) break;
      task = engine.wait_end(*id, 1ms);
    }
    engine.inspect(*id);
    engine.stop(*id);
  }
}

void stop_survivors(Engine& engine, std::vector<LaunchResult>& results) {
  if (const auto* id = run(engine, results, "sleep 1000 & echo hello")) {
    engine.wait_end(*id, kDeadline);
    engine.stop(*id);
  }
}

void adopt_a_foreground_command(Engine& engine, std::vector<LaunchResult>& results) {
  LaunchResult result = engine.launch_foreground(request_of("sleep 0.01; echo hello", "/"));
  if (const auto* id = id_of(result)) {
    engine.adopt(*id);
    engine.wait_end(*id, kDeadline);
  }
  results.push_back(std::move(result));
}

void close_with_one_running(Engine& engine, std::vector<LaunchResult>& results) {
  run(engine, results, "sleep 1000 & sleep 1000");
  engine.close();
}

std::vector<pid_t> keepers_of(const std::string& program) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid > 0 && std::filesystem::read_symlink(entry.path() / "exe", error) == program) pids.push_back(pid);
  }
  return pids;
}

// Every byte of the flood is in the file or counted by the record and by the file's marker.
bool is_accounted_for(const TaskRecord& task) {
  const std::string text = read_file(task.output_file);
  const std::size_t marker = text.find("\n[errand: ");
  if (marker == std::string::npos) return false;
  const std::size_t end = text.find('\n', marker + 1);
  const std::uint64_t left_out = std::strtoull(text.c_str() + marker + 10, nullptr, 10);
  return left_out == task.output_unwritten_bytes && text.size() - (end + 1 - marker) + left_out == kFlood;
}

struct Fault {
  std::uint32_t call = fault::kCalls;
  std::uint32_t number = 0;
  int error = 0;
  std::uint32_t times = 1;
};

class FaultWalkTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (plan_pages_ != nullptr) ::munmap(plan_pages_, sizeof(Plan));
  }

  // What the engine itself calls fails.
  Side host_side() {
    std::filesystem::copy_file(ERRAND_BUILD_DIR "/errand-keeper", folder_ / "errand-keeper");
    return {&fault::host_plan(), folder_ / "errand-keeper"};
  }
  // What zygote and keepers call fails.
  Side keeper_side() {
    const std::string file = folder_ / "plan";
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::ftruncate(fd, sizeof(Plan)), 0);
    plan_pages_ = ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    EXPECT_NE(plan_pages_, MAP_FAILED);
    std::filesystem::copy_file(ERRAND_FAULTY_KEEPER, folder_ / "errand-keeper");
    return {static_cast<Plan*>(plan_pages_), folder_ / "errand-keeper"};
  }

  void walk(const Side& side, const Scenario& scenario);
  // One run; true when the fault struck.
  bool strike(const Side& side, const Scenario& scenario, const Fault& fault);

 private:
  void once(const Side& side, const Scenario& scenario);
  void check_task(Engine& engine, const TaskRecord& task);

  const TemporaryFolder folder_;
  void* plan_pages_ = nullptr;
  int run_ = 0;
};

void FaultWalkTest::check_task(Engine& engine, const TaskRecord& task) {
  SCOPED_TRACE(task.command + ": " + ending_text(task) + ", output_error " + task.output_error.value_or("none"));
  const std::string text = output_of(engine, task.id);
  switch (task.status) {
    case TaskStatus::running:
      ADD_FAILURE() << "still running";
      break;
    case TaskStatus::completed:
      EXPECT_EQ(task.exit_code, 0);
      EXPECT_FALSE(task.error);
      if (!task.output_error) {
        if (task.command.find("hello") != std::string::npos) {
          EXPECT_EQ(text, "hello\n");
          // An end does not wait for long for a writer; what it writes comes all the same.
          EXPECT_TRUE(eventually([&] { return read_file(task.output_file) == "hello\n"; }));
        } else {
          EXPECT_EQ(task.output_bytes, kFlood);
          EXPECT_TRUE(eventually([&] { return is_accounted_for(*engine.get(task.id)); }));
        }
      } else {
        EXPECT_NE(task.output_error->find(": "), std::string::npos);
      }
      break;
    case TaskStatus::failed:
      EXPECT_TRUE(task.cause == EndCause::could_not_start || task.cause == EndCause::keeper_lost ||
                  (task.exit_code && !task.error) || (task.signal == SIGPIPE && task.output_error))
          << ending_text(task);
      if (task.cause == EndCause::could_not_start) {
        EXPECT_TRUE(task.error && task.error->find(": ") != std::string::npos);
        EXPECT_EQ(text, "");
      }
      break;
    case TaskStatus::cancelled:
      EXPECT_FALSE(task.exit_code);
      EXPECT_FALSE(task.signal);
      break;
  }
}

void FaultWalkTest::once(const Side& side, const Scenario& scenario) {
  const int descriptors = open_descriptors();
  const std::string mark = folder_ / std::to_string(++run_);
  EngineConfig config;
  config.output_folder = mark;
  config.keeper_path = side.keeper;
  config.stop_grace = 100ms;
  config.output_drain = 20ms;
  config.max_output_file_bytes = 131072;
  config.min_free_bytes = 0;
  config.environment = {{"ERRAND_TEST_MARK", mark}};
  std::vector<LaunchResult> results;
  bool adopting = false;
  {
    Engine engine(config);
    for (auto& count : side.plan->counts) count = 0;
    side.plan->failed = 0;
    side.plan->armed = 1;
    scenario(engine, results);
    side.plan->armed = 0;

    for (const LaunchResult& result : results) {
      const std::string* const id = id_of(result);
      if (id == nullptr) {
        ADD_FAILURE() << "rejected: " << std::get<Rejected>(result).reason;
        continue;
      }
      adopting = adopting || id->starts_with("fg-");
      check_task(engine, *await_ended(engine, *id));
    }
    LaunchResult later = engine.launch(request_of("echo again", "/"));
    if (const std::string* const id = id_of(later)) {
      const TaskSnapshot task = await_ended(engine, *id);
      EXPECT_EQ(ending_text(*task), "completed (exit code 0)");
      EXPECT_EQ(output_of(engine, *id), "again\n");
    } else {
      EXPECT_EQ(std::get<Rejected>(later).reason, "the session has ended");
    }
    EXPECT_EQ(engine.running_count(), 0);
    EXPECT_TRUE(engine.close().left.empty());
    std::vector<std::string> ids, notified;
    for (const TaskSnapshot& task : engine.list()) {
      // A foreground command that could not be started had ended before it was adopted: who ran it knows that.
      if (adopting && task->cause == EndCause::could_not_start) continue;
      ids.push_back(task->id);
    }
    for (const Notification& notification : engine.notifications().drain()) notified.push_back(notification.task_id);
    std::sort(ids.begin(), ids.end());
    std::sort(notified.begin(), notified.end());
    EXPECT_EQ(notified, ids);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }))
      << open_descriptors() << " descriptors, before " << descriptors;
  EXPECT_TRUE(own_children().empty());
  EXPECT_TRUE(eventually([&] { return processes_with("ERRAND_TEST_MARK=" + mark).empty(); }));
  EXPECT_TRUE(eventually([&] { return keepers_of(side.keeper).empty(); }));
  std::filesystem::remove_all(mark);
}

bool FaultWalkTest::strike(const Side& side, const Scenario& scenario, const Fault& fault) {
  Plan& plan = *side.plan;
  const std::string what = std::string(name_of(fault.call)) + " " + std::to_string(fault.number) + " " +
                           std::to_string(fault.error) + " " + std::to_string(fault.times);
  SCOPED_TRACE("ERRAND_FAULT=\"" + what + "\": " + errno_text(fault.error));
  const Watchdog watchdog(what);
  plan.call = fault.call;
  plan.from = fault.number;
  plan.times = fault.times;
  plan.error = fault.error;
  once(side, scenario);
  plan.call = fault::kCalls;
  return plan.failed != 0;
}

void FaultWalkTest::walk(const Side& side, const Scenario& scenario) {
  Plan& plan = *side.plan;
  plan.call = fault::kCalls;
  once(side, scenario);
  ASSERT_FALSE(HasFailure()) << "without any fault";

  std::vector<Fault> faults;
  for (std::uint32_t call = 0; call < fault::kCalls; ++call) {
    const std::uint32_t count = plan.counts[call];
    for (const int error : errors_of(static_cast<Call>(call))) {
      for (std::uint32_t number = 0; number < count; ++number) {
        faults.push_back({call, number, error, 1});
        // A call that is repeated until it succeeds may be repeated for ever only where that is waiting.
        faults.push_back({call, number, error, kWhile});
      }
    }
  }
  ASSERT_GT(faults.size(), 50u);
  const char* const stress = std::getenv("ERRAND_STRESS");
  const bool all = stress != nullptr && std::string_view(stress) == "full" && !kSanitized;
  const std::size_t step = all ? 1 : kSample;
  if (const char* const one = std::getenv("ERRAND_FAULT")) {
    std::istringstream words(one);
    std::string name;
    Fault wanted;
    words >> name >> wanted.number >> wanted.error >> wanted.times;
    while (wanted.call > 0 && name != name_of(wanted.call - 1)) --wanted.call;
    ASSERT_GT(wanted.call, 0u);
    --wanted.call;
    faults = {wanted};
  }
  std::size_t struck = 0, tried = 0;
  for (std::size_t i = 0; i < faults.size(); i += step) {
    ++tried;
    if (strike(side, scenario, faults[i])) ++struck;
  }
  // Threads and the machine's load move some calls behind the scenario's end; most must have been there.
  EXPECT_GT(struck, tried / 2);
  std::cout << struck << " of " << tried << " faults struck, " << faults.size() << " in all\n";
}

TEST_F(FaultWalkTest, HostPrintsAndExits) { walk(host_side(), print_and_exit); }
TEST_F(FaultWalkTest, HostFloodsPastTheCap) { walk(host_side(), flood_past_the_cap); }
TEST_F(FaultWalkTest, HostStopsWhileItRuns) { walk(host_side(), stop_while_it_runs); }
TEST_F(FaultWalkTest, HostStopsSurvivors) { walk(host_side(), stop_survivors); }
TEST_F(FaultWalkTest, HostAdoptsAForegroundCommand) { walk(host_side(), adopt_a_foreground_command); }
TEST_F(FaultWalkTest, HostClosesWithOneRunning) { walk(host_side(), close_with_one_running); }

TEST_F(FaultWalkTest, KeeperPrintsAndExits) { walk(keeper_side(), print_and_exit); }
TEST_F(FaultWalkTest, KeeperStopsWhileItRuns) { walk(keeper_side(), stop_while_it_runs); }
TEST_F(FaultWalkTest, KeeperStopsSurvivors) { walk(keeper_side(), stop_survivors); }
TEST_F(FaultWalkTest, KeeperClosesWithOneRunning) { walk(keeper_side(), close_with_one_running); }

// What the walk found, each by itself.
Fault of(Call call, std::uint32_t number, int error, std::uint32_t times = 1) {
  return {static_cast<std::uint32_t>(call), number, error, times};
}

TEST_F(FaultWalkTest, AnInterruptedWakeUpLosesNoMessage) {
  EXPECT_TRUE(strike(host_side(), stop_while_it_runs, of(Call::wake_call, 0, EINTR)));
}

TEST_F(FaultWalkTest, APipeThatCannotBeReadIsSaidInTheRecord) {
  EXPECT_TRUE(strike(host_side(), print_and_exit, of(Call::read_call, 0, EIO)));
}

TEST_F(FaultWalkTest, WithoutAWriterThreadTheFileIsWrittenAllTheSame) {
  EXPECT_TRUE(strike(host_side(), print_and_exit, of(Call::thread_call, 1, EAGAIN, kWhile)));
}

TEST_F(FaultWalkTest, WhatCannotBeWatchedIsNotStarted) {
  EXPECT_TRUE(strike(host_side(), print_and_exit, of(Call::epoll_ctl_call, 2, ENOMEM)));
}

TEST_F(FaultWalkTest, AStopThatCouldNotBeSentIsSentAgain) {
  EXPECT_TRUE(strike(host_side(), stop_while_it_runs, of(Call::send_call, 0, ENOMEM)));
}

TEST_F(FaultWalkTest, AnEndWhoseReportIsLostIsNoTaskThatRunsForEver) {
  EXPECT_TRUE(strike(keeper_side(), print_and_exit, of(Call::send_call, 1, EAGAIN)));
}

TEST_F(FaultWalkTest, AShortageWhenTheSpareWasMadeFailsNoLaterStart) {
  strike(keeper_side(), stop_survivors, of(Call::fork_call, 2, EAGAIN));
}

TEST_F(FaultWalkTest, AZygoteThatDoesNotKnowItsHostMakesWayForAnother) {
  EXPECT_TRUE(strike(keeper_side(), print_and_exit, of(Call::getsockopt_call, 2, ENOMEM)));
}

}  // namespace
}  // namespace errand
