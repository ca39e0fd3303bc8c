// SPDX-License-Identifier: Apache-2.0
//
// The small values of a store: numbers, claims, places, counters, backlog entries,
// progress. Numbers are little-endian, but a place has the bytes of a key. FORMAT.md documents the
// values. Decoders return nullopt for bytes that no encoder writes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/log_place.h"
#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::storage {

// The error of a read that meets such bytes. `what`: "a claim".
absl::Status Undecodable(absl::string_view what);

std::string EncodeNumber(uint64_t value);
std::optional<uint64_t> DecodeNumber(absl::string_view bytes);

// The mark, and what a clean stop adds to it.
using ClaimValue = std::pair<uint64_t, std::optional<ClaimReturn>>;
std::string EncodeClaim(uint64_t claim_ms, const std::optional<ClaimReturn>& claim_return);
std::optional<ClaimValue> DecodeClaim(absl::string_view bytes);

std::string EncodePlace(const MessageKey& key);
std::optional<MessageKey> DecodePlace(absl::string_view bytes);

// Two's complement, so that unsigned addition gives the signed sum.
std::array<char, 16> EncodeCountDelta(const CountDelta& delta);
std::optional<CountDelta> DecodeCountDelta(absl::string_view bytes);
// Returns a + b. Wraps around on overflow.
CountDelta Sum(const CountDelta& a, const CountDelta& b);

std::string EncodeBacklogEntry(const BacklogEntry& entry);
std::optional<BacklogEntry> DecodeBacklogEntry(absl::string_view bytes);

std::string EncodeLogPlace(const LogPlace& place);
std::optional<LogPlace> DecodeLogPlace(absl::string_view bytes);

// True if the fields fit together: a decoder refuses what does not.
bool IsSound(const Progress& progress);
std::string EncodeProgress(const Progress& progress);
std::optional<Progress> DecodeProgress(absl::string_view bytes);

}  // namespace duetime::storage
