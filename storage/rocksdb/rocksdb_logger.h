// SPDX-License-Identifier: Apache-2.0
//
// Sends RocksDB's log to a callback and never to a file on the data disk. RocksDB's own LOG file
// would fail exactly when that disk is full, and Debian's build would then abort the process.
#pragma once

#include <cstdarg>
#include <rocksdb/env.h>
#include <string>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"

#include "server/base/mutex.h"
#include "storage/rocksdb/open_options.h"

namespace duetime::storage {

// Forwards warnings and errors to the sink and drops the rest. Thread-safe.
class RocksDbLogger final : public rocksdb::Logger {
 public:
  explicit RocksDbLogger(LogSink sink);

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override ABSL_PRINTF_ATTRIBUTE(2, 0);
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override
      ABSL_PRINTF_ATTRIBUTE(3, 0);

  // The last file that log recovery could not read; empty if none. RocksDB's status does not name
  // it.
  std::string damaged_file() const;

 private:
  const LogSink sink_;

  mutable base::Mutex mutex_;
  std::string damaged_file_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::storage
