// SPDX-License-Identifier: Apache-2.0
// What both forms of the REPL share: a session, its transcript, the commands. The form owns the loop: it polls
// events_descriptor() and jobs_descriptor(), calls pump() when one is ready, and hands over the lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/session.h"
#include "repl/bg_command.h"
#include "repl/jobs.h"
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
  int jobs_descriptor() const { return jobs_.descriptor(); }

  enum class Next { go_on, quit };
  Next enter(std::string_view line);
  void pump();
  // No turn, no `!cmd`, no command that waits.
  bool idle();
  // The same but for commands that wait.
  bool only_waits();
  // Ends the commands that wait for what tasks do; false when there are none.
  bool interrupt_waits() { return jobs_.interrupt(); }
  // Running tasks and ended ones whose processes live on: what would end with the session.
  std::vector<TaskSnapshot> living_tasks();

  // Ends everything; a line for stderr for each process that could not be ended.
  std::vector<std::string> close();

 private:
  void bang(std::string_view command);
  void slash(std::string_view line);
  void show_notices();
  void show_jobs();

  Output& output_;
  Form& form_;
  Typist* typist_;
  const NoticeMark mark_;
  Session session_;
  BgCommand bg_;
  Transcript transcript_;
  bool loading_ = false;
  bool closed_ = false;

  // Last: they use all of the above.
  Jobs jobs_;
};

}  // namespace errand::repl
