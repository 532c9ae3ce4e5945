#include "comm/control/member.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {

Member::Member(AsioLoop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      interval_(std::clamp(options_.heartbeat_timeout / 10, absl::Milliseconds(10),
                           absl::Milliseconds(500))),
      awake_since_(loop.Now()),
      last_tick_(loop.Now()) {}

void Member::StartTicks() { ScheduleTick(); }

void Member::ScheduleTick() {
  Later(interval_, [this] {
    const absl::Time now = loop_.Now();
    // Heartbeats that came while this process stood still have not been read yet.
    if (now - last_tick_ > options_.heartbeat_timeout / 2) awake_since_ = now;
    last_tick_ = now;
    Tick();
    if (!ended_) ScheduleTick();
  });
}

bool Member::Silent(absl::Time heard) const {
  return loop_.Now() - std::max(heard, awake_since_) > options_.heartbeat_timeout;
}

absl::Status Member::SilenceOf(int rank) const {
  return LossOf(
      rank, absl::StrCat("no heartbeat for ", absl::FormatDuration(options_.heartbeat_timeout)));
}

absl::Status Member::LossOf(int rank, absl::string_view why) const {
  return absl::UnavailableError(absl::StrCat(name(rank), " is lost: ", why));
}

absl::Status Member::FailureOf(int rank, const absl::Status& why) const {
  const absl::StatusCode code = IsCallersError(why) ? why.code() : absl::StatusCode::kUnavailable;
  return absl::Status(code, absl::StrCat(name(rank), " failed: ", std::string(why.message())));
}

void Member::Decide(absl::Status verdict) {
  if (!verdict_.ok()) return;
  verdict_ = std::move(verdict);
  Later(absl::ZeroDuration(), [this] {
    if (!left_) std::move(options_.on_verdict)(verdict_);
  });
}

void Member::Leave(absl::Status why, Done done) {
  STRATA_CHECK(loop_.InLoop() && !left_);
  left_ = true;
  leaving_ = std::move(done);
  if (why.ok()) {
    said_goodbye_ = true;
    SayGoodbye();
  } else if (verdict_.ok()) {
    own_failure_ = FailureOf(options_.self, why);
    SayFailed(why);
  }
  Later(options_.heartbeat_timeout, [this] { FinishLeave(); });
  if (ended_) Later(absl::ZeroDuration(), [this] { FinishLeave(); });
}

void Member::SetEnded() {
  ended_ = true;
  if (leaving_) Later(absl::ZeroDuration(), [this] { FinishLeave(); });
}

void Member::FinishLeave() {
  if (!leaving_) return;
  const bool own = !own_failure_.ok() && own_failure_ == verdict_;
  std::exchange(leaving_, nullptr)(own ? absl::OkStatus() : verdict_);
}

void Member::Later(absl::Duration delay, Task task) {
  loop_.PostAt(loop_.Now() + delay, [alive = alive_, task = std::move(task)]() mutable {
    if (*alive) std::move(task)();
  });
}

}  // namespace strata
