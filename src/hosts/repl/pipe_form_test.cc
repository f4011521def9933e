// SPDX-License-Identifier: Apache-2.0
// The REPL on a pipe, in a process of its own: limits that no flag of the program sets.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "base/fd.h"
#include "repl/repl.h"

namespace errand::repl {
namespace {

struct Outcome {
  int status = 0;
  std::string text;
};

// Runs it with these lines as its input; stdout and stderr together.
Outcome run_with(const std::string& lines, std::chrono::milliseconds wait_limit) {
  std::string folder = std::filesystem::temp_directory_path() / "errand-pipe-XXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  int in[2], out[2];
  EXPECT_EQ(::pipe(in), 0);
  EXPECT_EQ(::pipe(out), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(out[1], STDERR_FILENO);
    for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
    ReplOptions options;
    options.session.project_folder = folder;
    options.session.state_home = folder + "/state";
    options.session.engine.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
    options.wait_limit = wait_limit;
    ::_exit(run_repl(std::move(options)));
  }
  const UniqueFd write_end(in[1]), read_end(out[0]);
  ::close(in[0]);
  ::close(out[1]);
  EXPECT_EQ(::write(write_end.get(), lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  Outcome outcome;
  // The input stays open: what ends is the wait, and with /quit the program.
  char buffer[4096];
  for (ssize_t got; (got = ::read(read_end.get(), buffer, sizeof buffer)) > 0;) {
    outcome.text.append(buffer, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(::waitpid(child, &outcome.status, 0), child);
  std::filesystem::remove_all(folder);
  return outcome;
}

TEST(PipeFormTest, WhatNeverComesIsGivenUpAndTheNextLineIsRead) {
  const Outcome outcome =
      run_with("/bg run sleep 1000\n/bg watch bg-1 never\n/bg wait bg-1\n/bg output bg-1 -f\n!echo after them\n/quit\n",
               std::chrono::milliseconds(300));
  EXPECT_TRUE(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0) << outcome.status;
  const std::size_t after = outcome.text.find("after them");
  ASSERT_NE(after, std::string::npos) << outcome.text;
  for (const char* line : {"(no longer watching bg-1)\n", "bg-1: the wait was ended, still running\n",
                           "(no longer following bg-1)\n", "errand: /bg: ended: "}) {
    EXPECT_LT(outcome.text.find(line), after) << line << "\nin:\n" << outcome.text;
  }
}

}  // namespace
}  // namespace errand::repl
