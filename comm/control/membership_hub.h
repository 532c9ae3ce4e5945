#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/control/member.h"

namespace strata {

// Rank 0: the one who decides.
class MembershipHub final : public Member {
 public:
  MembershipHub(AsioLoop& loop, std::vector<std::unique_ptr<ControlConnection>> connections,
                Options options);

  void Exchange(std::string mine, Shares done) override;

 private:
  struct Spoke {
    std::unique_ptr<ControlConnection> connection;
    absl::Time heard;
    bool goodbye = false;
    bool gone = false;  // closed, or given up
    bool seen = false;  // the verdict
    bool shared = false;
    std::string share;
  };

  void OnMessage(int rank, ControlKind kind, absl::string_view message);
  void OnClosed(int rank, const absl::Status& why);
  void Tick() override;
  void SayGoodbye() override;
  void SayFailed(const absl::Status& why) override;

  void Declare(absl::Status verdict);
  void ShareIfComplete();
  void EndIfAllKnow();
  void End();
  void FinishIfAllGone();
  void SendAll(ControlKind kind, absl::string_view message = {});

  std::vector<Spoke> spokes_;  // by rank; the first is this rank itself
  Shares shares_;
  bool end_sent_ = false;
};

}  // namespace strata
