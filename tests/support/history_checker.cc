// SPDX-License-Identifier: Apache-2.0
#include "tests/support/history_checker.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <unistd.h>
#include <unordered_map>

#include "tests/support/history_judge.h"
#include "tests/support/history_order.h"

namespace duetime::test {
namespace {

using Files = std::vector<std::span<const Event>>;

// Files were written by different processes. Of equal times, a beginning comes before an end: then
// the two calls overlap, and no rule can take one for the cause of the other.
bool Before(const Event* a, const Event* b) {
  if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
  return a->outcome == Outcome::kBegun && b->outcome != Outcome::kBegun;
}

// Finds the values that occur more than once. Takes 8 bytes for each value.
std::vector<uint64_t> Repeated(std::vector<uint64_t>* values) {
  std::sort(values->begin(), values->end());
  std::vector<uint64_t> repeated;
  for (size_t i = 1; i < values->size(); ++i) {
    if ((*values)[i] != (*values)[i - 1]) continue;
    if (repeated.empty() || repeated.back() != (*values)[i]) repeated.push_back((*values)[i]);
  }
  return repeated;
}

class Checker {
 public:
  Checker(const Files& files, const Expected& expected, Judgement* judgement)
      : files_(files),
        expected_(expected),
        judgement_(*judgement),
        violations_(expected.violations_max, judgement) {}

  void Check() {
    TakeFacts();
    Index();
    JudgeMessages();
    JudgeTokens();
    JudgeOrder();
    CountTooLittle();
  }

 private:
  template <typename Take>
  void ForEach(Take take) const {
    for (const auto& file : files_) {
      for (const Event& event : file) take(event);
    }
  }

  const Event* At(uint32_t position) const {
    for (const auto& file : files_) {
      if (position < file.size()) return &file[position];
      position -= static_cast<uint32_t>(file.size());
    }
    return nullptr;
  }

  // Reads the events that concern no single message.
  void TakeFacts() {
    std::vector<const Event*> facts;
    ForEach([&](const Event& event) {
      ++judgement_.counts.events;
      if (!IsOfMessage(event.what)) facts.push_back(&event);
      if (event.what == What::kSchedule) messages_ = std::max(messages_, event.message + 1);
      if (event.token != 0) keyed_ = keyed_ || event.what == What::kSchedule;
    });
    std::stable_sort(facts.begin(), facts.end(), Before);
    for (const Event* event : facts) TakeFact(*event);
  }

  void TakeFact(const Event& event) {
    Counts& counts = judgement_.counts;
    switch (event.what) {
      case What::kStart:
        ++counts.starts;
        facts_.clock.Add(event);
        return;
      case What::kDrained:
        ++counts.drains;
        facts_.drained_ns = event.at_ns;
        return;
      case What::kKill:
        ++counts.kills;
        return;
      case What::kStop:
        ++counts.stops;
        return;
      case What::kPowerCut:
        ++counts.power_cuts;
        facts_.power_cuts_ns.push_back(event.at_ns);
        return;
      case What::kClockStep:
        counts.clock_steps += event.outcome == Outcome::kBegun ? 1 : 0;
        facts_.clock.Add(event);
        return;
      case What::kDiskFull:
        ++counts.disk_fulls;
        return;
      default:
        return;
    }
  }

