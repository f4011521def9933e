// SPDX-License-Identifier: Apache-2.0
#include "zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "keeper.h"

namespace errand::keeper {
namespace {

constexpr std::int64_t kWakeMs = 100;       // between the SIGCONTs to keepers after the host's death
constexpr std::int64_t kOvertimeMs = 6000;  // after its grace a keeper needs 3 s at most to give up by itself
constexpr std::int64_t kRoundMs = 10;
constexpr std::int64_t kSlowRoundMs = 1000;
constexpr std::int64_t kGiveUpMs = 3000;
constexpr int kSendTries = 50;

}  // namespace

Zygote::Zygote(UniqueFd control, UniqueFd host, Shared* shared, Census* census, char* title, const char* groups)
    : control_(static_cast<UniqueFd&&>(control)),
      host_fd_(static_cast<UniqueFd&&>(host)),
      shared_(shared),
      census_(census),
      title_(title),
      host_(maker_of(control_.get())),
      tree_(census) {
  groups_.open(groups);
}

int Zygote::run() {
  if (host_ <= 0) return 1;  // nobody could command it
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGCHLD);
  signals_.reset(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return 1;
  ask_for_sender(control_.get());
  groups_.sweep();

  for (;;) {
    pollfd waits[] = {
        {signals_.get(), POLLIN, 0}, {control_.get(), POLLIN, 0}, {host_gone_ != 0 ? -1 : host_fd_.get(), POLLIN, 0}};
    if (::poll(waits, 3, wait_ms(now_ms())) < 0 && errno != EINTR) sleep_us(10000);
    if (waits[2].revents != 0) {
      host_gone_ = shared_->host_gone();
      control_.reset();
    }
    if (control_ && waits[1].revents != 0) on_control();
    if (keeper_status_ >= 0) return keeper_status_;
    if (waits[0].revents != 0) {
      signalfd_siginfo info{};
      while (::read(signals_.get(), &info, sizeof info) > 0) {
      }
      reap();
    }
    const std::int64_t now = now_ms();
    if (host_gone_ != 0) after_host(now);
    if (sweeping_ && now >= next_sweep_) sweep(now);
    if (finished()) return 0;
  }
}

void Zygote::on_control() {
  while (control_) {
    Packet packet;
    const Receive got = receive(control_.get(), packet);
    if (got == Receive::nothing) return;
    if (got == Receive::closed) return control_.reset();
    if (packet.sender != host_) continue;
    ZygoteRequest request;
    const bool known = packet.read(request) && request.version == kProtocolVersion;
    if (known && request.command == ZygoteCommand::sweep && packet.fd_count == 0) {
      groups_.sweep();
      begin_sweep();
    } else if (known && request.command == ZygoteCommand::fork_keeper && packet.fd_count == 1) {
      fork_keeper(static_cast<UniqueFd&&>(packet.fds[0]));
      if (keeper_status_ >= 0) return;
    } else {
      return control_.reset();
    }
  }
}

void Zygote::fork_keeper(UniqueFd channel) {
  // What the engine sends from now on is stamped even if it did not ask for that itself.
  ask_for_sender(channel.get());
  Ward ward;
  ward.slot = take_slot();
  shared_->set_grace(ward.slot, 0);
  const pid_t self = ::getpid();
  UniqueFd group;
  const pid_t pid = groups_.fork_into(ward.group, group);
  if (pid == 0) {
    groups_.close();
    control_.reset();
    signals_.reset();
    wards_.clear();
    free_slots_.clear();
    tree_.rest();
    ::prctl(PR_SET_NAME, "errand-keeper");
    if (title_ != nullptr) std::memcpy(title_, "keeper", 6);
    KeeperWorld world;
    world.host_pidfd = host_fd_.get();
    world.host = host_;
    world.zygote = self;
    world.shared = shared_;
    world.slot = ward.slot;
    world.census = census_;
    world.group = group.get();
    keeper_status_ = Keeper(static_cast<UniqueFd&&>(channel), world).run();
    return;
  }
  if (pid > 0) {
    ward.keeper = pid;
    if (wards_.append(ward)) return;
    // A keeper that we cannot note down would be taken for an orphan.
    ::kill(pid, SIGKILL);
  }
  KeeperEvent event;
  event.kind = KeeperEventKind::could_not_start;
  event.step = StartStep::fork;
  event.error = pid < 0 ? errno : ENOMEM;
  for (int i = 0; i < kSendTries && !send(channel.get(), event); ++i) sleep_us(1000);
  if (ward.slot != Shared::kNoSlot) free_slots_.append(ward.slot);
}

std::uint32_t Zygote::take_slot() {
  if (!free_slots_.empty()) {
    const std::uint32_t slot = free_slots_[free_slots_.size() - 1];
    free_slots_.remove(free_slots_.size() - 1);
    return slot;
  }
  return used_slots_ < Shared::kSlots ? used_slots_++ : Shared::kNoSlot;
}

Zygote::Ward* Zygote::find(pid_t keeper) {
  for (Ward& ward : wards_) {
    if (ward.keeper == keeper) return &ward;
  }
  return nullptr;
}

void Zygote::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return groups_.remove();
    Ward* ward = find(pid);
    if (ward == nullptr) continue;
    if (WIFSTOPPED(status)) {
      // By somebody: it reaps and reports nothing that way. It costs nothing to wait for, unlike a look at its state.
      ::kill(pid, SIGCONT);
      continue;
    }
    if (ward->slot != Shared::kNoSlot) free_slots_.append(ward->slot);
    const std::uint32_t group = ward->group;
    wards_.remove(static_cast<std::size_t>(ward - wards_.begin()));
    if (status != 0) groups_.kill(group);
    groups_.remove(group);
    // Its children are ours already: the kernel moves them before it tells of the death.
    if (status != 0) begin_sweep();
  }
}

