#include "comm/tcp/handshake.h"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::system::error_code;

constexpr char kMagic[] = "strata/1";
constexpr size_t kMagicBytes = 8, kLaneBytes = 24, kRankBytes = 4;
constexpr size_t kHelloBytes = kMagicBytes + kLaneBytes + 2 * kRankBytes + sizeof(Nonce);
constexpr size_t kVerdictBytes = 1 + sizeof(Mac);

enum class Verdict : char { kWelcome = 'w', kToken = 't', kLane = 'l', kRank = 'r' };

void AppendRank(std::string& to, Rank rank) {
  for (int shift = 0; shift < 32; shift += 8) {
    to.push_back(static_cast<char>(static_cast<uint32_t>(Index(rank)) >> shift & 0xff));
  }
}

Rank RankAt(const std::string& from, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < kRankBytes; ++i) {
    value |= uint32_t{static_cast<unsigned char>(from[offset + i])} << (8 * i);
  }
  return Rank{static_cast<int32_t>(value)};
}

template <typename Array>
std::string AsString(const Array& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string PaddedLane(const std::string& lane) {
  std::string padded = lane;
  padded.resize(kLaneBytes, '\0');
  return padded;
}

Mac MacAt(const std::string& from, size_t offset) {
  Mac mac;
  std::memcpy(mac.data(), from.data() + offset, mac.size());
  return mac;
}

absl::Status Meaning(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWelcome:
      return absl::OkStatus();
    case Verdict::kToken:
      return absl::FailedPreconditionError(
          "the job tokens of the two ranks differ; give all ranks of a job the same token");
    case Verdict::kLane:
      return absl::FailedPreconditionError("the connection is for another lane");
    case Verdict::kRank:
      return absl::FailedPreconditionError("the address belongs to another rank");
  }
  return absl::DataLossError("it does not speak this protocol");
}

}  // namespace

Handshake::Handshake(AsioLoop& loop, Socket socket, const HandshakeIdentity& identity,
                     Finished finished)
    : loop_(loop),
      socket_(std::move(socket)),
      identity_(identity),
      finished_(std::move(finished)) {}

void Handshake::Arm(absl::Duration timeout) {
  timer_ = loop_.PostAt(loop_.Now() + timeout, [self = shared_from_this()] {
    self->End(absl::DeadlineExceededError("no handshake"));
  });
}

void Handshake::Read(size_t bytes, Next next) {
  in_.resize(bytes);
  boost::asio::async_read(
      socket_, boost::asio::buffer(in_),
      [self = shared_from_this(), next](const error_code& error, size_t) {
        if (!self->finished_) return;
        if (error) return self->End(absl::UnavailableError("connection closed in the handshake"));
        (*self.*next)();
      });
}

void Handshake::Write(Next next) {
  boost::asio::async_write(
      socket_, boost::asio::buffer(out_),
      [self = shared_from_this(), next](const error_code& error, size_t) {
        if (!self->finished_) return;
        if (error) return self->End(absl::UnavailableError("connection reset in the handshake"));
        (*self.*next)();
      });
}

Mac Handshake::Proof(const char* role) const {
  return Hmac(identity_.token, absl::StrCat(role, "\n", hello_, challenge_));
}

// The connector's side

void Handshake::Connect(Rank peer, absl::Duration timeout) {
  peer_ = peer;
  Arm(timeout);
  hello_ = absl::StrCat(kMagic, PaddedLane(identity_.lane));
  AppendRank(hello_, identity_.self);
  AppendRank(hello_, peer);
  hello_ += AsString(MakeNonce());
  out_ = hello_;
  Write(&Handshake::ReadChallenge);
}

void Handshake::ReadChallenge() { Read(sizeof(Nonce), &Handshake::WriteProof); }

void Handshake::WriteProof() {
  challenge_ = in_;
  out_ = AsString(Proof("connector"));
  Write(&Handshake::ReadVerdict);
}

void Handshake::ReadVerdict() { Read(kVerdictBytes, &Handshake::CheckVerdict); }

void Handshake::CheckVerdict() {
  absl::Status status = Meaning(static_cast<Verdict>(in_[0]));
  if (status.ok() && !SameMac(MacAt(in_, 1), Proof("acceptor"))) status = Meaning(Verdict::kToken);
  End(status);
}

// The acceptor's side

void Handshake::Accept(absl::Duration timeout) {
  Arm(timeout);
  Read(kHelloBytes, &Handshake::CheckHello);
}

void Handshake::CheckHello() {
  if (in_.compare(0, kMagicBytes, kMagic) != 0) {
    return End(absl::DataLossError("it does not speak this protocol"));
  }
  hello_ = in_;
  challenge_ = AsString(MakeNonce());
  out_ = challenge_;
  Write(&Handshake::ReadProof);
}

void Handshake::ReadProof() { Read(sizeof(Mac), &Handshake::CheckProof); }

void Handshake::CheckProof() {
  peer_ = RankAt(hello_, kMagicBytes + kLaneBytes);
  const Rank wanted = RankAt(hello_, kMagicBytes + kLaneBytes + kRankBytes);
  Verdict verdict = Verdict::kWelcome;
  if (!SameMac(MacAt(in_, 0), Proof("connector"))) {
    verdict = Verdict::kToken;
  } else if (hello_.compare(kMagicBytes, kLaneBytes, PaddedLane(identity_.lane)) != 0) {
    verdict = Verdict::kLane;
  } else if (wanted != identity_.self || Index(peer_) <= Index(identity_.self)) {
    verdict = Verdict::kRank;
  }
  verdict_ = Meaning(verdict);
  out_ = std::string(1, static_cast<char>(verdict));
  out_ +=
      verdict == Verdict::kWelcome ? AsString(Proof("acceptor")) : std::string(sizeof(Mac), '\0');
  Write(&Handshake::Accepted);
}

void Handshake::Accepted() { End(verdict_); }

void Handshake::End(const absl::Status& status) {
  if (!finished_) return;
  loop_.Cancel(timer_);
  if (!status.ok()) {
    error_code ignored;
    socket_.close(ignored);
  }
  Finished finished = std::exchange(finished_, nullptr);
  std::move(finished)(status, std::move(socket_), peer_);
}

}  // namespace strata
