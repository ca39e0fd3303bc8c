// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_count.h"

#include "absl/strings/str_cat.h"

#include "server/base/error.h"

namespace duetime::rpc {

absl::Status OpenCount::Admit(absl::string_view calls) const {
  if (!over_) return absl::OkStatus();
  return base::OverloadedError(absl::StrCat("list of open ", calls), max_);
}

absl::Status StreamCount::status() const {
  if (!over()) return absl::OkStatus();
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("too many streams, limit ", max()),
                         {.reason = "STREAM_LIMIT",
                          .field = "",
                          .metadata = {{"limit", absl::StrCat(max())}},
                          .retry_after_ms = 1'000});
}

}  // namespace duetime::rpc
