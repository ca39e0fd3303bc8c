// SPDX-License-Identifier: Apache-2.0
//
// Compiles the handler of several messages of client/cpp/README.md.
#include <vector>

#include "absl/types/span.h"

#include "client/cpp/subscriber.h"

namespace {

absl::Status Insert(absl::Span<const duetime::client::Delivery>) { return absl::OkStatus(); }

}  // namespace

int main() {
  duetime::client::SubscriberOptions options;
#include "readme_batch.inc"
  return subscriber.ok() ? 0 : 1;
}
