// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/wire_check.h"

#include <cstdint>
#include <limits>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace duetime::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Messages of this API nest three deep (batch, schedule, map entry or time).
constexpr int kDepthMax = 8;

// True if the parser parses this field. Otherwise the parser keeps the field as an unknown one.
bool IsKnown(const FieldDescriptor* field, uint32_t tag) {
  if (field == nullptr) return false;
  const auto wire_type = WireFormatLite::GetTagWireType(tag);
  const auto type = static_cast<WireFormatLite::FieldType>(field->type());
  return wire_type == WireFormatLite::WireTypeForFieldType(type) ||
         (field->is_packable() && wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Walks the fields up to the end or the limit set on `input`. Recursion is bounded by kDepthMax.
bool Walk(CodedInputStream* input, const Descriptor* type, int depth, WireSummary* summary) {
  if (depth > kDepthMax) return false;
  for (;;) {
    const int start = input->CurrentPosition();
    const uint32_t tag = input->ReadTag();
    if (tag == 0) return input->ConsumedEntireMessage();
    const FieldDescriptor* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool known = IsKnown(field, tag);
    if (known && depth == 0 && field->is_repeated() && !field->is_packable()) ++summary->elements;
    if (known && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      int length = 0;
      if (!input->ReadVarintSizeAsInt(&length)) return false;
      // A length that reaches beyond the enclosing message would be cut short by PushLimit, and the
      // walk would not see it.
      const int room = input->BytesUntilLimit();
      if (room >= 0 && length > room) return false;
      const auto limit = input->PushLimit(length);
      if (!Walk(input, field->message_type(), depth + 1, summary)) return false;
      if (input->BytesUntilLimit() != 0) return false;
      input->PopLimit(limit);
      continue;
    }
    if (!WireFormatLite::SkipField(input, tag)) return false;
    if (!known) {
      summary->unknown_bytes += static_cast<size_t>(input->CurrentPosition() - start);
    }
  }
}

}  // namespace

WireSummary CheckWire(google::protobuf::io::ZeroCopyInputStream* input,
                      const google::protobuf::Descriptor* type) {
  WireSummary summary;
  CodedInputStream coded(input);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  summary.well_formed = Walk(&coded, type, 0, &summary);
  return summary;
}

}  // namespace duetime::rpc
