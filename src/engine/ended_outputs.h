// SPDX-License-Identifier: Apache-2.0
// The memory that ended tasks' outputs take together. Over the limit the oldest ones' is freed; they are read from
// their files from then on. Used by the supervisor's thread alone.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <unordered_map>

#include "engine/output.h"

namespace errand {

class EndedOutputs {
 public:
  static constexpr std::size_t kMost = 4 * 1024 * 1024;

  explicit EndedOutputs(std::size_t most = kMost) : most_(most) {}

  // The output of an ended task, at its end and whenever it has grown since.
  void keep(const std::shared_ptr<Output>& output);

 private:
  struct Kept {
    std::weak_ptr<Output> output;  // a forgotten command's goes with it
    std::size_t bytes = 0;
  };
  void free_oldest();

  const std::size_t most_;
  std::size_t bytes_ = 0;
  std::list<Kept> kept_;  // oldest first
  std::unordered_map<const Output*, std::list<Kept>::iterator> by_output_;
};

}  // namespace errand
