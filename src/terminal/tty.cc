// SPDX-License-Identifier: Apache-2.0
#include "terminal/tty.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

namespace errand::terminal {
namespace {

// For the crash handler, which can follow no pointer that may be dangling.
termios crash_modes{};
std::atomic<int> crash_terminal{-1};

// Bracketed paste on; the cursor is shown whatever was drawn last.
constexpr std::string_view enter_text = "\x1b[?2004h";
constexpr std::string_view leave_text = "\x1b[?2004l\x1b[?25h";

constexpr std::array crash_signals{SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};

void on_crash(int signal) {
  const int terminal = crash_terminal.exchange(-1);
  if (terminal >= 0) {
    [[maybe_unused]] const auto written = ::write(terminal, leave_text.data(), leave_text.size());
    ::tcsetattr(terminal, TCSANOW, &crash_modes);
  }
  ::raise(signal);  // SA_RESETHAND: the default action follows
}

void install_crash_handlers() {
  struct sigaction action{};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : crash_signals) {
    struct sigaction present{};
    // A sanitizer's or a debugger's handler is worth more than ours.
    if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_DFL)
      ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

std::optional<Tty> Tty::open(int input, int output, std::string& error) {
  Tty tty;
  tty.input_ = input;
  tty.raw_output_ = output;
  if (::tcgetattr(input, &tty.saved_) != 0) {
    error = "cannot read the terminal's modes: " + std::string(std::strerror(errno));
    return std::nullopt;
  }
  const std::string name = "/proc/self/fd/" + std::to_string(output);
  tty.output_.reset(::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  crash_modes = tty.saved_;
  crash_terminal = input;
  install_crash_handlers();
  tty.enter_raw();
  return tty;
}

Tty::Tty(Tty&& other) noexcept
    : input_(other.input_),
      raw_output_(other.raw_output_),
      output_(std::move(other.output_)),
      saved_(other.saved_),
      raw_(std::exchange(other.raw_, false)) {}

Tty::~Tty() {
  if (!raw_) return;
  leave_raw();
  crash_terminal = -1;
}

Tty::Size Tty::size() const {
  winsize size{};
  if (::ioctl(raw_output_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

Tty::Read Tty::read(std::string& bytes) const {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(input_, buffer.data(), buffer.size());
  if (got > 0) {
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
    return Read::some;
  }
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return Read::nothing;
  return Read::closed;
}

bool Tty::write(std::string& bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = ::write(output(), bytes.data(), bytes.size());
    if (put > 0) {
      bytes.erase(0, static_cast<std::size_t>(put));
    } else if (put < 0 && errno == EINTR) {
      continue;
    } else {
      return put < 0 && errno == EAGAIN;
    }
  }
  return true;
}

bool Tty::write_all(std::string& bytes, int wait_ms) const {
  while (true) {
    if (!write(bytes)) return false;
    if (bytes.empty()) return true;
    pollfd ready{output(), POLLOUT, 0};
    if (::poll(&ready, 1, wait_ms) == 0) return true;
  }
}

void Tty::leave_raw() {
  if (!raw_) return;
  raw_ = false;
  std::string text(leave_text);
  write_all(text, 200);
  // A background process that sets modes would be stopped by SIGTTOU; what has lost its terminal gets an error only.
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGTTOU, &ignore, &before);
  ::tcsetattr(input_, TCSADRAIN, &saved_);
  ::sigaction(SIGTTOU, &before, nullptr);
}

void Tty::enter_raw() {
  termios modes = saved_;
  modes.c_iflag &= static_cast<tcflag_t>(~(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON));
  modes.c_oflag &= static_cast<tcflag_t>(~OPOST);
  modes.c_cflag |= CS8;
  modes.c_lflag &= static_cast<tcflag_t>(~(ECHO | ECHONL | ICANON | IEXTEN | ISIG));
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  ::tcsetattr(input_, TCSADRAIN, &modes);
  raw_ = true;
  std::string text(enter_text);
  write_all(text, 200);
}

namespace {

std::atomic<int> signal_sink{-1};

void on_signal(int signal) {
  const int saved_errno = errno;
  const auto byte = static_cast<unsigned char>(signal);
  const int sink = signal_sink.load();
  if (sink >= 0) {
    [[maybe_unused]] const auto written = ::write(sink, &byte, 1);
  }
  errno = saved_errno;
}

}  // namespace

SignalPipe::SignalPipe(For purpose) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  signal_sink = write_.get();
  std::vector<int> signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  if (purpose == For::terminal) signals.insert(signals.end(), {SIGWINCH, SIGCONT});
  for (const int signal : signals) {
    Before before{signal, {}};
    ::sigaction(signal, nullptr, &before.action);
    // nohup and a shell's `errand &` set some to be ignored, and mean it.
    if (before.action.sa_handler == SIG_IGN && signal != SIGTERM) continue;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
    before_.push_back(before);
  }
}

SignalPipe::~SignalPipe() {
  for (const Before& before : before_) ::sigaction(before.signal, &before.action, nullptr);
  signal_sink = -1;
}

int SignalPipe::next() {
  unsigned char byte = 0;
  return ::read(read_.get(), &byte, 1) == 1 ? byte : 0;
}

}  // namespace errand::terminal
