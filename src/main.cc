// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

int main(int count, char** arguments) { return errand::cli::run(count, arguments); }
