#include "kernels/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "kernels/status.h"

namespace strata {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

// OpenSSL refuses SHA-256 only when it is set up wrongly or memory has run out.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  STRATA_CHECK(context_ != nullptr);
  STRATA_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Update(std::span<const std::byte> bytes) {
  STRATA_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::array<std::byte, 32> Sha256::Digest() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  STRATA_CHECK(copy != nullptr);
  STRATA_CHECK(EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1);
  std::array<std::byte, 32> digest;
  STRATA_CHECK(EVP_DigestFinal_ex(copy.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                  nullptr) == 1);
  return digest;
}

std::string Sha256::HexDigest() const {
  const std::array<std::byte, 32> digest = Digest();
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace strata
