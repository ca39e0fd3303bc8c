// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/logging.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <spdlog/fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/base/check.h"
#include "server/base/mutex.h"

namespace duetime::runtime {
namespace {

constexpr char kLoggerName[] = "duetimed";
// How long a failed check waits for the log.
constexpr std::chrono::milliseconds kFlushTimeout{1'000};

// Formats JSON lines, because spdlog's patterns cannot escape.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since_epoch = message.time.time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
    const auto millis =
        std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch - seconds).count();
    const std::string time = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                                         fmt::gmtime(static_cast<time_t>(seconds.count())), millis);
    const auto level = spdlog::level::to_string_view(message.level);
    std::string line = JsonLogLine(time, std::string(level.data(), level.size()), message.thread_id,
                                   std::string(message.payload.data(), message.payload.size()));
    line += '\n';
    out.append(line.data(), line.data() + line.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

std::unique_ptr<spdlog::formatter> MakeFormatter(const LogOptions& options) {
  if (options.format == "json") return std::make_unique<JsonFormatter>();
  return std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l [%t] %v",
                                                     spdlog::pattern_time_type::utc);
}

std::string Formatted(const spdlog::details::log_msg& message, spdlog::formatter* formatter) {
  spdlog::memory_buf_t line;
  formatter->format(message, line);
  return std::string(line.data(), line.size());
}

LogWriter::Notice MakeNotice(const LogOptions& options) {
  return [formatter = std::shared_ptr<spdlog::formatter>(MakeFormatter(options))](uint64_t lost) {
    const std::string text =
        fmt::format("{} lines were lost here, because the reader of the log was too slow", lost);
    return Formatted({kLoggerName, spdlog::level::warn, text}, formatter.get());
  };
}

// Formats lines and gives them to the writer.
class WriterSink final : public spdlog::sinks::sink {
 public:
  WriterSink(const LogOptions& options, std::shared_ptr<LogWriter> writer)
      : writer_(std::move(writer)), formatter_(MakeFormatter(options)) {}

  void log(const spdlog::details::log_msg& message) override {
    const base::MutexLock lock(&mutex_);
    writer_->Add(Formatted(message, formatter_.get()));
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    const base::MutexLock lock(&mutex_);
    formatter_ = std::move(formatter);
  }

 private:
  const std::shared_ptr<LogWriter> writer_;
  base::Mutex mutex_;
  std::unique_ptr<spdlog::formatter> formatter_ ABSL_GUARDED_BY(mutex_);
};

// The writer of the one log, or null.
std::atomic<LogWriter*>& CurrentWriter() {
  static std::atomic<LogWriter*> writer{nullptr};
  return writer;
}

void FlushLog() {
  LogWriter* const writer = CurrentWriter().load();
  if (writer != nullptr) static_cast<void>(writer->Flush(kFlushTimeout));
}

}  // namespace

Log::Log(const LogOptions& options, int fd)
    : writer_(std::make_shared<LogWriter>(
          LogWriter::Options{.fd = fd, .bytes_max = options.buffer_bytes}, MakeNotice(options))) {
  DT_CHECK(CurrentWriter().exchange(writer_.get()) == nullptr);
  auto logger =
      std::make_shared<spdlog::logger>(kLoggerName, std::make_shared<WriterSink>(options, writer_));
  logger->set_level(spdlog::level::from_str(options.level));
  spdlog::set_default_logger(std::move(logger));
  base::SetBeforeAbort(FlushLog);
}

Log::~Log() {
  base::SetBeforeAbort(nullptr);
  CurrentWriter().store(nullptr);
  writer_->Close();
}

uint64_t LogLinesLost() {
  LogWriter* const writer = CurrentWriter().load();
  return writer == nullptr ? 0 : writer->lost();
}

void SetLogLevel(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

std::string JsonLogLine(const std::string& time, const std::string& level, uint64_t thread,
                        const std::string& message) {
  const nlohmann::ordered_json line = {
      {"time", time}, {"level", level}, {"thread", thread}, {"message", message}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace duetime::runtime
