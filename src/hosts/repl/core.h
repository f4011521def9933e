// SPDX-License-Identifier: Apache-2.0
// What both forms of the REPL share: a session, its transcript, the commands. The form owns the loop: it polls
// events_descriptor() and jobs_descriptor(), calls pump() when one is ready, and hands over the lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/session.h"
#include "base/fd.h"
#include "repl/bg_command.h"
#include "repl/output.h"
#include "repl/repl.h"
#include "repl/transcript.h"

namespace errand::repl {

class Core {
 public:
  // What a form does with the events that are its own. All are called from pump().
  class Form {
   public:
    virtual ~Form() = default;
    virtual void asked(const event::PermissionAsked& question) = 0;
    virtual void withdrawn(std::uint64_t ask_id) = 0;
    virtual void queued(const std::vector<std::string>& texts) = 0;
    virtual void returned(const std::vector<std::string>& texts) = 0;
  };

  Core(ReplOptions& options, Output& output, Form& form);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Session& session() { return session_; }
  Transcript& transcript() { return transcript_; }
  NoticeMark mark() const { return mark_; }
  int events_descriptor() { return session_.events().descriptor(); }
  int jobs_descriptor() const { return jobs_ready_.get(); }

  enum class Next { go_on, quit };
  Next enter(std::string_view line);
  void pump();
  // No turn, no `!cmd`, no command that waits.
  bool idle();
  // Running tasks and ended ones whose processes live on: what would end with the session.
  std::vector<TaskSnapshot> living_tasks();

  // Ends everything; a line for stderr for each process that could not be ended.
  std::vector<std::string> close();

 private:
  void bang(std::string_view command);
  void slash(std::string_view line);
  void start_job(std::function<std::string()> job);
  void show_notices();
  void finish_jobs();

  Output& output_;
  Form& form_;
  Typist* typist_;
  const NoticeMark mark_;
  Session session_;
  BgCommand bg_;
  Transcript transcript_;
  bool loading_ = false;
  bool closed_ = false;

  // Commands that wait run beside the loop, so that the line stays alive; their texts come back through here.
  struct Job {
    std::jthread thread;
    bool done = false;
    std::string text;
  };
  std::mutex jobs_mutex_;
  std::vector<std::unique_ptr<Job>> jobs_;
  UniqueFd jobs_ready_;
};

}  // namespace errand::repl
