// SPDX-License-Identifier: Apache-2.0
//
// A look at the bytes of a request before they are parsed. A parsed message can be 20-30 times the
// size of its bytes when they are unknown fields or many empty elements; this walk costs no memory,
// so such a request is refused while it is small.
#pragma once

#include <cstddef>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace duetime::rpc {

// What the walk found.
struct WireSummary {
  // False: not the wire format (or nested deeper than any message of this API). The walk stopped
  // there.
  bool well_formed = true;
  // Bytes of fields that the message types do not know, at any depth.
  size_t unknown_bytes = 0;
  // Elements of repeated message fields of the outermost message.
  size_t elements = 0;
};

// Walks the bytes of a message of type `type`. Fields of known messages are entered; nothing is
// checked beyond the framing. Cost: about 10 ns per field.
WireSummary CheckWire(google::protobuf::io::ZeroCopyInputStream* input,
                      const google::protobuf::Descriptor* type);

}  // namespace duetime::rpc
