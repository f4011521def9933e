// SPDX-License-Identifier: Apache-2.0
// Commands that take their time run beside the REPL's loop, each on a thread of its own, so that the line stays alive.
// Their texts come back through a descriptor that the loop polls.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace errand::repl {

class Jobs {
 public:
  // Shows lines while the job goes on. Returns when they have been taken, so that a slow screen slows the job instead
  // of filling memory; false when the job is to end.
  using Say = std::function<bool(std::string lines)>;
  // What the job says at its end is shown too; may be empty.
  using Work = std::function<std::string(std::stop_token stop, const Say& say)>;

  Jobs();
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // `interruptible`: interrupt() ends it; the others come to their end by themselves.
  void start(Work work, bool interruptible);
  // Readable when take() has something new, until heard() or take().
  int descriptor() const { return ready_.get(); }
  void heard();
  // What is to be shown now, each text whole lines without the last newline.
  std::vector<std::string> take();
  bool empty() const;
  // Asks all interruptible ones to end. False when there are none that were not asked before.
  bool interrupt();
  // Waits for all. Their last texts.
  std::vector<std::string> join();

 private:
  struct Job {
    std::jthread thread;
    bool interruptible = false;
    bool done = false;
    bool pending = false;  // `text` is to be shown
    std::string text;
    std::condition_variable_any taken;
  };
  bool say(Job& job, const std::stop_token& stop, std::string lines);
  void finish(Job& job, std::string text);
  void wake() const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Job>> jobs_;
  UniqueFd ready_;
};

}  // namespace errand::repl
