// SPDX-License-Identifier: Apache-2.0
#include "proc.h"

namespace errand::keeper {

bool read_stat(pid_t pid, Stat& stat) {
  const UniqueFd file(::open(ProcPath().word("/proc/").number(pid).word("/stat").text(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  char line[1024];
  const ssize_t size = ::read(file.get(), line, sizeof line - 1);
  if (size <= 0) return false;
  line[size] = '\0';

  // The command in parentheses may hold anything, parentheses and spaces included: what counts comes after the last.
  const char* at = line + size;
  while (at > line && *at != ')') --at;
  if (*at != ')' || at[1] != ' ') return false;
  at += 2;
  // Field 3 is the state, 4 the parent, 20 the number of threads.
  stat.state = *at;
  long value = 0;
  int field = 3;
  for (; *at != '\0' && field <= 20; ++at) {
    if (*at >= '0' && *at <= '9') {
      value = value * 10 + (*at - '0');
    } else if (*at == ' ') {
      if (field == 4) stat.parent = static_cast<pid_t>(value);
      if (field == 20) stat.threads = value;
      ++field;
      value = 0;
    }
  }
  return field > 20;
}

}  // namespace errand::keeper
