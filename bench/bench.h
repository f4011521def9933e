// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: a clock, percentiles, the bare peer that the engine is compared with, and the table's row.
//
// Machines differ and are noisy, so what counts is the ratio inside one run: the two things compared take turns, and
// medians are compared.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace errand::bench {

// CLOCK_MONOTONIC in microseconds.
double now_us();
// The p-th percentile (0..100) of the values; 0 when there are none.
double percentile(std::vector<double> values, double p);
// "5102 us", "12.3 ms", "1.20 s"
std::string time_text(double us);

// One row of the table: what | reference | measured | ratio | goal | reached.
void row(const std::string& what, const std::string& reference, const std::string& measured, const std::string& ratio,
         const std::string& goal, bool reached);
// Ratio with two digits after the point.
std::string ratio_text(double ratio);

// The first thing that a benchmark cannot do without is missing: says so and ends the program.
[[noreturn]] void give_up(const std::string& why);

// A shell started by nothing but posix_spawn: own session, stdin /dev/null, stdout and stderr in one pipe.
struct Bare {
  pid_t pid = -1;
  int out = -1;  // the pipe's end, non-blocking
};
Bare start_bare(const std::string& shell, const std::string& command);
// Reads and drops what the peer prints until it closes the pipe, then reaps it.
void finish_bare(Bare& bare);

// Waits a moment (some 20 us): what both sides of a comparison do between two looks.
void pause_between_looks();

// Lowers the timer's slack, so that the pause above is as short as it says, and raises the limit of descriptors to
// 8,192.
void prepare();

// A copy of the keeper in the folder, for engines whose keepers are to be told from everybody else's.
std::string own_keeper(const std::string& folder);
// This process, its zygote and its keepers (of the program given), as the figures count the host: memory (PSS) in KiB,
// and processor time in seconds.
std::int64_t host_memory_kib(const std::string& keeper);
double host_cpu_seconds(const std::string& keeper);

}  // namespace errand::bench
