// SPDX-License-Identifier: Apache-2.0
#include "storage/key_text.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

// Takes numbers from the front of a key that may be too short.
class KeyReader {
 public:
  explicit KeyReader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    char padded[sizeof(T)] = {};
    const size_t size = std::min(sizeof(T), bytes_.size());
    std::copy_n(bytes_.data(), size, padded);
    bytes_.remove_prefix(size);
    return LoadBigEndian<T>(padded);
  }
  std::string Byte() { return std::string(1, static_cast<char>(Number<uint8_t>())); }
  std::string Shard() { return absl::StrCat("shard ", Number<uint16_t>()); }
  std::string Due() { return absl::StrCat(" due ", TimeText(Number<uint64_t>())); }
  std::string Id() {
    const auto high = Number<uint64_t>();
    return absl::StrCat(" id ", MessageId{high, Number<uint64_t>()}.ToString());
  }
  std::string Name() const { return absl::StrCat(" \"", absl::CHexEscape(bytes_), "\""); }

 private:
  absl::string_view bytes_;
};

// The rest of a counter's key after the shard.
std::string CounterText(KeyReader* key) {
  const auto number = key->Number<uint32_t>();
  const CountRow row{key->Number<uint8_t>()};
  const absl::string_view owner = row == CountRow::kDone ? " subscription " : " topic ";
  if (row == CountRow::kTopic) return absl::StrCat(owner, number);
  return absl::StrCat(owner, number, " day ", TimeText(key->Number<uint64_t>()));
}

}  // namespace

std::string TimeText(uint64_t time_ms) {
  const auto limited = static_cast<int64_t>(std::min(time_ms, MessageId::kDueMax));
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(limited),
                          absl::UTCTimeZone());
}

std::string KeyText(ColumnFamily family, absl::string_view bytes) {
  KeyReader key(bytes);
  std::string text;
  switch (family) {
    case ColumnFamily::kMeta:
      return absl::CHexEscape(bytes);
    case ColumnFamily::kMessages:
    case ColumnFamily::kProgress:
      text = key.Shard();
      text += key.Due();
      return text + key.Id();
    case ColumnFamily::kBacklog:
      text = key.Shard();
      absl::StrAppend(&text, " subscription ", key.Number<uint32_t>());
      text += key.Due();
      return text + key.Id();
    case ColumnFamily::kIndex:
      text = key.Shard();
      absl::StrAppend(&text, " topic ", key.Number<uint32_t>());
      text +=
          key.Number<uint8_t>() == static_cast<uint8_t>(IndexKind::kRequest) ? " request" : " key";
      return text + key.Name();
    case ColumnFamily::kLocators:
      text = key.Shard();
      return text + key.Id();
    case ColumnFamily::kCounts:
      text = key.Shard();
      return text + CounterText(&key);
    case ColumnFamily::kObjects:
      text = absl::StrCat("object '", absl::CHexEscape(key.Byte()), "' ");
      text += key.Shard();
      return text + key.Name();
  }
  return absl::CHexEscape(bytes);
}

}  // namespace duetime::storage
