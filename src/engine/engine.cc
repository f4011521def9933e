// SPDX-License-Identifier: Apache-2.0
#include "errand/engine.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

#include "base/folder.h"
#include "engine/environment.h"
#include "engine/file_system.h"
#include "engine/keeper_path.h"
#include "engine/launcher.h"
#include "engine/process_list.h"
#include "engine/supervisor.h"
#include "engine/task_table.h"
#include "engine/task_text.h"
#include "engine/waiter.h"
#include "engine/watch.h"

namespace errand {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kManyTasks = 50;  // up to here a close is over after the grace and a second

// The host's folder; empty, and errno tells, when it has none: it was removed, or may not be read.
std::string current_folder() {
  std::string folder(256, '\0');
  while (::getcwd(folder.data(), folder.size()) == nullptr) {
    if (errno != ERANGE) return {};
    folder.resize(folder.size() * 2);
  }
  folder.resize(folder.find('\0'));
  // So the kernel names a folder that is outside the host's root.
  if (folder.starts_with('/')) return folder;
  errno = ENOENT;
  return {};
}

// The path itself when there is no folder that it could be in.
std::string absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::string folder = current_folder();
  return folder.empty() ? path : folder + "/" + path;
}

// What an earlier run of the session left in the folder.
struct OldFiles {
  std::uint64_t last_foreground = 0;  // the highest N of fg-N.output: their paths had been told
  std::uint64_t bytes = 0;
};

OldFiles old_files(const std::string& folder) {
  OldFiles old;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    struct stat status{};
    if (!name.ends_with(".output") || ::fstatat(::dirfd(directory.get()), entry->d_name, &status, 0) != 0) continue;
    old.bytes += static_cast<std::uint64_t>(status.st_size);
    std::uint64_t number = 0;
    if (!name.starts_with("fg-")) continue;
    const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), number);
    if (error == std::errc() && end != name.data() + 3) old.last_foreground = std::max(old.last_foreground, number);
  }
  return old;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(EngineConfig config, EngineListener* listener)
      : config_(std::move(config)),
        listener_(listener),
        table_(config_, notifications_),
        supervisor_(config_, table_, listener, find_keeper(config_)),
        shell_(find_shell(config_)),
        budget_(std::make_shared<OutputBudget>(real_file_system(), config_.max_session_output_bytes,
                                               config_.min_free_bytes)) {
    if (!config_.output_folder.empty()) config_.output_folder = absolute(config_.output_folder);
  }

  // A process that forked without exec holds a copy of all this, without the threads and with the locks as they were.
  bool is_copy() const { return ::getpid() != owner_; }

  LaunchResult launch(LaunchRequest request, bool foreground);
  std::optional<std::string> adopt(std::string_view foreground_id);
  void forget(std::string_view foreground_id, bool keep_file);
  bool cancel(std::string_view id, TaskTable::Cancelled* cancelled = nullptr);
  StopReport stop(std::string_view id);
  TaskSnapshot inspect(std::string_view id);
  std::vector<TaskSnapshot> list(std::string_view owner);
  std::variant<Watch, Rejected> watch(std::string_view id, std::string_view regex, WatchCallback callback);
  CloseReport close();

  TaskTable& table() { return table_; }
  NotificationQueue& notifications() { return notifications_; }

 private:
  int prepare_folder() EXCLUDES(folder_mutex_);
  std::shared_ptr<Output> make_output(const std::string& id, int folder_error) const;
  std::optional<StartError> start(const LaunchRequest& request, bool foreground, const TaskTable::Opened& opened);
  void end_launch(Serial serial);

  EngineConfig config_;
  EngineListener* const listener_;
  const pid_t owner_ = ::getpid();
  NotificationQueue notifications_;
  TaskTable table_;
  Supervisor supervisor_;
  const std::string shell_;

  // Shared with the files, which a write that hangs keeps alive.
  const std::shared_ptr<OutputBudget> budget_;

  Mutex folder_mutex_;
  bool folder_ready_ GUARDED_BY(folder_mutex_) = false;

  Mutex close_mutex_;
  bool closed_ GUARDED_BY(close_mutex_) = false;
  CloseReport close_report_ GUARDED_BY(close_mutex_);
};

