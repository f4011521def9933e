// SPDX-License-Identifier: Apache-2.0
#include "conversation/session_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "conversation/notice.h"

namespace errand {
namespace {

namespace fs = std::filesystem;

class SessionFileTest : public testing::Test {
 protected:
  SessionFileTest() {
    std::string name = (fs::temp_directory_path() / "errand-session-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~SessionFileTest() override { fs::remove_all(root_); }

  SessionFile::Header header(std::string id = "0c1f0000-0000-4000-8000-000000000001") {
    return {std::move(id), "/home/u/p", "scripted:x", 1767225600000};
  }
  std::string folder() const { return root_ + "/projects/home-u-p"; }

  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::vector<json::object> records(const std::string& path) {
    std::vector<json::object> out;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      std::string error;
      auto value = parse_json(line, error);
      EXPECT_TRUE(value) << error << " in " << line;
      if (value) out.push_back(value->as_object());
    }
    return out;
  }
  static std::vector<std::string> types(const std::string& path) {
    std::vector<std::string> out;
    for (const auto& record : records(path)) out.push_back(get_string(record, "type").value_or("?"));
    return out;
  }
  static Message text(std::string id, std::string what, bool meta = false) {
    Message m;
    m.id = std::move(id);
    m.blocks = {TextBlock{std::move(what)}};
    m.is_meta = meta;
    return m;
  }
  static TaskRecord failed_task() {
    TaskRecord task;
    task.id = "bg-1";
    task.owner = "main";
    task.command = "make";
    task.cwd = "/home/u/p";
    task.status = TaskStatus::failed;
    task.cause = EndCause::exited;
    task.exit_code = 2;
    task.finished_at_ms = 1767225601000;
    task.duration_ms = 1000;
    task.output_bytes = 12;
    return task;
  }

  std::string root_;
};

using Types = std::vector<std::string>;

TEST_F(SessionFileTest, nothing_exists_before_the_first_message_that_is_not_meta) {
  SessionFile file(folder(), header());
  EXPECT_FALSE(fs::exists(root_ + "/projects"));
  EXPECT_EQ(file.append(text("m0", "hidden", true)), "");
  EXPECT_FALSE(fs::exists(root_ + "/projects"));
  EXPECT_EQ(file.append(text("m1", "hello")), "");
  EXPECT_EQ(types(file.path()), (Types{"session", "message", "message"}));
  const auto all = records(file.path());
  EXPECT_EQ(get_int(all[0], "version"), 1);
  EXPECT_EQ(get_string(all[0], "id"), "0c1f0000-0000-4000-8000-000000000001");
  EXPECT_EQ(get_string(all[0], "cwd"), "/home/u/p");
  EXPECT_EQ(get_string(all[0], "model"), "scripted:x");
  EXPECT_EQ(get_string(all[0], "created_at"), "2026-01-01T00:00:00.000Z");
  EXPECT_EQ(get_bool(all[1], "isMeta"), true);
  EXPECT_EQ(get_string(all[2], "id"), "m1");
  std::string error;
  EXPECT_TRUE(message_from_json(all[2], error)) << error;
}

TEST_F(SessionFileTest, folders_are_0700_and_files_0600_whatever_the_umask) {
  const mode_t old = ::umask(0);
  SessionFile file(folder(), header());
  EXPECT_EQ(file.open(), "");
  ::umask(old);
  const auto mode = [](const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  };
  EXPECT_EQ(mode(root_ + "/projects"), 0700u);
  EXPECT_EQ(mode(folder()), 0700u);
  EXPECT_EQ(mode(file.session_folder()), 0700u);
  EXPECT_EQ(mode(file.session_folder() + "/lock"), 0600u);
  EXPECT_EQ(mode(file.path()), 0600u);
}

TEST_F(SessionFileTest, a_task_from_start_to_delivery) {
  SessionFile file(folder(), header());
  const auto notice = make_notice(failed_task(), "boom");
  EXPECT_EQ(file.append_task_start(failed_task(), true), "");
  EXPECT_EQ(file.append_task_end(failed_task(), notice), "");
  EXPECT_EQ(file.append_delivered(*notice, "msg-7"), "");
  EXPECT_EQ(file.append_read(*notice), "");
  EXPECT_EQ(file.append_aborted(), "");
  EXPECT_EQ(types(file.path()),
            (Types{"session", "task_start", "task_end", "notification", "notification", "aborted"}));
  const auto all = records(file.path());
  EXPECT_EQ(get_string(all[1], "task_id"), "bg-1");
  EXPECT_EQ(get_string(all[1], "command"), "make");
  EXPECT_EQ(get_bool(all[1], "by_hand"), true);
  EXPECT_EQ(get_string(all[2], "status"), "FAILED");
  EXPECT_EQ(get_string(all[2], "cause"), "exited");
  EXPECT_EQ(get_int(all[2], "exit_code"), 2);
  std::string error;
  const auto* pending = get_object(all[2], "notice");
  ASSERT_TRUE(pending);
  EXPECT_EQ(notification_from_json(*pending, error)->tail, "boom");
  EXPECT_EQ(get_string(all[3], "outcome"), "delivered");
  EXPECT_EQ(get_string(all[3], "notice_id"), notice->notice_id);
  EXPECT_EQ(get_string(all[3], "message_id"), "msg-7");
  EXPECT_EQ(get_string(all[4], "outcome"), "read");
}

TEST_F(SessionFileTest, a_stopped_task_has_an_end_without_a_notice) {
  SessionFile file(folder(), header());
  auto task = failed_task();
  task.status = TaskStatus::cancelled;
  task.cause = EndCause::cancelled;
  EXPECT_EQ(file.append_task_end(task, make_notice(task, "")), "");
  EXPECT_FALSE(records(file.path())[1].contains("notice"));
}

TEST_F(SessionFileTest, a_command_that_is_no_utf8_makes_a_valid_record) {
  SessionFile file(folder(), header());
  auto task = failed_task();
  task.command = "echo \xff\xfe";
  EXPECT_EQ(file.append_task_start(task, false), "");
  EXPECT_EQ(get_string(records(file.path())[1], "command"), "echo \xef\xbf\xbd\xef\xbf\xbd");
}

// RLIMIT_FSIZE makes the kernel take a part of a write, as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limited = old_;
    limited.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit old_{};
};

TEST_F(SessionFileTest, a_short_write_is_cut_back_and_the_record_comes_with_the_next_one) {
  SessionFile file(folder(), header());
  EXPECT_EQ(file.append(text("m1", "one")), "");
  const std::string before = content(file.path());
  {
    FileSizeLimit limit(before.size() + 40);
    EXPECT_EQ(file.append(text("m2", std::string(200, 'x'))),
              "cannot write \"" + file.path() + "\": No space left on device");
    EXPECT_EQ(content(file.path()), before);
    EXPECT_NE(file.append_aborted(), "");
    EXPECT_EQ(content(file.path()), before);
  }
  EXPECT_EQ(file.append(text("m3", "three")), "");
  EXPECT_EQ(types(file.path()), (Types{"session", "message", "message", "aborted", "message"}));
  EXPECT_EQ(get_string(records(file.path())[2], "id"), "m2");
}

TEST_F(SessionFileTest, a_folder_that_cannot_be_made_is_an_error_text_and_later_appends_go_on) {
  std::ofstream(root_ + "/projects") << "in the way";
  SessionFile file(folder(), header());
  EXPECT_NE(file.append(text("m1", "one")).find("cannot make folder"), std::string::npos);
  fs::remove(root_ + "/projects");
  EXPECT_EQ(file.append(text("m2", "two")), "");
  EXPECT_EQ(types(file.path()), (Types{"session", "message", "message"}));
}

TEST_F(SessionFileTest, records_of_many_threads_never_mix) {
  SessionFile file(folder(), header());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(file.append_task_start(failed_task(), false), "");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(records(file.path()).size(), 201u);
}

TEST_F(SessionFileTest, a_second_holder_is_refused_with_the_pid_of_the_first) {
  std::string second_error;
  {
    SessionFile first(folder(), header());
    ASSERT_EQ(first.open(), "");
    SessionFile second(folder(), header());
    EXPECT_EQ(second.open(), "session is in use by process " + std::to_string(::getpid()));
  }
  SessionFile third(folder(), header());
  EXPECT_EQ(third.open(), "") << "the lock ends with its holder";
}

TEST_F(SessionFileTest, a_child_process_does_not_keep_the_lock) {
  pid_t child = -1;
  {
    SessionFile first(folder(), header());
    ASSERT_EQ(first.open(), "");
    const char* argv[] = {"sleep", "1000", nullptr};
    ASSERT_EQ(::posix_spawnp(&child, "sleep", nullptr, nullptr, const_cast<char**>(argv), environ), 0);
  }
  SessionFile second(folder(), header());
  EXPECT_EQ(second.open(), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace errand