  // Sorts the positions of the events by message, in two passes over the events.
  void Index() {
    begins_.assign(size_t{messages_} + 1, 0);
    ForEach([this](const Event& event) {
      if (IsOfMessage(event.what) && event.message < messages_) ++begins_[event.message + 1];
    });
    for (size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    positions_.resize(begins_.back());
    uint32_t position = 0;
    ForEach([&](const Event& event) {
      if (!IsOfMessage(event.what)) {
        // Concerns no message.
      } else if (event.message < messages_) {
        // Moves each beginning to its end, which is the next one's beginning.
        positions_[begins_[event.message]++] = position;
      } else if (event.what == What::kDelivery) {
        violations_.Add(event.message, "REFUSED_DELIVERED", "no client scheduled it");
      }
      ++position;
    });
  }

  // Calls `take` with the events of each message, by time.
  template <typename Take>
  void ForEachMessage(Take take) const {
    std::vector<const Event*> events;
    for (uint32_t message = 0; message < messages_; ++message) {
      const uint32_t begin = message == 0 ? 0 : begins_[message - 1];
      if (begin == begins_[message]) continue;
      events.clear();
      for (uint32_t i = begin; i < begins_[message]; ++i) events.push_back(At(positions_[i]));
      std::stable_sort(events.begin(), events.end(), Before);
      take(message, std::span<const Event* const>(events));
    }
  }

  void JudgeMessages() {
    MessageJudge judge(expected_, facts_, &violations_, &judgement_.counts);
    std::vector<uint64_t> ids;
    ForEachMessage([&](uint32_t message, std::span<const Event* const> events) {
      judge.Judge(message, events);
      if (judge.id() != 0) ids.push_back(judge.id());
    });
    const std::vector<uint64_t> repeated = Repeated(&ids);
    if (repeated.empty()) return;
    std::unordered_map<uint64_t, std::vector<uint32_t>> owners;
    ForEach([&](const Event& event) {
      if (event.id == 0 || !std::binary_search(repeated.begin(), repeated.end(), event.id)) return;
      std::vector<uint32_t>& known = owners[event.id];
      if (std::find(known.begin(), known.end(), event.message) != known.end()) return;
      known.push_back(event.message);
      if (known.size() == 1) return;
      violations_.Add(event.message, "ID", "that of message " + std::to_string(known[0]));
    });
  }

  void JudgeTokens() {
    std::vector<uint64_t> tokens;
    ForEach([&](const Event& event) {
      if (event.what == What::kDelivery) tokens.push_back(event.token);
    });
    const std::vector<uint64_t> repeated = Repeated(&tokens);
    if (repeated.empty()) return;
    std::unordered_map<uint64_t, int> times;
    ForEach([&](const Event& event) {
      if (event.what != What::kDelivery ||
          !std::binary_search(repeated.begin(), repeated.end(), event.token) ||
          ++times[event.token] == 1) {
        return;
      }
      violations_.Add(event.message, "TOKEN", std::to_string(event.token) + " given twice");
    });
  }

  // Merges the files by time.
  void JudgeOrder() {
    if (!keyed_) return;
    OrderJudge judge(expected_.subscriptions, &violations_, &judgement_.counts);
    Files rests = files_;
    while (true) {
      std::span<const Event>* next = nullptr;
      for (auto& rest : rests) {
        if (rest.empty() || (next != nullptr && !Before(&rest[0], &(*next)[0]))) continue;
        next = &rest;
      }
      if (next == nullptr) return;
      judge.Take((*next)[0]);
      *next = next->subspan(1);
    }
  }

  void CountTooLittle() {
    Counts least = expected_.minimum;
    least.scheduled = std::max<int64_t>(least.scheduled, 1);
    least.deliveries = std::max<int64_t>(least.deliveries, 1);
    if (expected_.drained) least.drains = std::max<int64_t>(least.drains, 1);
    for (const NamedCount& named : AllCounts()) {
      const int64_t count = judgement_.counts.*named.count;
      if (count >= least.*named.count) continue;
      judgement_.too_little.push_back(std::string(named.name) + " " + std::to_string(count) +
                                      ", at least " + std::to_string(least.*named.count));
    }
  }

  const Files& files_;
  const Expected& expected_;
  Judgement& judgement_;
  Violations violations_;
  RunFacts facts_;
  // Whether a message has an ordering key.
  bool keyed_ = false;
  // Above every number that was scheduled.
  uint32_t messages_ = 0;
  // After Index: where the positions of a message end. Those of the next one begin there.
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> positions_;
};

}  // namespace

std::span<const NamedCount> AllCounts() {
  static constexpr NamedCount kCounts[] = {
      {"events", &Counts::events},
      {"scheduled", &Counts::scheduled},
      {"schedules without an answer", &Counts::schedule_unknown},
      {"of these delivered", &Counts::unknown_delivered},
      {"schedules refused", &Counts::schedule_refused},
      {"rescheduled", &Counts::rescheduled},
      {"reschedules that changed nothing", &Counts::reschedule_other},
      {"reschedules without an answer", &Counts::reschedule_unknown},
      {"cancelled", &Counts::cancelled},
      {"cancels that met a delivery", &Counts::cancel_in_flight},
      {"cancels that met a cancel", &Counts::cancel_already},
      {"cancels that met another end", &Counts::cancel_settled},
      {"cancels that found nothing", &Counts::cancel_not_found},
      {"cancels without an answer", &Counts::cancel_unknown},
      {"calls and acks without an answer", &Counts::unanswered},
      {"gets answered", &Counts::gets},
      {"of these of a pending message", &Counts::gets_pending},
      {"deliveries", &Counts::deliveries},
      {"of these again by a later run", &Counts::redelivered_by_later_run},
      {"acks confirmed", &Counts::acks_confirmed},
      {"acks refused", &Counts::acks_refused},
      {"acks without an answer", &Counts::acks_unknown},
      {"other settlements confirmed", &Counts::other_settlements_confirmed},
      {"messages acked in several runs", &Counts::acked_in_several_runs},
      {"deliveries with an ordering key", &Counts::ordered_deliveries},
      {"starts", &Counts::starts},
      {"drains", &Counts::drains},
      {"kills", &Counts::kills},
      {"stops", &Counts::stops},
      {"power cuts", &Counts::power_cuts},
      {"clock steps", &Counts::clock_steps},
      {"full disks", &Counts::disk_fulls},
  };
  static_assert(sizeof(Counts) == std::size(kCounts) * sizeof(int64_t));
  return kCounts;
}

Judgement Check(const std::vector<std::span<const Event>>& files, const Expected& expected) {
  Judgement judgement;
  Checker(files, expected, &judgement).Check();
  return judgement;
}

void PrintMessage(const std::vector<std::span<const Event>>& files, uint32_t message) {
  std::vector<const Event*> events;
  for (const auto& file : files) {
    for (const Event& event : file) {
      if (IsOfMessage(event.what) && event.message == message) events.push_back(&event);
    }
  }
  std::stable_sort(events.begin(), events.end(), Before);
  for (const Event* event : events) std::printf("    %s\n", ToText(*event).c_str());
}

int JudgeFiles(const std::vector<std::string>& paths, const Expected& expected) {
  constexpr size_t kPrintedMax = 20;
  std::vector<std::unique_ptr<HistoryReader>> readers;
  Files files;
  for (const std::string& path : paths) {
    std::string error;
    readers.push_back(HistoryReader::Open(path, &error));
    if (readers.back() == nullptr) {
      std::printf("%s\n", error.c_str());
      return 2;
    }
    files.push_back(readers.back()->events());
  }
  const Judgement judgement = Check(files, expected);
  for (const NamedCount& named : AllCounts()) {
    const int64_t count = judgement.counts.*named.count;
    if (count != 0) std::printf("%12" PRId64 " %s\n", count, named.name);
  }
  for (size_t i = 0; i < std::min(judgement.violations.size(), kPrintedMax); ++i) {
    const Violation& violation = judgement.violations[i];
    std::printf("message %u: %s: %s\n", violation.message, violation.rule.c_str(),
                violation.text.c_str());
    PrintMessage(files, violation.message);
  }
  std::printf("%" PRIu64 " broken promises\n", judgement.broken);
  for (const std::string& line : judgement.too_little) {
    std::printf("too little happened: %s\n", line.c_str());
  }
  if (judgement.broken > 0) return 1;
  return judgement.too_little.empty() ? 0 : 2;
}

std::string HistoryPath() {
  return std::filesystem::temp_directory_path() / ("duetime-history-" + std::to_string(::getpid()));
}

int JudgeAndKeep(HistoryWriter* history, const Expected& expected, bool keep) {
  if (!history->Flush()) {
    std::printf("%s: a write failed\n", history->path().c_str());
    return 2;
  }
  const int code = JudgeFiles({history->path()}, expected);
  std::error_code ignored;
  if (code == 0 && !keep) {
    std::filesystem::remove(history->path(), ignored);
  } else {
    std::printf("history_check %s judges this history again\n", history->path().c_str());
  }
  return code;
}

int KeepUnjudged(HistoryWriter* history) {
  if (!history->Flush()) std::printf("%s: a write failed\n", history->path().c_str());
  std::printf("the test could not run to its end; history_check %s judges its history\n",
              history->path().c_str());
  return 2;
}

}  // namespace duetime::test
