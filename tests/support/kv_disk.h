// SPDX-License-Identifier: Apache-2.0
//
// KvDisk: what a storage engine keeps its bytes on, with a power switch.
#pragma once

#include <cstddef>
#include <memory>

#include "storage/kv_store.h"

namespace duetime::test {

// A disk with the stores that are opened over it.
//
// Guarantees: (1) a synced append, and every append before it, survives PowerCut(); (2) PowerCut()
// undoes the last appends, each as a whole. Has no damage and no failures: KvFaults adds them.
class KvDisk {
 public:
  virtual ~KvDisk() = default;

  // Makes everything durable and opens a store over it. Fences the store that was open before,
  // which may only be destroyed afterwards. REQUIRES: the disk outlives the store.
  virtual std::unique_ptr<storage::KvStore> Open() = 0;

  // Simulates a power failure: of the unsynced appends only the first `kept` survive (all, if there
  // are fewer). Fences the open store. A crash of the process alone keeps all.
  virtual void PowerCut(size_t kept) = 0;

  // Makes everything durable.
  virtual void Sync() = 0;

  // The number of appends that a power cut may undo now.
  virtual size_t unsynced_appends() const = 0;

  // Drops what the open store may drop (KvStore::DropExpired), if it does not do so at once.
  virtual void Compact() = 0;

  // A disk with what readers see now, all of it durable. May make everything durable here as well.
  virtual std::unique_ptr<KvDisk> Copy() = 0;
};

}  // namespace duetime::test
