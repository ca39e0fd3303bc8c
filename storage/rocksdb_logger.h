// SPDX-License-Identifier: Apache-2.0
//
// What RocksDB has to say goes to a callback, never to a file on the data disk: RocksDB's own LOG
// would be written, and would fail, exactly when that disk is full (and Debian's build aborts the
// process then).
#pragma once

#include <cstdarg>
#include <functional>
#include <mutex>
#include <rocksdb/env.h>
#include <string>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"

#include "storage/rocksdb_store.h"

namespace duetime::storage {

using LogLevel = RocksDbStoreOptions::LogLevel;
using LogSink = std::function<void(LogLevel, absl::string_view)>;

// Forwards warnings and errors to the sink and drops the rest. Thread-safe.
class RocksDbLogger final : public rocksdb::Logger {
 public:
  explicit RocksDbLogger(LogSink sink);

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override ABSL_PRINTF_ATTRIBUTE(2, 0);
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override
      ABSL_PRINTF_ATTRIBUTE(3, 0);

  // The file in which log recovery last met something it could not read, or nothing: RocksDB's
  // status does not say.
  std::string damaged_file() const;

 private:
  const LogSink sink_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::string damaged_file_;
};

}  // namespace duetime::storage
