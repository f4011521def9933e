// SPDX-License-Identifier: Apache-2.0
// Blocks all signals for its life: a thread started within inherits that, so that the host's signals go to the host's
// own threads.
#pragma once

#include <csignal>

namespace errand {

class SignalBlock {
 public:
  SignalBlock() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalBlock() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  sigset_t before_;
};

}  // namespace errand
