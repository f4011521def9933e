// SPDX-License-Identifier: Apache-2.0
#include "engine/ended_outputs.h"

#include <iterator>

namespace errand {

void EndedOutputs::keep(const std::shared_ptr<Output>& output) {
  const std::size_t bytes = output->retained_bytes();
  const auto known = by_output_.find(output.get());
  if (known != by_output_.end() && known->second->output.lock() == output) {
    bytes_ = bytes_ - known->second->bytes + bytes;
    known->second->bytes = bytes;
  } else {
    if (known != by_output_.end()) {  // of one that was forgotten, whose place in memory is used again
      bytes_ -= known->second->bytes;
      kept_.erase(known->second);
    }
    if (bytes == 0) {
      by_output_.erase(output.get());
      return;
    }
    kept_.push_back({output, bytes});
    by_output_[output.get()] = std::prev(kept_.end());
    bytes_ += bytes;
  }
  while (bytes_ > most_ && !kept_.empty()) free_oldest();
}

void EndedOutputs::free_oldest() {
  const std::shared_ptr<Output> output = kept_.front().output.lock();
  if (output) output->free_memory();
  bytes_ -= kept_.front().bytes;
  std::erase_if(by_output_, [this](const auto& entry) { return entry.second == kept_.begin(); });
  kept_.pop_front();
}

}  // namespace errand
