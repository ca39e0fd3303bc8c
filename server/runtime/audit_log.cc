// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/audit_log.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace duetime::runtime {
namespace {

constexpr size_t kLinesMax = 8'192;

}  // namespace

// Both are null if the lines go to the log.
struct AuditLog::Impl {
  // Lines that could not be written. The pool's thread counts until the pool ends.
  std::atomic<uint64_t> failed{0};
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const AuditOptions& options) {
  if (options.audit_log.empty()) return std::unique_ptr<AuditLog>();
  auto impl = std::make_unique<Impl>();
  if (options.audit_log == "stderr") {
    return std::unique_ptr<AuditLog>(new AuditLog(options, std::move(impl)));
  }
  spdlog::sink_ptr sink;
  try {
    sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        options.audit_log, options.audit_file_bytes_max, options.audit_files_max);
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("audit_log: ", options.audit_log, " cannot be written: ", error.what()));
  }
  sink->set_pattern("%v");
  impl->pool = std::make_shared<spdlog::details::thread_pool>(kLinesMax, 1);
  impl->logger = std::make_shared<spdlog::async_logger>(
      "audit", std::move(sink), impl->pool, spdlog::async_overflow_policy::overrun_oldest);
  impl->logger->flush_on(spdlog::level::info);
  impl->logger->set_error_handler([failed = &impl->failed](const std::string& error) {
    if (failed->fetch_add(1, std::memory_order_relaxed) > 0) return;
    spdlog::error("audit_log: {}; duetime_audit_lines_lost_total counts the lines", error);
  });
  return std::unique_ptr<AuditLog>(new AuditLog(options, std::move(impl)));
}

AuditLog::AuditLog(const AuditOptions& options, std::unique_ptr<Impl> impl)
    : options_(options), impl_(std::move(impl)) {}

AuditLog::~AuditLog() = default;

void AuditLog::Write(uint64_t wall_ms, const AuditEntry& entry) {
  nlohmann::ordered_json line;
  line["time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(static_cast<int64_t>(wall_ms)),
                       absl::UTCTimeZone());
  line["principal"] = entry.principal;
  line["peer"] = entry.peer;
  line["method"] = entry.method;
  if (!entry.topic.empty()) line["topic"] = entry.topic;
  if (!entry.object.empty()) line["object"] = entry.object;
  line["code"] = entry.code;
  if (!entry.reason.empty()) line["reason"] = entry.reason;
  // A name that is no UTF-8 must not end the process.
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (impl_->logger == nullptr) {
    spdlog::info("audit {}", text);
  } else {
    impl_->logger->info(text);
  }
}

uint64_t AuditLog::lost() const {
  if (impl_->pool == nullptr) return 0;
  return impl_->pool->overrun_counter() + impl_->failed.load(std::memory_order_relaxed);
}

}  // namespace duetime::runtime
