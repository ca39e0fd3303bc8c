// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/new_message.h"

namespace duetime::protocol {

NewMessage MakeNewMessage(const storage::MessageRecord& record, uint32_t slot) {
  return {.topic = record.header.topic,
          .slot = slot,
          .deliver_ms = record.header.deliver_ms,
          .accept_ms = record.header.accept_ms,
          .record = storage::EncodeMessageRecord(record),
          .payload_bytes = static_cast<uint32_t>(record.payload.size()),
          .flags = storage::MessageFlagsOf(record),
          .options = nullptr};
}

}  // namespace duetime::protocol
