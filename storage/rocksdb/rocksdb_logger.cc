// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_logger.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"

namespace duetime::storage {
namespace {

// The format of log recovery's report: "[<source>] <file>: dropping <n> bytes; <why>".
std::string DamagedFileIn(absl::string_view line) {
  size_t end = line.find(": dropping ");
  if (end == absl::string_view::npos) return "";
  const size_t space = line.substr(0, end).rfind(' ');
  const size_t begin = space == absl::string_view::npos ? 0 : space + 1;
  return std::string(line.substr(begin, end - begin));
}

}  // namespace

RocksDbLogger::RocksDbLogger(LogSink sink)
    : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), sink_(std::move(sink)) {}

void RocksDbLogger::Logv(const char* format, va_list arguments) {
  Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
}

void RocksDbLogger::Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) {
  if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level == rocksdb::InfoLogLevel::HEADER_LEVEL) {
    return;
  }
  std::array<char, 2048> line{};
  const int size = std::vsnprintf(line.data(), line.size(), format, arguments);
  if (size < 0) return;
  const absl::string_view text(line.data(), std::min(static_cast<size_t>(size), line.size() - 1));
  if (std::string file = DamagedFileIn(text); !file.empty()) {
    const base::MutexLock lock(&mutex_);
    damaged_file_ = std::move(file);
  }
  // A checkpoint holds files twice, and RocksDB warns of the second time.
  if (sink_ == nullptr || absl::StrContains(text, "File Deletions ")) return;
  sink_(level == rocksdb::InfoLogLevel::WARN_LEVEL ? LogLevel::kWarning : LogLevel::kError, text);
}

std::string RocksDbLogger::damaged_file() const {
  const base::MutexLock lock(&mutex_);
  return damaged_file_;
}

}  // namespace duetime::storage
