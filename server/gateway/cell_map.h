// SPDX-License-Identifier: Apache-2.0
//
// CellMap: the cells behind a gateway, and which of them has which messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/message_id.h"

namespace duetime::gateway {

// A message with a name (a key, else an ordering key, else a request id) belongs to the cell that
// has the slot of this name; so do recurrences. A message without a name may be in any cell.
// Through a gateway, an id or a lease token is "CELL.TEXT", with the cell's own text. So a gateway
// keeps no state, and the cells do not know of it. Immutable. Thread-safe.
class CellMap {
 public:
  struct Cell {
    // 1 to 15 of a-z, 0-9 and "-", of which the first is a letter.
    std::string name;
    // Its members, or one server: a target of gRPC, such as "ipv4:10.0.0.1:7788,10.0.0.2:7788", or
    // a DNS name with the addresses of all members, "dns:///members:7788".
    std::string addresses;
    // The slots that it has. None: it takes messages without a name only.
    size_t slots = 0;
  };
  // An id or a token without its cell.
  struct Located {
    size_t cell = 0;
    std::string text;
  };

  // Each text is "NAME SLOTS ADDRESSES". SLOTS is "-", or "FIRST-LAST" once or several times with
  // commas between. Together, the cells have each of the 16,384 slots once. INVALID_ARGUMENT names
  // the text, or the slot.
  static absl::StatusOr<CellMap> Parse(const std::vector<std::string>& texts);

  size_t size() const { return cells_.size(); }
  const Cell& cell(size_t index) const { return cells_[index]; }

  // The cell of a name in a topic; the topic of recurrences is "".
  size_t OfName(absl::string_view topic, absl::string_view name) const;

  // "CELL.TEXT". An empty text stays empty.
  std::string Tag(size_t cell, absl::string_view text) const;
  // NOT_FOUND if no cell of the map stands before the dot.
  absl::StatusOr<Located> Locate(absl::string_view tagged) const;

 private:
  static constexpr uint8_t kNone = UINT8_MAX;

  absl::Status Add(const std::string& text);
  absl::Status AddSlots(absl::string_view ranges, Cell* cell);

  std::vector<Cell> cells_;
  // The index of a slot's cell.
  std::array<uint8_t, storage::MessageId::kSlotCount> owners_{};
};

}  // namespace duetime::gateway
