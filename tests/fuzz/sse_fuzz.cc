// SPDX-License-Identifier: Apache-2.0
// Rooms: model
// Any bytes as a model's answer: the events do not depend on where the stream was cut, and what they make up is legal
// in a history: no empty text, no thinking without a signature, no id twice, nothing half.
#include <set>

#include "base/utf8.h"
#include "fuzz.h"
#include "model/anthropic_wire.h"

namespace {

struct Ignore : errand::ModelObserver {
  void on_text(std::string_view delta) override { CHECK_THAT(errand::is_valid_utf8(delta)); }
  void on_thinking(std::string_view delta) override { CHECK_THAT(errand::is_valid_utf8(delta)); }
  void on_retry(const std::string&, int, std::int64_t) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  const std::string_view text = as_text(data, size);
  std::vector<SseEvent> whole, cut;
  SseParser().feed(text, whole);
  SseParser parser;
  for (std::size_t at = 0, step = 0; at < size; at += step) {
    step = 1 + data[at] % 7;
    parser.feed(text.substr(at, step), cut);
  }
  CHECK_THAT(whole.size() == cut.size());

  Ignore observer;
  const ModelRequest request;
  AnthropicStream stream(request, observer);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK_THAT(whole[i].name == cut[i].name && whole[i].data == cut[i].data);
    stream.take(whole[i]);
  }
  if (stream.state() == AnthropicStream::State::failed) CHECK_THAT(!stream.error().empty());
  std::set<std::string> ids;
  const ModelReply reply = stream.reply();
  for (const Block& block : reply.blocks) {
    if (const auto* use = std::get_if<ToolUseBlock>(&block)) {
      CHECK_THAT(!use->name.empty() && !use->id.empty() && ids.insert(use->id).second);
      CHECK_THAT(is_valid_utf8(to_text(use->input)));
    }
    if (const auto* one = std::get_if<TextBlock>(&block)) CHECK_THAT(!one->text.empty());
    if (const auto* one = std::get_if<ThinkingBlock>(&block)) CHECK_THAT(!one->signature.empty());
  }
  CHECK_THAT((reply.stop == StopReason::tool_use) <= !ids.empty());
  if (reply.stop == StopReason::refusal) CHECK_THAT(ids.empty());
  return 0;
}
