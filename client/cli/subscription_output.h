// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints for people about subscriptions, leases and dead letters. Pure: nothing is
// written here, no clock is read. Lines end with a line break.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

#include "client/cli/json.h"
#include "client/delay_client.h"
#include "client/subscriber.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {

std::string SubscriptionText(const v1::Subscription& subscription, const absl::TimeZone& zone);
std::string SubscriptionTable(
    const google::protobuf::RepeatedPtrField<v1::Subscription>& subscriptions);

// Of messages that are dead letters: what they were, and why they were put aside.
std::string DeadLetterTable(const google::protobuf::RepeatedPtrField<v1::Message>& messages,
                            const absl::TimeZone& zone);

// A delivery behind the token that settles it.
std::string PulledText(const client::Delivery& delivery, absl::Time received,
                       const absl::TimeZone& zone);

// What became of one lease of a Settle: "settled", "extended", or why it was refused. The same for
// programs, without a line break.
std::string SettledText(uint64_t lease_token, const client::SettleResult& result);
Json SettledJson(uint64_t lease_token, const client::SettleResult& result);
// Whether it was refused, or not answered.
bool WasRefused(uint64_t lease_token, const client::SettleResult& result);

}  // namespace duetime::cli
