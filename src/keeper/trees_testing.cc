// SPDX-License-Identifier: Apache-2.0
// Trees of processes that are hard to end, for tests to run as tasks. All ignore the signals that ask.
//
//   errand_test_trees bomb MOST    as many processes as it may; what is killed is replaced by the others. The bound is
//   a
//                                  table that they share, since root is not bound by RLIMIT_NPROC
//   errand_test_trees chain COUNT  each the child of the last, each in a session of its own
//   errand_test_trees comets       four that fork, and whose parent exits, for ever
//   errand_test_trees daemons N    N double-forked daemons; the program ends
//   errand_test_trees vfork        a parent that cannot be stopped, since it waits for its vfork's child
//
// `ready` is printed when the tree stands.

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void say_ready() {
  if (::write(1, "ready\n", 6) != 6) ::_exit(1);
}

void ignore_all() {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
}

bool is_gone(pid_t pid) { return pid == 0 || ::kill(pid, 0) != 0; }

int bomb(long most) {
  void* const pages = ::mmap(nullptr, sizeof(std::atomic<pid_t>) * static_cast<std::size_t>(most),
                             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return 1;
  auto* const slots = static_cast<std::atomic<pid_t>*>(pages);
  ::signal(SIGCHLD, SIG_IGN);  // no zombies: they would count
  slots[0] = ::getpid();
  bool said = false;
  for (unsigned long at = static_cast<unsigned long>(::getpid());;) {
    bool full = true;
    for (long i = 0; i < most; ++i, ++at) {
      std::atomic<pid_t>& slot = slots[at % static_cast<unsigned long>(most)];
      pid_t old = slot.load();
      // The place is ours until the child has it: if we are killed between, it counts as empty again.
      if (!is_gone(old) || !slot.compare_exchange_strong(old, ::getpid())) continue;
      full = false;
      const pid_t child = ::fork();
      if (child == 0) {
        slot = ::getpid();
        if (at % 3 == 0) ::setsid();
        said = true;
      } else if (child < 0) {
        slot = 0;
      }
      break;
    }
    if (full && !said) {
      said = true;
      say_ready();
    }
    ::usleep(full ? 20000 : 1000);
  }
}

int chain(long count) {
  for (long i = 1; i < count; ++i) {
    if (::fork() != 0) {
      for (;;) ::pause();
    }
    ::setsid();
  }
  say_ready();
  for (;;) ::pause();
}

int comets() {
  for (int i = 0; i < 4; ++i) {
    if (::fork() == 0) {
      for (;;) {
        if (::fork() != 0) ::_exit(0);
        ::setsid();
      }
    }
  }
  say_ready();
  for (;;) ::pause();
}

int daemons(long count) {
  for (long i = 0; i < count; ++i) {
    if (::fork() != 0) continue;
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    for (;;) ::pause();
  }
  say_ready();
  return 0;
}

int vfork_and_wait() {
  const pid_t child = ::vfork();
  if (child == 0) {
    say_ready();
    for (;;) ::pause();
  }
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  const auto is = [&](const char* word, int count) { return argc == count && std::strcmp(argv[1], word) == 0; };
  ignore_all();
  const long number = argc == 3 ? std::atol(argv[2]) : 0;
  if (is("bomb", 3) && number > 0) return bomb(number);
  if (is("chain", 3) && number > 0) return chain(number);
  if (is("comets", 2)) return comets();
  if (is("daemons", 3) && number > 0) return daemons(number);
  if (is("vfork", 2)) return vfork_and_wait();
  return 2;
}
