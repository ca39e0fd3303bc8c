// SPDX-License-Identifier: Apache-2.0
//
// The checker of histories (history.h): were the promises P1, P2, P3, P8 and P9 of ARCHITECTURE.md
// kept for every message, and did enough happen to prove it? Pure: no clock, no network.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/history.h"

namespace duetime::test {

// One broken promise.
struct Violation {
  uint32_t message = 0;
  // LOST, EARLY ...; see Check.
  std::string rule;
  std::string text;
};

// What happened in a history, and the least that must happen in one.
struct Counts {
  int64_t events = 0;
  int64_t scheduled = 0;
  int64_t schedule_unknown = 0;
  int64_t schedule_refused = 0;
  // Messages whose schedule had no answer, and that were delivered.
  int64_t unknown_delivered = 0;
  int64_t rescheduled = 0;
  int64_t reschedule_other = 0;
  int64_t reschedule_unknown = 0;
  int64_t cancelled = 0;
  int64_t cancel_in_flight = 0;
  int64_t cancel_already = 0;
  int64_t cancel_settled = 0;
  int64_t cancel_not_found = 0;
  int64_t cancel_unknown = 0;
  // All of the above calls, and acks.
  int64_t unanswered = 0;
  int64_t gets = 0;
  int64_t gets_pending = 0;
  int64_t deliveries = 0;
  // Deliveries of messages that an earlier run had delivered to the same subscription.
  int64_t redelivered_by_later_run = 0;
  int64_t acks_confirmed = 0;
  int64_t acks_refused = 0;
  int64_t acks_unknown = 0;
  // Nacks, releases and dead letters.
  int64_t other_settlements_confirmed = 0;
  // Messages that two subscriptions acked in different runs.
  int64_t acked_in_several_runs = 0;
  // Deliveries that the rule ORDER judged.
  int64_t ordered_deliveries = 0;
  int64_t starts = 0;
  int64_t drains = 0;
  int64_t kills = 0;
  int64_t stops = 0;
  int64_t power_cuts = 0;
  int64_t clock_steps = 0;
  int64_t disk_fulls = 0;
};

// A count by its name, for tables.
struct NamedCount {
  const char* name;
  int64_t Counts::*count;
};
std::span<const NamedCount> AllCounts();

struct Expected {
  // Every message goes to this many subscriptions, which exist before the first message.
  int subscriptions = 1;
  // The history ends with a drain. Otherwise LOST is not judged.
  bool drained = true;
  // The daemon may have read its clock this long before the client received the delivery. Matters
  // only near a clock step.
  int64_t lease_to_receipt_ms = 1'000;
  // A power cut may undo a settlement that was confirmed at most this long before it.
  int64_t power_cut_ms = 2'000;
  // A smaller count fails the run. In addition, a history without an accepted message, a delivery
  // or, if `drained`, a drain, fails always.
  Counts minimum{};
  // Keeps the text of at most this many violations.
  size_t violations_max = 1'000;
};

struct Judgement {
  // By message, except that ID, TOKEN and ORDER come last.
  std::vector<Violation> violations;
  // All of them, also those without a text.
  uint64_t broken = 0;
  Counts counts;
  // One line for each count that is too small.
  std::vector<std::string> too_little;
};

// Judges the events of one test. Each file has one writer. Tombstones outlive the history, and no
// message has a time to live or leaves by itself for a dead-letter topic.
//
// Each rule is judged for each message, and where it speaks of deliveries for each subscription:
//
//   LOST                 an accepted message, due before the drain, had no confirmed or unanswered
//                        settlement and no cancel before the drain that explains its end. A later
//                        delivery shows that an unanswered settlement did not happen, or that a
//                        power cut undid a confirmed one. An unanswered schedule counts as accepted
//                        if a subscription got the message
//   CANCELLED_DELIVERED  a cancel answered CANCELLED, and the message was delivered before or after
//   CANCELLED_TWICE      two cancels answered CANCELLED
//   STOPPED_DELIVERED    a cancel stopped redelivery, and a later run delivered the message
//   MOVED_DELIVERED      a reschedule succeeded for a message that had been delivered
//   EARLY                received before its deliver_time by the daemon's clock, or the
//                        deliver_time is before the requested time
//   ACKED_DELIVERED      delivered after a confirmed settlement that ends the message; after a
//                        power cut that may have undone it, delivered without the mark of a repeat
//   ACKED_TWICE          two such settlements, without a power cut in between
//   REFUSED_DELIVERED    delivered although its schedule was refused
//   NOT_FOUND            a call answered NOT_FOUND for an accepted message
//   UNTRUE_END           a call answered SETTLED or ALREADY_CANCELLED, but no settlement or cancel
//                        that could end the message had begun, or a delivery since then shows that
//                        it did not
//   FORGOTTEN_END        a client knew that the message had ended, and a later call denied it
//   ENDED_DELIVERED      a call answered that the message had ended, and a later run delivered it
//   STALE_TIME           a get told a deliver_time that a confirmed reschedule had replaced before
//                        the get began, or that no client was told or asked for
//   END_TIME             two end times for one message
//   ATTEMPT              an attempt below 1, one repeated within a run, or a repeat that claims to
//                        be the first delivery
//   TIME                 a delivery with a deliver_time that no client was told, or that a
//                        reschedule had replaced
//   TOKEN                one lease token given twice
//   ID                   two messages with one id, or one message with two ids
//   ORDER                of an ordering key, within a run: delivered while an earlier delivery of
//                        the key was unsettled, or before a message with an earlier place
//
// Cost: linear, about 0.2 s per million events. Memory: 4 bytes per event and 4 per message; then
// 8 per message or per delivery; and 200 per pending message with an ordering key. REQUIRES: fewer
// than 2^32 events, and message numbers with few gaps.
Judgement Check(const std::vector<std::span<const Event>>& files, const Expected& expected);

// Checks files and prints the counts, the first violations with their events, and what was too
// little. Returns the exit code of a test: 0 good; 1 a promise was broken; 2 too little happened,
// or a file is unreadable.
int JudgeFiles(const std::vector<std::string>& paths, const Expected& expected);

// Flushes the history of a test and judges it. Removes the file if all is good and `keep` is false,
// and prints its name otherwise. Returns as JudgeFiles.
int JudgeAndKeep(HistoryWriter* history, const Expected& expected, bool keep = false);

// For a test that could not run to its end: flushes its history and prints the name of the file.
// Returns 2.
int KeepUnjudged(HistoryWriter* history);

// A new file in TMPDIR for the history of this process.
std::string HistoryPath();

// Prints the events of one message, by time.
void PrintMessage(const std::vector<std::span<const Event>>& files, uint32_t message);

}  // namespace duetime::test
