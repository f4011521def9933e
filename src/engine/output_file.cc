// SPDX-License-Identifier: Apache-2.0
#include "engine/output_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "engine/task_text.h"

namespace errand {
namespace {

constexpr std::size_t kPiece = 64 * 1024;  // a write call; small, so that a slow disk's progress can be seen

std::string call_error(std::string_view call, long error) {
  return std::string(call) + ": " + errno_text(static_cast<int>(-error));
}

}  // namespace

OutputFile::OutputFile(std::shared_ptr<OutputBudget> budget, std::string path, std::uint64_t max_bytes)
    : budget_(std::move(budget)),
      system_(budget_->system()),
      head_limit_(max_bytes - kRing - kMarkerSpace),
      path_(std::move(path)) {}

void OutputFile::create() {
  const MutexLock name_lock(name_mutex_);
  std::string path;
  {
    const MutexLock lock(mutex_);
    if (made_) return;
    path = path_;
  }
  const int fd = system_.create(path);
  const FileIdentity identity = fd >= 0 ? system_.identity(fd) : FileIdentity{};
  const MutexLock lock(mutex_);
  made_ = true;
  identity_ = identity;
  if (fd >= 0) {
    fd_.reset(fd);
  } else {
    stop(call_error("open", fd));
  }
}

void OutputFile::refuse(std::string_view call, int error) {
  const MutexLock lock(mutex_);
  made_ = true;
  stop(call_error(call, error));
}

OutputFile::Appended OutputFile::append(std::string_view bytes, std::size_t chunk) {
  const MutexLock lock(mutex_);
  if (!stopped_ && !bytes.empty()) {
    const std::uint64_t wanted = std::min<std::uint64_t>(head_limit_ - accepted_, bytes.size());
    const std::uint64_t granted = budget_->take(wanted);
    const std::string_view head = bytes.substr(0, static_cast<std::size_t>(granted));
    if (pending_.empty()) last_progress_ms_ = monotonic_ms();  // what is taken now has not been waiting before
    pending_.append(head);
    accepted_ += granted;
    charged_ += granted;
    bytes.remove_prefix(head.size());
    if (granted < wanted) stop(budget_->limit_text());
    if (accepted_ == head_limit_) stopped_ = true;
  }
  if (!bytes.empty()) leave_out(bytes);
  const bool room = pending_.size() + chunk <= kBuffer;
  awaited_ = awaited_ || !room;
  return {room, !pending_.empty()};
}

void OutputFile::leave_out(std::string_view bytes) {
  left_out_ += bytes.size();
  ring_.append(bytes);
}

void OutputFile::discharge(std::uint64_t bytes) {
  const std::uint64_t charged = std::min(bytes, charged_);
  budget_->give_back(charged);
  charged_ -= charged;
}

void OutputFile::leave_out_accepted(std::string_view bytes) {
  discharge(bytes.size());
  leave_out(bytes);
}

void OutputFile::stop(std::string why) {
  if (!error_) error_ = std::move(why);
  stopped_ = true;
}

void OutputFile::give_up_on_writer(std::string_view why) {
  const MutexLock lock(mutex_);
  if (pending_.empty()) return;
  stop(std::string(why));
  leave_out_accepted(pending_);
  pending_ = {};
}

void OutputFile::finish() {
  const MutexLock lock(mutex_);
  finished_ = true;
}

void OutputFile::rename(std::string path) {
  const MutexLock lock(mutex_);
  rename_to_ = std::move(path);
}

bool OutputFile::has_work() const {
  return !made_ || rename_to_.has_value() || !pending_.empty() || (finished_ && !closed_);
}

bool OutputFile::settled() const {
  const MutexLock lock(mutex_);
  // Closing a file that nothing was left out of is work, but changes nothing in it.
  const bool settled = !in_flight_ && !rename_to_ && pending_.empty() && (!finished_ || closed_ || left_out_ == 0);
  awaited_ = awaited_ || !settled;
  return settled;
}

std::int64_t OutputFile::last_progress_ms() const {
  const MutexLock lock(mutex_);
  return last_progress_ms_;
}

bool OutputFile::work(std::string& spare) {
  bool make = false;
  std::string batch;
  std::optional<std::string> rename_to;
  {
    const MutexLock lock(mutex_);
    if (!has_work()) return false;
    make = !made_;
    in_flight_ = rename_to_ || !pending_.empty() || left_out_ > 0;
    if (make) {
      // The rest is the next piece.
    } else if (rename_to_) {
      rename_to = std::exchange(rename_to_, std::nullopt);
    } else {
      batch = std::exchange(pending_, std::move(spare));
    }
  }
  if (make) {
    create();
  } else if (rename_to) {
    rename_now(*rename_to);
  } else if (!batch.empty()) {
    write_batch(batch);
  } else {
    write_end();
  }
  const MutexLock lock(mutex_);
  in_flight_ = false;
  // A file that waits for nothing holds no memory.
  std::string freed = pending_.empty() ? std::exchange(pending_, {}) : std::string();
  spare = std::move(freed.capacity() > batch.capacity() ? freed : batch);
  spare.clear();
  return has_work();
}

bool OutputFile::awaited() {
  const MutexLock lock(mutex_);
  return std::exchange(awaited_, false);
}

std::size_t OutputFile::write_all(int fd, std::string_view bytes, long& error) {
  std::size_t done = 0;
  error = 0;
  while (done < bytes.size()) {
    const long written = system_.write(fd, bytes.substr(done, kPiece));
    if (written == -EINTR) continue;
    if (written <= 0) {
      error = written < 0 ? written : -EIO;
      break;
    }
    done += static_cast<std::size_t>(written);
    const MutexLock lock(mutex_);
    last_progress_ms_ = monotonic_ms();
  }
  return done;
}

void OutputFile::write_batch(std::string_view batch) {
  int fd = -1;
  {
    const MutexLock lock(mutex_);
    fd = fd_.get();  // closed by nobody but write_end(), on this thread
  }
  long error = -EBADF;
  std::size_t written = 0;
  bool removed = false;
  if (fd >= 0) {
    const auto allowed = static_cast<std::size_t>(budget_->writable(fd, batch.size()));
    written = write_all(fd, batch.substr(0, allowed), error);
    removed = error == 0 && system_.links(fd) == 0;
  }
  const MutexLock lock(mutex_);
  written_ += written;
  if (written > 0) ends_with_newline_ = batch[written - 1] == '\n';
  if (written == batch.size() && !removed) return;
  if (removed) {
    removed_ = true;
    stop("write: file removed");
  } else {
    stop(error != 0 ? call_error("write", error) : budget_->floor_text());
  }
  // The bytes that wait came after those that could not be written: the ring gets them in this order. What was left out
  // while this write hung is newer than both.
  const std::string_view rest = batch.substr(written);
  if (left_out_ > 0) {
    discharge(rest.size());
    left_out_ += rest.size();
  } else {
    leave_out_accepted(rest);
  }
  leave_out_accepted(pending_);
  pending_ = {};
}

void OutputFile::write_end() {
  UniqueFd fd;
  std::string end;
  std::size_t marker = 0;  // bytes of `end` that are no output
  {
    const MutexLock lock(mutex_);
    fd = std::move(fd_);
    if (left_out_ > ring_.size()) {
      if (!ends_with_newline_) end += '\n';
      end += "[errand: " + std::to_string(left_out_ - ring_.size()) + " bytes left out here]\n";
    }
    marker = end.size();
    end += ring_.contents();
    ring_.clear();
  }
  std::size_t written = 0;
  long error = 0;
  const bool removed = fd && system_.links(fd.get()) == 0;
  const bool allowed = !end.empty() && fd && !removed && budget_->writable(fd.get(), end.size(), true) == end.size();
  if (allowed) written = write_all(fd.get(), end, error);
  const bool floor = fd && !removed && !allowed && !end.empty();
  fd.reset();
  const MutexLock lock(mutex_);
  closed_ = true;
  if (removed) {
    removed_ = true;
    stop("write: file removed");
  }
  if (floor) stop(budget_->floor_text());
  if (error != 0) stop(call_error("write", error));
  budget_->force(written);
  charged_ += written;
  marker_ = std::min(marker, written);
  end_ = written - marker_;
  left_out_ -= end_;
}

void OutputFile::rename_now(const std::string& to) {
  const MutexLock name_lock(name_mutex_);
  std::string from;
  {
    const MutexLock lock(mutex_);
    from = path_;
    if (!made_) {
      path_ = to;
      return;
    }
  }
  const int result = system_.rename(from, to);
  const MutexLock lock(mutex_);
  if (result == 0) {
    path_ = to;
  } else if (!error_) {
    error_ = "rename: " + errno_text(-result);
  }
}

std::string OutputFile::path() const {
  const MutexLock lock(mutex_);
  return path_;
}

std::uint64_t OutputFile::unwritten_bytes() const {
  const MutexLock lock(mutex_);
  return left_out_;
}

std::optional<std::string> OutputFile::error() const {
  const MutexLock lock(mutex_);
  return error_;
}

OutputFile::Layout OutputFile::layout() const {
  const MutexLock lock(mutex_);
  return {removed_ ? std::string() : path_, written_, marker_, end_, identity_};
}

void OutputFile::remove() {
  const MutexLock name_lock(name_mutex_);
  std::string path;
  {
    const MutexLock lock(mutex_);
    path = path_;
    made_ = true;
    discharge(charged_);
  }
  system_.remove(path);
}

}  // namespace errand
