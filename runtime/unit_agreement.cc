#include "runtime/unit_agreement.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/sha256.h"
#include "kernels/status.h"

namespace strata {
namespace {

using Digest = std::array<std::byte, 32>;

// What a rank tells first.
struct Summary {
  int64_t units;
  Digest digest;
};

Digest DigestOf(const UnitSpec& spec) {
  std::string text = absl::StrCat(spec.name.size(), ":", spec.name);
  for (const ParameterSpec& parameter : spec.parameters) {
    absl::StrAppend(&text, ";", parameter.name.size(), ":", parameter.name, ",", parameter.elements,
                    ",", parameter.group);
  }
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(text)));
  return sha.Digest();
}

}  // namespace

UnitAgreement::UnitAgreement(EngineCore& core)
    : core_(core),
      digests_(core, sizeof(Summary)),
      units_(core, static_cast<int64_t>(core.units.size() * sizeof(Digest))) {}

absl::Status UnitAgreement::Allocate(ShardMemory& memory) {
  STRATA_RETURN_IF_ERROR(digests_.Allocate(memory));
  return units_.Allocate(memory);
}

void UnitAgreement::Start(uint32_t first_number, uint32_t second_number,
                          absl::AnyInvocable<void() &&> agreed) {
  agreed_ = std::move(agreed);
  Sha256 all;
  for (size_t u = 0; u < core_.units.size(); ++u) {
    const Digest digest = DigestOf(core_.units[u].spec);
    all.Update(digest);
    std::memcpy(units_.own().data() + u * sizeof(Digest), digest.data(), sizeof(Digest));
  }
  const Summary summary{static_cast<int64_t>(core_.units.size()), all.Digest()};
  std::memcpy(digests_.own().data(), &summary, sizeof(summary));
  digests_.Start(first_number, "agree on units",
                 [this, second_number] { OnDigests(second_number); });
}

void UnitAgreement::OnDigests(uint32_t second_number) {
  bool same = true;
  for (int rank = 0; rank < core_.topology.size(); ++rank) {
    Summary theirs;
    std::memcpy(&theirs, digests_.Of(Rank{rank}).data(), sizeof(theirs));
    const auto units = static_cast<int64_t>(core_.units.size());
    if (theirs.units != units) {
      return core_.fail(absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " declared ", theirs.units, " units, rank ",
                       Index(core_.self), " declared ", units, ": all must declare the same")));
    }
    const std::span<const std::byte> mine = digests_.Of(core_.self);
    same = same && std::memcmp(mine.data(), &theirs, sizeof(theirs)) == 0;
  }
  if (same) return std::move(agreed_)();
  units_.Start(second_number, "compare units", [this] { OnUnits(); });
}

void UnitAgreement::OnUnits() {
  for (size_t u = 0; u < core_.units.size(); ++u) {
    for (int rank = 0; rank < core_.topology.size(); ++rank) {
      const size_t offset = u * sizeof(Digest);
      if (std::memcmp(units_.Of(Rank{0}).data() + offset, units_.Of(Rank{rank}).data() + offset,
                      sizeof(Digest)) == 0) {
        continue;
      }
      return core_.fail(absl::FailedPreconditionError(absl::StrCat(
          "unit ", u, " (here \"", core_.units[u].spec.name, "\") is declared otherwise",
          " on rank ", rank, " than on rank 0: names, sizes and groups must be equal")));
    }
  }
  core_.fail(absl::InternalError("digests of units differ, but those of each unit are equal"));
}

}  // namespace strata
