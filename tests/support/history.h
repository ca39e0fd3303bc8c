// SPDX-License-Identifier: Apache-2.0
//
// The history of a test against a real daemon: each call of each client, each delivery, each
// settlement and each fault, as fixed-size records in a file. history_checker.h judges it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace duetime::test {

// What an event tells of. The file holds the numbers, so only append.
enum class What : uint8_t {
  // Calls, and settlements of a lease. Each has an event before the request leaves the client and,
  // if the client learns how it ended, one after it.
  kSchedule = 1,
  kReschedule,
  kCancel,
  kAck,
  kNack,
  kRelease,
  kDeadLetter,
  // A client received the message.
  kDelivery,
  // Number `run` of the daemon is about to be started.
  kStart,
  // Every message that was due has been delivered and settled. Only cancels may follow.
  kDrained,
  // Faults. A clock step has an event before it and one after it.
  kKill,
  kStop,
  kPowerCut,
  kClockStep,
  kDiskFull,
  // A call that reads a message. Its answers are kOk (pending), kSettled, kAlreadyCancelled and
  // kNotFound.
  kGet,
};

// Whether events of this kind concern one message.
constexpr bool IsOfMessage(What what) { return what < What::kStart || what == What::kGet; }

// How a call ended, or that it begins.
enum class Outcome : uint8_t {
  kBegun,
  // No answer, or one that does not tell: the call may have taken effect or not.
  kUnknown,
  // The server refused, so nothing changed.
  kRefused,
  // Scheduled, rescheduled, settled.
  kOk,
  // Answers to a cancel. The last four are also answers to a reschedule. kSettled: the message had
  // ended, but not by a cancel.
  kCancelled,
  kInFlight,
  kSettled,
  kAlreadyCancelled,
  kNotFound,
};

// Bits of Event::flags.
inline constexpr uint8_t kMaybeRedelivered = 1;
// A cancel's request, and its answer.
inline constexpr uint8_t kStopRedelivery = 2;
inline constexpr uint8_t kRedeliveryStopped = 4;
// A schedule or a reschedule asks for a moment and not for a delay.
inline constexpr uint8_t kAbsoluteTime = 8;

// One record. What a field means, for the events that have it:
//
//   at_ns        when the event happened by the true clock of the test: UTC in nanoseconds.
//                HistoryWriter sets it
//   id           Fingerprint of the message's id: an accepted schedule, a delivery
//   time_ms      a schedule or a reschedule: the delay or the moment that the client asks for; its
//                answer: the daemon's deliver_time. A delivery: its deliver_time. The answer to a
//                cancel: end_time. To a get of a pending message: its deliver_time. A clock step:
//                the daemon's clock less the true one after it
//   token        the lease: deliveries and settlements. A schedule: Fingerprint of the ordering
//                key, or 0
//   message      the test's number of the message, which should travel in the payload
//   run          counts the daemon's starts, from 1. Of a delivery: the run in which the client
//                opened the stream; of an answer to a call: the last run that was started
//   attempt      of a delivery
//   client       tells calls apart that are open at once for one message
//   subscription counts from 0: deliveries and settlements
struct Event {
  int64_t at_ns = 0;
  uint64_t id = 0;
  int64_t time_ms = 0;
  uint64_t token = 0;
  uint32_t message = 0;
  uint32_t run = 0;
  uint16_t attempt = 0;
  uint16_t client = 0;
  What what{};
  Outcome outcome{};
  uint8_t flags = 0;
  uint8_t subscription = 0;

  bool Has(uint8_t flag) const { return (flags & flag) != 0; }
};
static_assert(sizeof(Event) == 48 && std::is_trivially_copyable_v<Event>);

// The same number in every process and build; never 0.
uint64_t Fingerprint(const std::string& text);

// One line of text, for people.
std::string ToText(const Event& event);

// Appends events to a file. Several processes write several files, which the checker merges. Keeps
// 4,096 events in memory; each flush is one write.
//
// The true clock is the machine's clock at the start, carried on by the steady clock. A later step
// of the machine's clock is a fault, which the test must record as a clock step.
//
// Thread-safe. Within one writer no two events have the same time.
class HistoryWriter {
 public:
  struct Options {
    // Process k of n takes the messages k, k + n, k + 2n ...: numbers without a gap need little
    // memory.
    uint32_t first_message = 0;
    uint32_t message_step = 1;
    // The true clock less the steady clock. 0: the machine's clock is right at this moment. A
    // process that starts after a step of the machine's clock must pass clock_ns() of the first.
    int64_t clock_ns = 0;
  };

  // Replaces the file.
  explicit HistoryWriter(const std::string& path) : HistoryWriter(path, Options()) {}
  HistoryWriter(const std::string& path, const Options& options);
  // Flushes.
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  // The number of a new message.
  uint32_t NewMessage();
  // The messages so far.
  uint32_t messages() const;
  // Appends the event and sets its time.
  void Add(Event event);
  // Returns true if the file has every event so far.
  bool Flush();

  // The true clock.
  int64_t NowNanos() const;
  int64_t clock_ns() const { return clock_ns_; }
  const std::string& path() const { return path_; }

 private:
  bool FlushLocked();

  const std::string path_;
  const uint32_t message_step_;
  const int64_t clock_ns_;

  mutable std::mutex mutex_;
  // mutex_ guards all members below.
  int file_ = -1;
  bool failed_ = false;
  uint32_t next_message_ = 0;
  uint32_t messages_ = 0;
  int64_t last_ns_ = 0;
  std::vector<Event> buffer_;
};

// The events of a file, mapped into memory. Thread-safe after Open.
class HistoryReader {
 public:
  // Returns null and sets `error` if the file is no history.
  static std::unique_ptr<HistoryReader> Open(const std::string& path, std::string* error);
  ~HistoryReader();
  HistoryReader(const HistoryReader&) = delete;
  HistoryReader& operator=(const HistoryReader&) = delete;

  // Without a last event that is cut short, as after the end of the test's own process.
  std::span<const Event> events() const { return events_; }

 private:
  HistoryReader(void* map, size_t size, std::span<const Event> events)
      : map_(map), size_(size), events_(events) {}

  void* const map_;
  const size_t size_;
  const std::span<const Event> events_;
};

}  // namespace duetime::test
