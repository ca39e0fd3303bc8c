// SPDX-License-Identifier: Apache-2.0
#include "tests/support/history.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace duetime::test {
namespace {

constexpr size_t kBufferedMax = 4'096;

// The file begins with this, padded to one record. Then come the records as they are in memory.
struct Header {
  std::array<char, 8> magic = {'d', 't', 'h', 'i', 's', 't', '0', '1'};
  uint64_t record_size = sizeof(Event);
  std::array<uint64_t, 4> zeros{};
};
static_assert(sizeof(Header) == sizeof(Event));
static_assert(std::endian::native == std::endian::little);

int64_t SteadyNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t WallNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The wall clock less the steady clock, at most the time of two readings too small: the true clock
// must not be ahead of the daemon's, or a request seems to leave after its arrival.
int64_t ClockDifference() {
  int64_t best = INT64_MIN;
  for (int i = 0; i < 16; ++i) {
    const int64_t wall = WallNanos();
    best = std::max(best, wall - SteadyNanos());
  }
  return best;
}

bool WriteAll(int file, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file, from, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

const char* Name(What what) {
  static constexpr const char* kNames[] = {
      "?",       "schedule",    "reschedule", "cancel",    "ack",     "nack",
      "release", "dead letter", "delivery",   "start",     "drained", "KILLED",
      "STOPPED", "POWER CUT",   "CLOCK STEP", "DISK FULL", "get"};
  const auto number = static_cast<size_t>(what);
  return number < std::size(kNames) ? kNames[number] : "?";
}

const char* Name(Outcome outcome) {
  static constexpr const char* kNames[] = {"begun",   "no answer",         "refused",
                                           "ok",      "cancelled",         "in flight",
                                           "settled", "already cancelled", "not found"};
  const auto number = static_cast<size_t>(outcome);
  return number < std::size(kNames) ? kNames[number] : "?";
}

}  // namespace

uint64_t Fingerprint(const std::string& text) {
  // FNV-1a, then the finalizer of splitmix64.
  uint64_t hash = 14'695'981'039'346'656'037u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211u;
  }
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  hash ^= hash >> 31;
  return hash == 0 ? 1 : hash;
}

std::string ToText(const Event& event) {
  std::string text = std::to_string(event.at_ns / 1'000) + " us  ";
  text += Name(event.what);
  const auto add = [&text](const char* name, auto value) {
    if (value != 0) text += std::string(" ") + name + " " + std::to_string(value);
  };
  if (IsOfMessage(event.what)) text += " of " + std::to_string(event.message);
  if (IsOfMessage(event.what) && event.what != What::kDelivery)
    text += std::string(": ") + Name(event.outcome);
  add("run", event.run);
  add("subscription", static_cast<int>(event.subscription));
  add("attempt", event.attempt);
  add("time_ms", event.time_ms);
  add("token", event.token);
  add("id", event.id);
  add("client", event.client);
  if (event.Has(kMaybeRedelivered)) text += " maybe redelivered";
  if (event.Has(kStopRedelivery)) text += " for good";
  if (event.Has(kRedeliveryStopped)) text += " stopped";
  if (event.Has(kAbsoluteTime)) text += " absolute";
  return text;
}

HistoryWriter::HistoryWriter(const std::string& path, const Options& options)
    : path_(path),
      message_step_(options.message_step),
      clock_ns_(options.clock_ns != 0 ? options.clock_ns : ClockDifference()),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)),
      next_message_(options.first_message) {
  const Header header;
  failed_ = file_ < 0 || !WriteAll(file_, &header, sizeof(header));
  buffer_.reserve(kBufferedMax);
}

HistoryWriter::~HistoryWriter() {
  const std::lock_guard lock(mutex_);
  FlushLocked();
  if (file_ >= 0) ::close(file_);
}

uint32_t HistoryWriter::NewMessage() {
  const std::lock_guard lock(mutex_);
  const uint32_t number = next_message_;
  next_message_ += message_step_;
  ++messages_;
  return number;
}

uint32_t HistoryWriter::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

int64_t HistoryWriter::NowNanos() const { return SteadyNanos() + clock_ns_; }

void HistoryWriter::Add(Event event) {
  const std::lock_guard lock(mutex_);
  last_ns_ = std::max(last_ns_ + 1, NowNanos());
  event.at_ns = last_ns_;
  buffer_.push_back(event);
  if (buffer_.size() == kBufferedMax) FlushLocked();
}

bool HistoryWriter::Flush() {
  const std::lock_guard lock(mutex_);
  return FlushLocked();
}

bool HistoryWriter::FlushLocked() {
  failed_ = failed_ || !WriteAll(file_, buffer_.data(), buffer_.size() * sizeof(Event));
  buffer_.clear();
  return !failed_;
}

std::unique_ptr<HistoryReader> HistoryReader::Open(const std::string& path, std::string* error) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) {
    *error = path + ": " + std::error_code(errno, std::generic_category()).message();
    if (file >= 0) ::close(file);
    return nullptr;
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* const map = size < sizeof(Header)
                        ? MAP_FAILED
                        : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, /*offset=*/0);
  ::close(file);
  const Header header;
  if (map == MAP_FAILED || std::memcmp(map, &header, sizeof(header)) != 0) {
    *error = path + ": not a history, or one of another version";
    if (map != MAP_FAILED) ::munmap(map, size);
    return nullptr;
  }
  // The header has the size of a record.
  const std::span<const Event> records(static_cast<const Event*>(map), size / sizeof(Event));
  return std::unique_ptr<HistoryReader>(new HistoryReader(map, size, records.subspan(1)));
}

HistoryReader::~HistoryReader() { ::munmap(map_, size_); }

}  // namespace duetime::test
