// SPDX-License-Identifier: Apache-2.0
// What a task's shell is given, and what becomes of a start that fails.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "engine/engine_testing.h"
#include "engine/environment.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

std::string run(Engine& engine, const std::string& command) {
  const std::string id = launch(engine, command);
  await_ended(engine, id);
  return output_of(engine, id);
}

TEST(StartTest, EnvironmentIsTheHostsPlusWhatTasksGet) {
  ::setenv("ERRAND_TEST_SEEN", "yes", 1);
  ::setenv("ERRAND_TEST_SECRET", "key", 1);
  ::setenv("TERM", "xterm", 1);
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.hidden_environment = {"ERRAND_TEST_SECRET"};
  config.environment = {{"PAGER", "less"}, {"NO_COLOR", std::nullopt}, {"EXTRA", "a=b c"}};
  Engine engine(config);
  EXPECT_EQ(run(engine,
                "echo $ERRAND_TASK_ID,$TERM,$PAGER,$GIT_PAGER,${NO_COLOR-unset},$PYTHONUNBUFFERED,"
                "$ERRAND_TEST_SEEN,${ERRAND_TEST_SECRET-unset},$EXTRA"),
            "bg-1,dumb,less,cat,unset,1,yes,unset,a=b c\n");
  const std::string token = run(engine, "echo $ERRAND_TASK_TOKEN");
  EXPECT_EQ(token.size(), 33u);
  EXPECT_NE(token, run(engine, "echo $ERRAND_TASK_TOKEN"));
}

TEST(StartTest, AHostThatIsATaskItselfPassesNoIdOn) {
  ::setenv("ERRAND_TASK_ID", "bg-77", 1);
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const auto id = std::get<Launched>(engine.launch_foreground(request_of("echo ${ERRAND_TASK_ID-unset}"))).id;
  engine.wait_end(id, kDeadline);
  EXPECT_EQ(output_of(engine, id), "unset\n");
  EXPECT_EQ(run(engine, "echo $ERRAND_TASK_ID"), "bg-1\n");
  ::unsetenv("ERRAND_TASK_ID");
}

TEST(StartTest, DescriptorsAre012AndStdinIsEmpty) {
  const TemporaryFolder folder;
  const int leaked = ::open("/dev/null", O_RDONLY);  // without CLOEXEC, as a careless host does
  Engine engine(test_config(folder));
  EXPECT_EQ(run(engine, "exec ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> .*/\\1/p' | tr '\\n' ' '"), "0 1 2 3 ")
      << "3 is the folder that ls reads";
  EXPECT_EQ(run(engine, "readlink /proc/self/fd/0; cat; echo end"), "/dev/null\nend\n");
  EXPECT_EQ(run(engine, "[ \"$(readlink /proc/$$/fd/1)\" = \"$(readlink /proc/$$/fd/2)\" ] && echo same"), "same\n");
  ::close(leaked);
}

TEST(StartTest, SessionSignalsAndLimitAreFresh) {
  sigset_t block, before;
  ::sigemptyset(&block);
  ::sigaddset(&block, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &block, &before);
  const auto ignored = ::signal(SIGHUP, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  rlimit raised = old;
  raised.rlim_cur = old.rlim_cur == raised.rlim_max ? old.rlim_cur - 1 : raised.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &raised), 0);
  const TemporaryFolder folder;
  {
    Engine engine(test_config(folder));
    EXPECT_EQ(run(engine, "exec grep -E '^Sig(Blk|Ign)' /proc/self/status"),
              "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    EXPECT_EQ(run(engine, "ulimit -Sn"), std::to_string(old.rlim_cur) + "\n");
    EXPECT_EQ(run(engine, "[ \"$(ps -o sid= -p $$ | tr -d ' ')\" = $$ ] && ps -o tty= -p $$"), "?\n");
  }
  ::setrlimit(RLIMIT_NOFILE, &old);
  ::signal(SIGHUP, ignored);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(StartTest, BashWhenItIsInstalledElseAsConfigured) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  if (file_exists("/bin/bash") || file_exists("/usr/bin/bash")) {
    EXPECT_EQ(run(engine, "a=(1 2); echo ${a[1]}"), "2\n");
  }
  EngineConfig config = test_config(folder);
  config.shell = "/bin/sh";
  Engine plain(config);
  EXPECT_EQ(run(plain, "echo $0"), "sh\n");
}

TEST(StartTest, FolderIsTheGivenOneOrTheHosts) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  LaunchRequest request;
  request.command = "pwd";
  request.cwd = folder.path();
  const std::string id = launch(engine, request);
  EXPECT_EQ(await_ended(engine, id)->cwd, folder.path());
  EXPECT_EQ(output_of(engine, id), folder.path() + "\n");
  char here[4096];
  ASSERT_NE(::getcwd(here, sizeof here), nullptr);
  const std::string second = launch(engine, "pwd");
  EXPECT_EQ(await_ended(engine, second)->cwd, here);
  EXPECT_EQ(output_of(engine, second), std::string(here) + "\n");
}

