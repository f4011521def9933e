// SPDX-License-Identifier: Apache-2.0
// A terminal in raw mode, for as long as the object lives: the modes it had come back on every road out. On return and
// exception by the destructor; on a crash by a handler; before SIGKILL nothing can be done, and shells repair that.
//
// Signals as such are the owner's affair: see SignalPipe.
#pragma once

#include <termios.h>

#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"

namespace errand::terminal {

class Tty {
 public:
  // Nothing, and the reason in `error`, when the descriptors are no terminal that can be set.
  static std::optional<Tty> open(int input, int output, std::string& error);
  ~Tty();
  Tty(Tty&&) noexcept;
  Tty& operator=(Tty&&) = delete;

  struct Size {
    int columns = 80, rows = 24;
  };
  Size size() const;

  int input() const { return input_; }
  int output() const { return output_ ? output_.get() : raw_output_; }
  enum class Read { some, nothing, closed };
  Read read(std::string& bytes) const;
  // Writes what the terminal takes now and removes it from `bytes`. False when the terminal is gone.
  bool write(std::string& bytes) const;
  // The same, but waits for a slow terminal, at most `wait_ms`.
  bool write_all(std::string& bytes, int wait_ms) const;

  // The terminal as it was, and back: around a suspend.
  void leave_raw();
  void enter_raw();

 private:
  Tty() = default;
  int input_ = -1;
  int raw_output_ = -1;
  UniqueFd output_;  // the same terminal opened anew, so that O_NONBLOCK is not set for others who share it
  termios saved_{};
  bool raw_ = false;
};

// Signals arrive as bytes on a pipe while one of these lives; at most one at a time. Handlers, not a blocked mask: a
// mask would be inherited by whatever is started meanwhile.
class SignalPipe {
 public:
  enum class For {
    ending,    // SIGINT, SIGTERM, SIGHUP, SIGQUIT
    terminal,  // these, SIGWINCH and SIGCONT
  };
  explicit SignalPipe(For purpose);
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;
  int descriptor() const { return read_.get(); }
  // The next signal that has come, or 0.
  int next();

 private:
  struct Before {
    int signal;
    struct sigaction action;
  };
  std::vector<Before> before_;
  UniqueFd read_, write_;
};

}  // namespace errand::terminal
