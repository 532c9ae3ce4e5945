#include "kernels/sha256.h"

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

std::span<const std::byte> Bytes(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Vectors of FIPS 180-4.
TEST(Sha256, KnownDigests) {
  Sha256 sha;
  EXPECT_EQ(sha.HexDigest(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  sha.Update(Bytes("abc"));
  EXPECT_EQ(sha.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha.Digest()[0], std::byte{0xba});
  Sha256 longer;
  longer.Update(Bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"));
  EXPECT_EQ(longer.HexDigest(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, AMillionTimesAInPiecesOfAnySize) {
  const std::string text(1000000, 'a');
  for (size_t piece : {1000000u, 65537u, 997u}) {
    Sha256 sha;
    absl::string_view rest = text;
    while (!rest.empty()) {
      sha.Update(Bytes(rest.substr(0, piece)));
      rest.remove_prefix(std::min(piece, rest.size()));
    }
    EXPECT_EQ(sha.HexDigest(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(Sha256, GoesOnAfterADigest) {
  Sha256 sha;
  sha.Update(Bytes("a"));
  const std::string first = sha.HexDigest();
  EXPECT_EQ(sha.HexDigest(), first);
  sha.Update(Bytes("bc"));
  EXPECT_EQ(sha.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace strata
