// SPDX-License-Identifier: Apache-2.0
//
// Sha256Sum: the SHA-256 of bytes that come in parts.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace duetime::cli {

class Sha256Sum {
 public:
  Sha256Sum();
  ~Sha256Sum();
  Sha256Sum(const Sha256Sum&) = delete;
  Sha256Sum& operator=(const Sha256Sum&) = delete;

  void Add(absl::string_view bytes);
  // 64 hex digits. REQUIRES: called once, last.
  std::string Hex();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The sum of one text.
std::string Sha256(absl::string_view text);

}  // namespace duetime::cli