TEST(StartTest, OutputFolderAndFilesArePrivate) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const TaskSnapshot task = await_ended(engine, launch(engine, "echo x"));
  struct stat status{};
  ASSERT_EQ(::stat((folder / "tasks").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_EQ(task->output_file, folder / "tasks/bg-1.output");
  ASSERT_EQ(::stat(task->output_file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

// One FAILED task with its error, one notification, no slot taken, no descriptor left, at once.
void expect_failed_start(Engine& engine, const LaunchRequest& request, const std::string& error) {
  int before = 0;
  for (int i = 0; i < 23; ++i) {
    if (i == 3) before = open_descriptors();
    const TaskSnapshot task = await_ended(engine, launch(engine, request));
    EXPECT_EQ(task->status, TaskStatus::failed);
    EXPECT_EQ(task->cause, EndCause::could_not_start);
    EXPECT_EQ(task->error, error);
    EXPECT_FALSE(task->exit_code);
    EXPECT_FALSE(task->signal);
    const auto pending = engine.notifications().drain();
    ASSERT_EQ(pending.size(), 1u);
    EXPECT_EQ(pending[0].message, "failed (" + error + ")");
  }
  EXPECT_EQ(engine.running_count(), 0);
  // One more for the spare keeper, which comes and goes.
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + 1; })) << open_descriptors() << " > " << before;
}

TEST(FailedStartTest, MissingFolder) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  expect_failed_start(engine, request_of("true", "/no/such"),
                      "could not start: chdir \"/no/such\": No such file or directory");
}

TEST(FailedStartTest, CommandTooLongForTheKernel) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.shell = "/bin/sh";
  Engine engine(config);
  expect_failed_start(engine, request_of("true " + std::string(200'000, 'x')),
                      "could not start: exec \"/bin/sh\": Argument list too long");
}

TEST(FailedStartTest, MissingShell) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.shell = folder / "shell";
  Engine engine(config);
  for (int i = 0; i < 3; ++i) {
    const TaskSnapshot task = await_ended(engine, launch(engine, "true"));
    EXPECT_EQ(task->error, "could not start: exec \"" + config.shell + "\": No such file or directory");
  }
}

TEST(FailedStartTest, MissingKeeper) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.keeper_path = folder / "keeper";
  Engine engine(config);
  const TaskSnapshot task = await_ended(engine, launch(engine, "true"));
  EXPECT_EQ(task->error, "could not start: open \"" + config.keeper_path + "\": No such file or directory");
  EXPECT_EQ(engine.notifications().drain().size(), 1u);
  EXPECT_EQ(engine.running_count(), 0);
}

TEST(FailedStartTest, OutputFolderThatCannotBeMadeIsNoFailure) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.output_folder = "/dev/null/tasks";
  Engine engine(config);
  const TaskSnapshot task = await_ended(engine, launch(engine, "echo x"));
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(task->output_error, "mkdir: Not a directory");
  EXPECT_EQ(task->output_unwritten_bytes, 2u);
  EXPECT_EQ(output_of(engine, task->id), "x\n");
}

TEST(FailedStartTest, NulBytesAreRefused) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const LaunchResult result = engine.launch(request_of(std::string("echo a\0b", 8)));
  ASSERT_TRUE(std::holds_alternative<Rejected>(result));
  EXPECT_EQ(std::get<Rejected>(result).reason, "command must not contain NUL bytes");
}

// At every limit of descriptors from the first that lets the engine begin: tasks fail one by one, with their reason,
// and run again when there is room.
TEST(FailedStartTest, NoDescriptorsLeft) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    int failures = 0;
    for (int room = 0; room < 24; ++room) {
      EngineConfig config = test_config(folder);
      config.output_folder = folder / ("tasks" + std::to_string(room));
      Engine engine(config);
      rlimit old{};
      ::getrlimit(RLIMIT_NOFILE, &old);
      const int next = ::open("/dev/null", O_RDONLY);
      ::close(next);
      rlimit tight = old;
      tight.rlim_cur = static_cast<rlim_t>(next + room);
      ::setrlimit(RLIMIT_NOFILE, &tight);
      const auto id = std::get<Launched>(engine.launch(request_of("echo x"))).id;
      const auto task = engine.wait_end(id, kDeadline);
      ::setrlimit(RLIMIT_NOFILE, &old);
      if (task->status == TaskStatus::running) failures |= 1;
      if (task->status == TaskStatus::failed && (!task->error || !task->error->starts_with("could not start: ") ||
                                                 !task->error->ends_with(": Too many open files"))) {
        if (task->error) fprintf(stderr, "room %d: %s\n", room, task->error->c_str());
        failures |= 2;
      }
      if (engine.notifications().drain().size() != 1) failures |= 4;
      const auto again = std::get<Launched>(engine.launch(request_of("echo x"))).id;
      if (engine.wait_end(again, kDeadline)->status != TaskStatus::completed) failures |= 8;
      if (engine.running_count() != 0) failures |= 16;
      engine.close();
    }
    ::_exit(failures);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(StartTest, IdsGoOnFromTheConfiguredOne) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.first_id = 42;
  Engine engine(config);
  EXPECT_EQ(launch(engine, "true"), "bg-42");
}

TEST(StartTest, TheKeeperIsOpenedOnce) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  const std::string original = config.keeper_path;
  config.keeper_path = folder / "keeper";
  ASSERT_EQ(std::system(("cp " + original + " " + config.keeper_path).c_str()), 0);
  Engine engine(config);
  EXPECT_EQ(run(engine, "echo 1"), "1\n");
  ASSERT_EQ(::unlink(config.keeper_path.c_str()), 0);
  // The zygote's successor comes from the same program.
  for (const pid_t pid : own_children()) ADD_FAILURE() << "a child of the host: " << pid;
  const pid_t zygote = std::atoi(run(engine, "ps -o ppid= -p $PPID; true").c_str());
  ASSERT_EQ(::kill(zygote, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return !process_exists(zygote); }));
  EXPECT_EQ(run(engine, "echo 3"), "3\n");
}

}  // namespace
}  // namespace errand