int Engine::Impl::prepare_folder() {
  if (config_.output_folder.empty()) return 0;
  const MutexLock lock(folder_mutex_);
  if (folder_ready_) return 0;
  if (const int error = make_private_folder(config_.output_folder); error != 0) return error;
  folder_ready_ = true;
  const OldFiles old = old_files(config_.output_folder);
  table_.skip_foreground(old.last_foreground);
  budget_->force(old.bytes);
  return 0;
}

std::shared_ptr<Output> Engine::Impl::make_output(const std::string& id, int folder_error) const {
  std::unique_ptr<OutputFile> file;
  if (!config_.output_folder.empty()) {
    file = std::make_unique<OutputFile>(budget_, config_.output_folder + "/" + id + ".output",
                                        config_.max_output_file_bytes);
    if (folder_error != 0) file->refuse("mkdir", folder_error);
  }
  return std::make_shared<Output>(config_.max_output_chars, std::move(file));
}

LaunchResult Engine::Impl::launch(LaunchRequest request, bool foreground) {
  // Nowhere else instead: what is meant for one folder may do harm in another.
  request.cwd = request.cwd.empty() ? current_folder() : absolute(request.cwd);
  const int cwd_error = request.cwd.starts_with('/') ? 0 : errno;
  const int folder_error = prepare_folder();
  auto result = table_.open(request, foreground, [&](const std::string& id) { return make_output(id, folder_error); });
  if (auto* rejected = std::get_if<Rejected>(&result)) return std::move(*rejected);
  const auto& opened = std::get<TaskTable::Opened>(result);
  if (!foreground && listener_ != nullptr) listener_->on_task_started(opened.snapshot);

  if (table_.begin_start(opened.serial)) {
    const auto error = cwd_error != 0 ? StartError{"getcwd", "", cwd_error} : start(request, foreground, opened);
    if (error) {
      opened.output->finish();
      table_.apply(opened.serial, TaskEvent::start_failed,
                   outcome_of_failure(EndCause::could_not_start,
                                      could_not_start_text(error->step, error->object, error->error)));
      table_.output_ended(opened.serial);
      table_.tree_gone(opened.serial);
      if (OutputFile* const file = opened.output->file()) {
        while (file->work()) {  // makes it, empty, and closes it
        }
      }
    }
  }
  end_launch(opened.serial);
  return Launched{opened.snapshot->id};
}

std::optional<StartError> Engine::Impl::start(const LaunchRequest& request, bool foreground,
                                              const TaskTable::Opened& opened) {
  if (auto error = supervisor_.start()) return error;
  StartSpec spec;
  spec.cwd = request.cwd;
  spec.shell = shell_;
  spec.command = request.script.empty() ? request.command : request.script;
  spec.environment = task_environment(config_, foreground ? std::string_view() : std::string_view(opened.snapshot->id),
                                      table_.token(opened.serial));
  spec.grace = config_.stop_grace;
  SupervisedStart watch(supervisor_, opened.serial);
  auto started = start_process(supervisor_.zygotes(), spec, watch);
  if (auto* error = std::get_if<StartError>(&started)) return std::move(*error);
  auto& process = std::get<StartedProcess>(started);
  StartedTask task;
  task.serial = opened.serial;
  task.keeper = std::move(process.keeper);
  task.pipe = std::move(process.pipe);
  task.output = opened.output;
  if (request.timeout) task.timeout = std::max(*request.timeout, milliseconds(0));
  task.foreground = foreground;
  task.spec = std::move(spec);
  supervisor_.add(std::move(task));
  return std::nullopt;
}

void Engine::Impl::end_launch(Serial serial) {
  if (!table_.end_launch(serial)) return;
  if (supervisor_.running()) {
    supervisor_.announce(serial);
  } else {
    supervisor_.announce_here(serial);
  }
}

