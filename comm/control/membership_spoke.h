#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/control/member.h"

namespace strata {

// Any rank but 0.
class MembershipSpoke final : public Member {
 public:
  MembershipSpoke(AsioLoop& loop, std::unique_ptr<ControlConnection> hub, Options options);

  void Exchange(std::string mine, Shares done) override;

 private:
  void OnMessage(ControlKind kind, absl::string_view message);
  void OnShares(absl::string_view message);
  void OnVerdict(absl::Status verdict);
  void HubLost(absl::Status verdict);
  void Tick() override;
  void SayGoodbye() override;
  void SayFailed(const absl::Status& why) override;

  std::unique_ptr<ControlConnection> hub_;
  absl::Time heard_;
  bool hub_goodbye_ = false;
  Shares shares_;
};

}  // namespace strata
