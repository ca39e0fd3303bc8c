// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the decoders of the records that the catalog and the shards keep as objects.
#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "server/catalog/catalog_records.h"
#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/subscription_state.h"
#include "storage/types.h"
#include "tests/fuzz/target.h"

namespace {

namespace catalog = duetime::catalog;
namespace protocol = duetime::protocol;

constexpr absl::string_view kName = "name";

absl::StatusOr<protocol::SubscriptionState> DecodeSubscriptionObject(absl::string_view bytes) {
  return protocol::DecodeSubscription(
      protocol::SubscriptionObjectName(duetime::storage::SubscriptionId{7}), bytes);
}

// Decodes the bytes, and what the encoder makes of the result: that must decode to the same. Every
// refusal is DATA_LOSS.
template <auto decode, auto encode>
void CheckDecode(absl::string_view bytes) {
  const auto object = decode(bytes);
  if (!object.ok()) {
    DT_CHECK(absl::IsDataLoss(object.status()));
    return;
  }
  const std::string own = encode(*object);
  const auto again = decode(own);
  DT_CHECK(again.ok());
  DT_CHECK(encode(*again) == own);
}

// Gives a decoder that wants a name one.
template <auto decode>
auto Named(absl::string_view bytes) {
  return decode(kName, bytes);
}

constexpr std::array<void (*)(absl::string_view), 6> kChecks = {
    CheckDecode<catalog::DecodeTopic, catalog::EncodeTopic>,
    CheckDecode<catalog::DecodeSubscription, catalog::EncodeSubscription>,
    CheckDecode<catalog::DecodeState, catalog::EncodeState>,
    CheckDecode<Named<protocol::DecodeOperation>, protocol::EncodeOperation>,
    CheckDecode<Named<protocol::DecodeRecurrence>, protocol::EncodeRecurrence>,
    CheckDecode<DecodeSubscriptionObject, protocol::EncodeSubscription>,
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  for (const auto check : kChecks) check(input);
  return 0;
}
