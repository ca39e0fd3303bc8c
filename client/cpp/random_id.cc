// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/random_id.h"

#include "absl/strings/str_cat.h"

namespace duetime::client {

std::string RandomId::Next() {
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(source_(), absl::kZeroPad8));
  return id;
}

}  // namespace duetime::client
