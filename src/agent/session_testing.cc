// SPDX-License-Identifier: Apache-2.0
#include "agent/session_testing.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace errand::testing_support {

namespace fs = std::filesystem;

bool eventually(const std::function<bool()>& condition, int seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void Gate::open() {
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
}

bool Gate::wait(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  reached_ = true;
  return changed_.wait(lock, stop, [&] { return open_; });
}

bool Gate::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

std::string illegal(const std::vector<RequestTurn>& turns) {
  std::set<std::string> wanted;
  std::set<std::string> ever;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const RequestTurn& turn = turns[i];
    const std::string where = "turn " + std::to_string(i) + ": ";
    if ((turn.role == Role::user) != (i % 2 == 0)) return where + "two of one role in a row";
    if (turn.parts.empty()) return where + "empty";
    bool results_over = false;
    for (const RequestPart& part : turn.parts) {
      if (const auto* result = std::get_if<ToolResultBlock>(&part)) {
        if (turn.role != Role::user) return where + "a result of the assistant";
        if (results_over) return where + "a result after other parts";
        if (wanted.erase(result->tool_use_id) == 0) return where + "a stray or second result " + result->tool_use_id;
      } else {
        results_over = true;
      }
      if (const auto* tool_use = std::get_if<ToolUseBlock>(&part)) {
        if (turn.role != Role::assistant) return where + "a tool use of the user";
        if (!ever.insert(tool_use->id).second) return where + "a tool use's id comes twice: " + tool_use->id;
      }
    }
    if (turn.role == Role::user) {
      if (!wanted.empty()) return where + "no result for " + *wanted.begin();
    } else {
      for (const RequestPart& part : turn.parts) {
        if (const auto* tool_use = std::get_if<ToolUseBlock>(&part)) wanted.insert(tool_use->id);
      }
    }
  }
  return wanted.empty() ? "" : "no result at the end for " + *wanted.begin();
}

namespace {

std::string turn_text(const RequestTurn& turn) {
  std::string out;
  for (const RequestPart& part : turn.parts) {
    if (const auto* text = std::get_if<TextBlock>(&part)) out += text->text + "\n";
    if (const auto* result = std::get_if<ToolResultBlock>(&part)) out += result->text + "\n";
  }
  return out;
}

}  // namespace

std::string newest_text(const ModelRequest& request) {
  return request.turns.empty() ? "" : turn_text(request.turns.back());
}

std::string all_text(const ModelRequest& request) {
  std::string out;
  for (const RequestTurn& turn : request.turns) out += turn_text(turn);
  return out;
}

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

std::vector<ModelRequest> ModelScript::requests() const {
  const std::lock_guard lock(mutex);
  return seen;
}

std::size_t ModelScript::count() const {
  const std::lock_guard lock(mutex);
  return seen.size();
}

ModelRequest ModelScript::last() const {
  const std::lock_guard lock(mutex);
  return seen.empty() ? ModelRequest{} : seen.back();
}

ModelResult FakeModel::respond(const ModelRequest& request, ModelObserver& observer, std::stop_token stop) {
  EXPECT_EQ(illegal(request.turns), "");
  EXPECT_TRUE(!request.turns.empty() && request.turns.back().role == Role::user);
  {
    const std::lock_guard lock(script_->mutex);
    script_->seen.push_back(request);
  }
  return script_->handler(request, observer, stop);
}

ModelReply say(std::string text) {
  ModelReply reply;
  reply.blocks = {TextBlock{std::move(text)}};
  return reply;
}

ModelReply call(std::vector<ToolUseBlock> uses, std::string text) {
  ModelReply reply;
  if (!text.empty()) reply.blocks.emplace_back(TextBlock{std::move(text)});
  for (ToolUseBlock& each : uses) reply.blocks.emplace_back(std::move(each));
  reply.stop = StopReason::tool_use;
  return reply;
}

ToolUseBlock use(std::string name, json::object input) {
  static std::atomic<int> last{0};
  return {"use-" + std::to_string(++last), std::move(name), std::move(input)};
}

SessionTest::SessionTest() {
  std::string name = (fs::temp_directory_path() / "errand-agent-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  root = fs::canonical(name).string();
  project = root + "/project";
  fs::create_directory(project);
  options.project_folder = project;
  options.state_home = root + "/state";
  options.engine.keeper_path = std::string(ERRAND_BUILD_DIR) + "/errand-keeper";
  options.engine.min_free_bytes = 0;  // a full machine fails other tests than these
  options.engine.stop_grace = std::chrono::milliseconds(200);
  options.permission_mode = PermissionMode::bypass;
  options.start_window_ms = 0;
}

SessionTest::~SessionTest() {
  session_.reset();
  std::error_code error;
  fs::remove_all(root, error);
}

void SessionTest::start(ModelScript::Handler handler) {
  script = std::make_shared<ModelScript>(std::move(handler));
  session_ = std::make_unique<Session>(options, std::make_unique<FakeModel>(script));
}

void SessionTest::start_without_model() { session_ = std::make_unique<Session>(options, nullptr); }

void SessionTest::finish() {
  const CloseReport report = session_->close();
  EXPECT_TRUE(report.left.empty());
  EXPECT_TRUE(eventually([&] { return processes_of_project() == 0; }));
  take_events();
  std::vector<Message> messages;
  for (const auto& record : records("message")) {
    std::string error;
    auto message = message_from_json(record, error);
    EXPECT_TRUE(message) << error;
    if (message) messages.push_back(std::move(*message));
  }
  EXPECT_EQ(illegal(request_turns(messages)), "");
}

void SessionTest::take_events() {
  for (auto& event : session_->events().drain()) events.push_back(std::move(event));
}

bool SessionTest::becomes_idle() {
  return eventually([&] { return session_->idle(); });
}

void SessionTest::release(const std::string& name) { std::ofstream(project + "/" + name); }

std::string SessionTest::until(const std::string& name, int code) {
  return "while [ ! -e " + name + " ]; do sleep 0.02; done; exit " + std::to_string(code);
}

int SessionTest::processes_of_project() const {
  int count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.empty() || !std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    if (std::stol(name) == ::getpid()) continue;
    const fs::path cwd = fs::read_symlink(entry.path() / "cwd", error);
    if (!error && cwd.string().starts_with(project)) ++count;
  }
  return count;
}

std::vector<json::object> SessionTest::records() const {
  std::vector<json::object> out;
  std::ifstream in(session_->session_file());
  for (std::string line; std::getline(in, line);) {
    std::string error;
    auto value = parse_json(line, error);
    EXPECT_TRUE(value && value->is_object()) << error << ": " << line;
    if (value && value->is_object()) out.push_back(value->as_object());
  }
  return out;
}

std::vector<json::object> SessionTest::records(const std::string& type) const {
  auto out = records();
  std::erase_if(out, [&](const json::object& record) { return get_string(record, "type") != type; });
  return out;
}

}  // namespace errand::testing_support
