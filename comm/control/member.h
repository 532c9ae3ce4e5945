#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/control/membership.h"

namespace strata {

// What hub and spokes have in common: the clock, the verdict and the way out.
class Member : public Membership {
 public:
  ~Member() override { *alive_ = false; }

  void Leave(absl::Status why, Done done) override;

 protected:
  Member(AsioLoop& loop, Options options);

  const std::string& name(int rank) const { return options_.names[rank]; }
  int size() const { return static_cast<int>(options_.names.size()); }
  const absl::Status& verdict() const { return verdict_; }
  bool ended() const { return ended_; }
  bool said_goodbye() const { return said_goodbye_; }

  // Calls Tick ten times per heartbeat_timeout, or more often.
  void StartTicks();
  virtual void Tick() = 0;
  // Whether `heard` is too long ago. Never right after this process itself stood still.
  bool Silent(absl::Time heard) const;
  absl::Status SilenceOf(int rank) const;
  absl::Status LossOf(int rank, absl::string_view why) const;
  // What the caller can change stays such an error for all, so that every rank ends alike.
  absl::Status FailureOf(int rank, const absl::Status& why) const;

  // The first verdict counts.
  void Decide(absl::Status verdict);

  // Tells the others that this rank has finished, or why it fails.
  virtual void SayGoodbye() = 0;
  virtual void SayFailed(const absl::Status& why) = 0;

  // Nobody is to be waited for any more.
  void SetEnded();

  // Runs `task` unless this object is gone by then.
  void Later(absl::Duration delay, Task task);

  AsioLoop& loop_;

 private:
  void ScheduleTick();
  void FinishLeave();

  Options options_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const absl::Duration interval_;
  absl::Time awake_since_;  // since then ticks have come in time
  absl::Time last_tick_;
  absl::Status verdict_;
  absl::Status own_failure_;
  bool said_goodbye_ = false;
  bool ended_ = false;
  bool left_ = false;  // Leave was called
  Done leaving_;
};

}  // namespace strata
