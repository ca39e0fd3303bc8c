// SPDX-License-Identifier: Apache-2.0
//
// The knobs of the catalog.
#pragma once

#include <cstddef>
#include <cstdint>

namespace duetime::catalog {

struct CatalogOptions {
  // The most topics, with the names that are reserved for dead letters of topics and subscriptions
  // that exist. Topics that only subscribers name may use a tenth of the limit, so that they leave
  // room for topics with messages. As many names again may be of deleted topics; a name that has
  // ended does not count.
  size_t topics_max = 100'000;
  // The most subscriptions of a topic.
  size_t subscriptions_max = 1'000;
  // True: the first use of a topic or subscription creates it.
  bool auto_create = true;
  // The node sets these: the tombstone retention of topics whose settings have none, the retention
  // of request ids, and the number of shards.
  uint64_t tombstone_retention_ms = 0;
  uint64_t request_retention_ms = 0;
  uint16_t shards = 0;
};

}  // namespace duetime::catalog
