// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes what the RocksDB store decodes beside messages: keys, small values, the counters of a day,
// and a write-ahead log.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/rocksdb/log_fragment.h"
#include "storage/rocksdb/log_tail.h"
#include "storage/types.h"
#include "storage/value_codec.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/target.h"

namespace {

using duetime::storage::CountDelta;
using duetime::storage::DayCounts;
using duetime::storage::DayDecoder;
using duetime::storage::LogTail;
using duetime::storage::StoreKey;
using duetime::test::ByteReader;

// Checks that a decoded key encodes to the same bytes.
void CheckKeys(absl::string_view bytes) {
  const std::optional<uint16_t> shard = duetime::storage::DecodeShard(bytes);
  if (!shard.has_value()) return;
  if (const auto key = duetime::storage::DecodeMessageKey(bytes); key.has_value()) {
    DT_CHECK(EncodeMessageKey(*shard, *key).bytes() == bytes);
  }
  if (const auto place = duetime::storage::DecodeBacklogKey(bytes); place.has_value()) {
    DT_CHECK(EncodeBacklogKey(*shard, place->subscription, place->key).bytes() == bytes);
  }
  if (const auto count = duetime::storage::DecodeCountKey(bytes); count.has_value()) {
    DT_CHECK(EncodeCountKey(count->shard, count->topic, count->row, count->start_ms).bytes() ==
             bytes);
  }
  if (const auto name = duetime::storage::DecodeIndexKey(bytes); name.has_value()) {
    DT_CHECK(name->size() < bytes.size());
  }
  if (const auto name = duetime::storage::DecodeObjectKey(bytes); name.has_value()) {
    DT_CHECK(name->size() < bytes.size());
  }
}

// Checks that decoded values encode to the same bytes.
void CheckValues(absl::string_view bytes) {
  if (const auto number = duetime::storage::DecodeNumber(bytes); number.has_value()) {
    DT_CHECK(duetime::storage::EncodeNumber(*number) == bytes);
  }
  if (const auto place = duetime::storage::DecodePlace(bytes); place.has_value()) {
    DT_CHECK(duetime::storage::EncodePlace(*place) == bytes);
  }
  if (const auto delta = duetime::storage::DecodeCountDelta(bytes); delta.has_value()) {
    const auto encoded = duetime::storage::EncodeCountDelta(*delta);
    DT_CHECK(absl::string_view(encoded.data(), encoded.size()) == bytes);
  }
}

// A day that decodes has rising minutes, none of them zero. Its encoding has the same minutes.
void CheckDay(absl::string_view bytes) {
  DayDecoder decoder(bytes);
  size_t next = 0;
  while (decoder.Next()) {
    DT_CHECK(decoder.minute() >= next && decoder.minute() < duetime::storage::kMinutesPerDay);
    next = decoder.minute() + 1;
  }
  DayCounts counts;
  DT_CHECK(counts.Add(bytes) == !decoder.invalid());
  if (decoder.invalid()) return;
  const std::string encoded = counts.Encode();
  DayDecoder given(bytes);
  DayDecoder again(encoded);
  while (given.Next()) {
    if (given.delta() == CountDelta{}) continue;
    DT_CHECK(again.Next());
    DT_CHECK_EQ(again.minute(), given.minute());
    DT_CHECK(again.delta() == given.delta());
  }
  DT_CHECK(!again.Next() && !again.invalid());
}

// Reads any bytes as a log. If `before_end` is not 0, so many of them lie in the first block,
// behind zeros, and the rest in the next.
void CheckLog(const std::string& bytes, size_t before_end) {
  std::string log(before_end == 0 ? 0 : duetime::storage::kLogBlockBytes - before_end, '\0');
  log += bytes;
  LogTail tail;
  for (size_t at = 0; at < log.size(); at += duetime::storage::kLogBlockBytes) {
    tail.AddBlock(absl::string_view(log).substr(at, duetime::storage::kLogBlockBytes));
  }
  DT_CHECK(tail.whole_bytes() <= log.size());
  if (tail.broken()) {
    (void)tail.lost_synced_records();
  } else {
    DT_CHECK(tail.whole_bytes() == 0 ||
             log.size() - tail.whole_bytes() < duetime::storage::kLogBlockBytes);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  CheckKeys(input);
  CheckValues(input);
  CheckDay(input);
  ByteReader reader(data, size);
  // Seldom, because the zeros take long.
  const uint8_t choice = reader.Byte();
  const size_t before_end = choice >= 16 ? 0 : size_t{choice} * 16;
  CheckLog(input.substr(std::min<size_t>(1, input.size())), before_end);
  return 0;
}
