// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/cell_map.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "storage/slot.h"

namespace duetime::gateway {
namespace {

constexpr size_t kNameMax = 15;

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameMax &&
         absl::ascii_islower(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return absl::ascii_islower(byte) || absl::ascii_isdigit(byte) || c == '-';
         });
}

absl::Status Wrong(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("gateway_cells: \"", text, "\": ", what,
                                                 "; a cell is \"NAME FIRST-LAST ADDRESS\""));
}

}  // namespace

absl::StatusOr<CellMap> CellMap::Parse(const std::vector<std::string>& texts) {
  CellMap map;
  map.owners_.fill(kNone);
  for (const std::string& text : texts) {
    if (absl::Status status = map.Add(text); !status.ok()) return status;
  }
  const auto free = std::find(map.owners_.begin(), map.owners_.end(), kNone);
  if (free == map.owners_.end()) return map;
  return absl::InvalidArgumentError(
      absl::StrCat("gateway_cells: no cell has slot ", free - map.owners_.begin(),
                   "; together the cells have the slots 0-", map.owners_.size() - 1));
}

absl::Status CellMap::Add(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (parts.size() != 3) return Wrong(text, "need three parts");
  Cell cell{.name = parts[0], .addresses = parts[2]};
  if (!IsName(cell.name)) {
    return Wrong(text, "a name is 1 to 15 of a-z, 0-9 and \"-\", and begins with a letter");
  }
  if (cells_.size() == kNone) return Wrong(text, "more than 255 cells");
  for (const Cell& other : cells_) {
    if (other.name == cell.name) return Wrong(text, "another cell has this name");
  }
  if (parts[1] != "-") {
    if (absl::Status status = AddSlots(parts[1], &cell); !status.ok()) {
      return Wrong(text, status.message());
    }
  }
  cells_.push_back(std::move(cell));
  return absl::OkStatus();
}

absl::Status CellMap::AddSlots(absl::string_view ranges, Cell* cell) {
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(range, '-');
    uint32_t first = 0;
    uint32_t last = 0;
    if (!absl::SimpleAtoi(ends.first, &first) || !absl::SimpleAtoi(ends.second, &last) ||
        first > last || last >= owners_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", range, "\" is no range of slots"));
    }
    for (uint32_t slot = first; slot <= last; ++slot) {
      if (owners_[slot] != kNone) {
        return absl::InvalidArgumentError(absl::StrCat("slot ", slot, " is given twice"));
      }
      owners_[slot] = static_cast<uint8_t>(cells_.size());
    }
    cell->slots += last - first + 1;
  }
  return absl::OkStatus();
}

size_t CellMap::OfName(absl::string_view topic, absl::string_view name) const {
  return owners_[storage::SlotOfName(topic, name)];
}

std::string CellMap::Tag(size_t cell, absl::string_view text) const {
  return text.empty() ? std::string() : absl::StrCat(cells_[cell].name, ".", text);
}

absl::StatusOr<CellMap::Located> CellMap::Locate(absl::string_view tagged) const {
  const size_t dot = tagged.find('.');
  for (size_t i = 0; i < cells_.size() && dot != absl::string_view::npos; ++i) {
    if (cells_[i].name == tagged.substr(0, dot)) {
      return Located{.cell = i, .text = std::string(tagged.substr(dot + 1))};
    }
  }
  return absl::NotFoundError("no cell of the gateway has such an id");
}

}  // namespace duetime::gateway
