// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "runner.h"

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) std::fputs(run(arguments[i]).c_str(), stdout);
  return 0;
}
