#include "comm/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "kernels/status.h"

namespace strata {

Nonce MakeNonce() {
  Nonce nonce;
  STRATA_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size()) == 1);
  return nonce;
}

Mac Hmac(absl::string_view token, absl::string_view message) {
  Mac mac;
  unsigned int bytes = mac.size();
  STRATA_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                    reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                    reinterpret_cast<unsigned char*>(mac.data()), &bytes) != nullptr);
  STRATA_CHECK(bytes == mac.size());
  return mac;
}

bool SameMac(const Mac& a, const Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace strata
