// SPDX-License-Identifier: Apache-2.0
// For tests of sessions: a model whose answers the test writes, and a session with real processes around it.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/session.h"
#include "model/model.h"

namespace errand::testing_support {

// Polls until the condition holds; false after the deadline.
bool eventually(const std::function<bool()>& condition, int seconds = 20);

// Opened once; who waits goes on then, or when a stop is requested.
class Gate {
 public:
  void open();
  // True when it was opened.
  bool wait(const std::stop_token& stop);
  // Whether somebody waits (or waited) at it.
  bool reached() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool open_ = false;
  bool reached_ = false;
};

// What is wrong with a history as a request holds it, or nothing: roles alternate from the user on; the results of an
// answer's tool uses stand first in the very next turn, exactly one for each.
std::string illegal(const std::vector<RequestTurn>& turns);

// All texts of the newest user turn, a line between them.
std::string newest_text(const ModelRequest& request);
std::string all_text(const ModelRequest& request);
int count_of(const std::string& text, const std::string& what);

// Shared between the test and the model that the session owns.
struct ModelScript {
  using Handler = std::function<ModelResult(const ModelRequest&, ModelObserver&, std::stop_token)>;

  explicit ModelScript(Handler answer) : handler(std::move(answer)) {}
  std::vector<ModelRequest> requests() const;
  std::size_t count() const;
  // The newest request, which must be there.
  ModelRequest last() const;

  const Handler handler;
  mutable std::mutex mutex;
  std::vector<ModelRequest> seen;
};

// Checks every request for legality before it answers.
class FakeModel : public Model {
 public:
  explicit FakeModel(std::shared_ptr<ModelScript> script) : script_(std::move(script)) {}
  std::string name() const override { return "fake:test"; }
  ModelResult respond(const ModelRequest& request, ModelObserver& observer, std::stop_token stop) override;

 private:
  std::shared_ptr<ModelScript> script_;
};

ModelReply say(std::string text);
ModelReply call(std::vector<ToolUseBlock> uses, std::string text = "");
// A tool use with a fresh id.
ToolUseBlock use(std::string name, json::object input);

class SessionTest : public testing::Test {
 protected:
  SessionTest();
  ~SessionTest() override;

  // Set before start().
  SessionOptions options;
  std::shared_ptr<ModelScript> script;

  void start(ModelScript::Handler handler);
  void start_without_model();
  Session& session() { return *session_; }
  // Ends the session; what it wrote can be read then. The history on disk is checked.
  void finish();

  // Takes the session's events until one of this type has come since the last call of this kind, or fails.
  template <class Event>
  Event next() {
    std::optional<Event> found;
    EXPECT_TRUE(eventually([&] {
      take_events();
      for (; seen_ < events.size(); ++seen_) {
        if (const auto* event = std::get_if<Event>(&events[seen_])) {
          found = *event;
          ++seen_;
          return true;
        }
      }
      return false;
    })) << "the event did not come";
    return found.value_or(Event{});
  }
  template <class Event>
  std::vector<Event> all() {
    take_events();
    std::vector<Event> out;
    for (const auto& each : events) {
      if (const auto* event = std::get_if<Event>(&each)) out.push_back(*event);
    }
    return out;
  }
  void take_events();
  bool becomes_idle();
  void release(const std::string& name);  // makes a file in the project's folder
  // A command that ends with `code` when release(name) was called.
  static std::string until(const std::string& name, int code = 0);
  // Processes whose command line holds this project's folder.
  int processes_of_project() const;
  std::vector<json::object> records() const;
  std::vector<json::object> records(const std::string& type) const;

  std::string root;     // a temporary folder
  std::string project;  // root/project
  std::vector<event::HostEvent> events;

 private:
  std::unique_ptr<Session> session_;
  std::size_t seen_ = 0;
};

}  // namespace errand::testing_support