std::optional<std::string> Engine::Impl::adopt(std::string_view foreground_id) {
  auto adoption = table_.adopt(foreground_id);
  if (!adoption) return std::nullopt;
  if (!adoption->snapshot) return adoption->id;
  if (OutputFile* const file = adoption->output->file()) {
    file->rename_now(config_.output_folder + "/" + adoption->id + ".output");
  }
  if (listener_ != nullptr) listener_->on_task_started(table_.get(adoption->id));
  end_launch(adoption->serial);
  return adoption->id;
}

void Engine::Impl::forget(std::string_view foreground_id, bool keep_file) {
  const std::shared_ptr<Output> output = table_.forget(foreground_id);
  if (output && output->file() != nullptr && !keep_file) output->file()->remove();
}

bool Engine::Impl::cancel(std::string_view id, TaskTable::Cancelled* result) {
  const TaskTable::Cancelled cancelled = table_.cancel(id, !supervisor_.on_own_thread());
  if (cancelled.serial != 0 && supervisor_.running()) {
    if (cancelled.moved) supervisor_.announce(cancelled.serial);
    if (cancelled.post_stop) supervisor_.stop_tree(cancelled.serial);
  }
  if (result != nullptr) *result = cancelled;
  return cancelled.moved;
}

StopReport Engine::Impl::stop(std::string_view id) {
  TaskTable::Cancelled cancelled;
  cancel(id, &cancelled);
  if (cancelled.serial == 0) return {};
  StopReport report = table_.wait_stopped(cancelled.serial, cancelled, config_.stop_grace + seconds(5));
  const auto tree = table_.tree(id);
  if (report.left.empty() && tree && tree->keeper != 0) {
    // No answer within the time: what can be seen is what is left.
    report.left = left_processes(tree->keeper);
    if (!report.left.empty() && report.outcome == StopReport::Outcome::already_finished) {
      report.outcome = StopReport::Outcome::survivors_ended;
    }
  }
  return report;
}

TaskSnapshot Engine::Impl::inspect(std::string_view id) {
  const auto tree = table_.tree(id);
  if (!tree) return nullptr;
  if (tree->keeper == 0) return table_.get(id);
  const Sample sample = Sampler::look_at({tree->serial, tree->keeper});
  std::vector<ProcessInfo> processes = living_descendants(tree->keeper);
  const auto now = table_.tree(id);
  const bool same = now && now->keeper == tree->keeper;  // else what was seen may be others'
  if (same) table_.add_usage(tree->serial, sample.cpu_seconds, sample.rss_bytes);
  TaskSnapshot task = table_.get(id);
  if (!same || !task) return task;
  const bool other_survivors = task->status != TaskStatus::running && task->processes.size() != processes.size();
  supervisor_.somebody_looks(other_survivors);
  auto record = std::make_shared<TaskRecord>(*task);
  record->processes = std::move(processes);
  return record;
}

std::vector<TaskSnapshot> Engine::Impl::list(std::string_view owner) {
  supervisor_.somebody_looks();
  return table_.list(owner);
}

std::variant<Watch, Rejected> Engine::Impl::watch(std::string_view id, std::string_view regex, WatchCallback callback) {
  const TaskSnapshot task = table_.get(id);
  std::shared_ptr<Output> output = table_.output(id);
  if (!task) return Rejected{std::string(id) + ": no such task"};
  if (task->kind != TaskKind::shell || !output)
    return Rejected{std::string(id) + " prints no lines that can be watched"};
  auto pattern = LinePattern::compile(regex);
  if (auto* fault = std::get_if<std::string>(&pattern)) return Rejected{std::move(*fault)};
  return watch_output(std::move(output), std::get<LinePattern>(std::move(pattern)), std::move(callback));
}