void Zygote::begin_sweep() {
  sweeping_ = true;
  hopeless_ = false;
  sweep_since_ = next_sweep_ = now_ms();
}

Branch Zygote::only_orphans(void* zygote, pid_t child) {
  return static_cast<Zygote*>(zygote)->find(child) == nullptr ? Branch::take : Branch::skip;
}

void Zygote::sweep(std::int64_t now) {
  const Count count = tree_.end_round({only_orphans, this});
  if (count.live == 0) {
    sweeping_ = false;
    tree_.rest();
    return;
  }
  const bool late = now >= sweep_since_ + kGiveUpMs;
  hopeless_ = count.refused == count.live || (late && count.fresh == 0);
  next_sweep_ = now_ms() + (hopeless_ || (late && count.fresh == 0) ? kSlowRoundMs : kRoundMs);
}

void Zygote::after_host(std::int64_t now) {
  if (now >= next_wake_) {
    for (const Ward& ward : wards_) {
      ::kill(ward.keeper, SIGCONT);
      if (now < host_gone_ + shared_->grace(ward.slot) + kOvertimeMs) continue;
      ::kill(ward.keeper, SIGKILL);
      // One that is traced cannot be reaped as long as its tracer lives, which may be what it leaves.
      if (!sweeping_) begin_sweep();
    }
    next_wake_ = now + kWakeMs;
  }
}

bool Zygote::finished() const {
  if (!wards_.empty() || (control_ && host_gone_ == 0)) return false;
  return !sweeping_ || hopeless_;
}

int Zygote::wait_ms(std::int64_t now) const {
  std::int64_t until = -1;
  const auto consider = [&until](std::int64_t moment) { until = until < 0 ? moment : std::min(until, moment); };
  if (sweeping_) consider(next_sweep_);
  if (host_gone_ != 0) {
    consider(next_wake_);
  }
  return until < 0 ? -1 : static_cast<int>(std::max<std::int64_t>(0, until - now));
}

}  // namespace errand::keeper
