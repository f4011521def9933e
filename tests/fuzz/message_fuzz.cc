// SPDX-License-Identifier: Apache-2.0
// Rooms: conversation
// Any bytes as a record of a session file: a message that is written and read back as the same, or a reason. And any
// bytes as what a task printed: they can forge no tag of a notification, nor close it.
#include "base/utf8.h"
#include "conversation/message.h"
#include "conversation/notice.h"
#include "conversation/request.h"
#include "fuzz.h"

namespace {

using namespace errand;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

void read_record(std::string_view bytes) {
  std::string error;
  const auto value = parse_json(bytes, error);
  if (!value || !value->is_object()) return;
  const auto message = message_from_json(value->get_object(), error);
  if (!message) {
    CHECK_THAT(!error.empty());
    return;
  }
  const std::string written = to_text(to_json(*message));
  const auto again = parse_json(written, error);
  CHECK_THAT(again && again->is_object());
  const auto same = message_from_json(again->get_object(), error);
  CHECK_THAT(same.has_value());
  CHECK_THAT(same->is_meta == message->is_meta && same->blocks.size() == message->blocks.size());
  if (written.find_first_of(".E") == std::string::npos) CHECK_THAT(to_text(to_json(*same)) == written);
  for (const RequestTurn& turn : request_turns({*message})) CHECK_THAT(!turn.parts.empty());
}

// Command, error and process names are whatever bytes the user, the model and the kernel gave; the tail is the
// engine's, which cleans it.
void write_notification(std::string_view bytes) {
  TaskRecord task;
  task.id = "bg-1";
  task.status = TaskStatus::failed;
  task.cause = EndCause::could_not_start;
  task.command = task.output_file = std::string(bytes);
  task.error = std::string(bytes);
  task.processes = {{4711, std::string(bytes), {3000}}};
  const auto notice = make_notice(task, clean_utf8(bytes));
  CHECK_THAT(notice.has_value());
  CHECK_THAT(is_valid_utf8(to_text(to_json(*notice))));
  const std::string text = notification_text(*notice);
  CHECK_THAT(is_valid_utf8(text));
  for (const char* tag : {"<task-notification>", "</task-notification>", "<status>", "</summary>", "</output-file>"}) {
    CHECK_THAT(count(text, tag) == 1);
  }
  CHECK_THAT(count(text, "<tail>") <= 1 && count(text, "</tail>") == count(text, "<tail>"));
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    CHECK_THAT((code >= 0x20 && code != 0x7F) || c == '\n' || c == '\t');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = as_text(data, size);
  read_record(bytes);
  write_notification(bytes);
  return 0;
}
