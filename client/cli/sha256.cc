// SPDX-License-Identifier: Apache-2.0
#include "client/cli/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace duetime::cli {

class Sha256Sum::Impl {
 public:
  Impl() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  EVP_MD_CTX* context() { return context_.get(); }

 private:
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

Sha256Sum::Sha256Sum() : impl_(std::make_unique<Impl>()) {}
Sha256Sum::~Sha256Sum() = default;

void Sha256Sum::Add(absl::string_view bytes) {
  EVP_DigestUpdate(impl_->context(), bytes.data(), bytes.size());
}

std::string Sha256Sum::Hex() {
  std::string sum(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  EVP_DigestFinal_ex(impl_->context(), reinterpret_cast<unsigned char*>(sum.data()), &size);
  sum.resize(size);
  return absl::BytesToHexString(sum);
}

std::string Sha256(absl::string_view text) {
  Sha256Sum sum;
  sum.Add(text);
  return sum.Hex();
}

}  // namespace duetime::cli
