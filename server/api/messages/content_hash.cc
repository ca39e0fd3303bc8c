// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/content_hash.h"

// The hash is inlined from its header: no library to link.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace duetime::api {

storage::Fingerprint ContentHash(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace duetime::api
