// SPDX-License-Identifier: Apache-2.0
//
// Random names that are unique for all practical purposes.
#pragma once

#include <random>
#include <string>

namespace duetime::client {

// Makes random names: 128 bits from the operating system or the processor, as 32 hexadecimal
// digits. Fit for a request_id: two are equal once in 10^38.
//
// Cost: well below a microsecond each. Thread safety: one per thread.
class RandomId {
 public:
  std::string Next();

 private:
  std::random_device source_;
};

}  // namespace duetime::client