CloseReport Engine::Impl::close() {
  const MutexLock lock(close_mutex_);  // a second close waits for the first
  if (std::exchange(closed_, true)) return close_report_;
  const std::vector<Serial> serials = table_.close();
  const bool supervised = supervisor_.running();
  for (const Serial serial : serials) {
    if (!supervised) break;
    supervisor_.announce(serial);
    supervisor_.stop_tree(serial);
  }
  const bool many = serials.size() > kManyTasks;
  close_report_.left =
      table_.wait_closed(std::max<milliseconds>(config_.stop_grace + seconds(5), many ? seconds(30) : seconds(0)));
  supervisor_.shut_down(2000);
  return close_report_;
}

// --- the public face ---

Engine::Engine(EngineConfig config, EngineListener* listener)
    : impl_(std::make_unique<Impl>(std::move(config), listener)) {}

Engine::~Engine() {
  if (impl_->is_copy()) {
    // Its threads are not here and its locks may be held for ever: the copy is left as it is.
    [[maybe_unused]] Impl* const left = impl_.release();
    return;
  }
  impl_->close();
}

LaunchResult Engine::launch(LaunchRequest request) {
  if (impl_->is_copy()) return Rejected{"this process is a copy of the engine's"};
  return impl_->launch(std::move(request), false);
}

LaunchResult Engine::launch_foreground(LaunchRequest request) {
  if (impl_->is_copy()) return Rejected{"this process is a copy of the engine's"};
  return impl_->launch(std::move(request), true);
}

std::optional<std::string> Engine::adopt(std::string_view foreground_id) {
  return impl_->is_copy() ? std::nullopt : impl_->adopt(foreground_id);
}

void Engine::forget(std::string_view foreground_id, bool keep_file) {
  if (!impl_->is_copy()) impl_->forget(foreground_id, keep_file);
}

TaskSnapshot Engine::get(std::string_view id) const { return impl_->is_copy() ? nullptr : impl_->table().get(id); }

TaskSnapshot Engine::inspect(std::string_view id) const { return impl_->is_copy() ? nullptr : impl_->inspect(id); }

std::vector<TaskSnapshot> Engine::list(std::string_view owner) const {
  return impl_->is_copy() ? std::vector<TaskSnapshot>() : impl_->list(owner);
}

int Engine::running_count() const { return impl_->is_copy() ? 0 : impl_->table().running_count(); }

bool Engine::cancel(std::string_view id) { return !impl_->is_copy() && impl_->cancel(id); }

StopReport Engine::stop(std::string_view id) { return impl_->is_copy() ? StopReport() : impl_->stop(id); }

std::optional<OutputTail> Engine::tail(std::string_view id, std::size_t lines) const {
  if (impl_->is_copy()) return std::nullopt;
  const std::shared_ptr<Output> output = impl_->table().output(id);
  if (!output) return std::nullopt;
  return output->tail(lines);
}

std::optional<OutputRead> Engine::read(std::string_view id, std::uint64_t cursor) const {
  if (impl_->is_copy()) return std::nullopt;
  const std::shared_ptr<Output> output = impl_->table().output(id);
  if (!output) return std::nullopt;
  return output->read(cursor);
}

TaskSnapshot Engine::wait_end(std::string_view id, milliseconds timeout, std::stop_token stop) const {
  return impl_->is_copy() ? nullptr : impl_->table().wait_end(id, timeout, stop);
}

WaitResult Engine::wait(const WaitRequest& request, std::stop_token stop) const {
  if (!impl_->is_copy()) return wait_for_tasks(impl_->table(), request, stop);
  WaitResult refused;
  refused.fault = "this process is a copy of the engine's";
  return refused;
}

std::variant<Watch, Rejected> Engine::watch(std::string_view id, std::string_view regex, WatchCallback callback) const {
  if (impl_->is_copy()) return Rejected{"this process is a copy of the engine's"};
  return impl_->watch(id, regex, std::move(callback));
}

NotificationQueue& Engine::notifications() { return impl_->notifications(); }

CloseReport Engine::close() { return impl_->is_copy() ? CloseReport() : impl_->close(); }

}  // namespace errand
