// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/contract.h"

#include "absl/strings/str_cat.h"

namespace duetime::simulation {

bool Contract::Decode(const std::string& name, const std::string& bytes,
                      storage::MessageRecord* record) {
  const bool ok = storage::DecodeMessageRecord(bytes, record).ok();
  if (!ok) Violate(name + "a record that cannot be read");
  return ok;
}

bool Contract::DecodeHead(const std::string& name, const std::string& bytes,
                          storage::MessageRecord* record) {
  const bool ok = storage::DecodeMessageHead(bytes, record).ok();
  if (!ok) Violate(name + "a head that cannot be read");
  return ok;
}

void Contract::BeginAttempt(const std::string& name, base::Now now, uint64_t lease_ms,
                            uint64_t deliver_ms, const protocol::Delivery& delivery,
                            Attempts* attempts) {
  if (now.wall_ms < deliver_ms) Violate(name + "delivered early (P2)");
  if (attempts->Leased(now)) Violate(name + "two leases at once");
  if (attempts->Waits(now)) {
    Violate(absl::StrCat(name, "before the time of its next attempt, by ",
                         attempts->retry_mono_ms - now.mono_ms, " ms"));
  }
  attempts->last = delivery.attempt;
  ++attempts->deliveries;
  attempts->lease = delivery.token;
  attempts->lease_end_mono_ms = now.mono_ms + lease_ms;
  attempts->retry_mono_ms = attempts->retry_wall_ms = 0;
}

}  // namespace duetime::simulation
