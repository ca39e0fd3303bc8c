// SPDX-License-Identifier: Apache-2.0
//
// The knobs of the catalog.
#pragma once

#include <cstddef>
#include <cstdint>

namespace duetime::catalog {

struct CatalogOptions {
  // Names of topics, deleted ones included. Topics that only subscribers name may take a tenth, so
  // that they leave room for topics with messages.
  size_t topics_max = 100'000;
  // Of each topic.
  size_t subscriptions_max = 1'000;
  // Creates topics and subscriptions when a client uses them for the first time.
  bool auto_create = true;
  // The node sets these: the tombstone retention of topics whose settings do not say it, and the
  // number of shards.
  uint64_t tombstone_retention_ms = 0;
  uint16_t shards = 0;
};

}  // namespace duetime::catalog
