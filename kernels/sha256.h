#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's

namespace strata {

// SHA-256 of bytes that arrive in pieces. One thread at a time.
class Sha256 {
 public:
  Sha256();

  void Update(std::span<const std::byte> bytes);

  // Of all bytes so far; more may follow.
  std::array<std::byte, 32> Digest() const;

  // The same in lower-case hex.
  std::string HexDigest() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace strata
