// SPDX-License-Identifier: Apache-2.0
//
// What the reports of members tell of their clocks.
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/cell/member_report.h"
#include "server/cell/roster.h"
#include "storage/journal_record.h"

namespace duetime::cell {
namespace {

constexpr uint64_t kLogMs = 1'000'000'000;
constexpr uint64_t kBoundMs = 250;

// A report of a member whose clock is ahead of the log's. It took `sent_ms` to the log, and the
// fastest entry `read_ms` from there.
struct Told {
  std::string name;
  int64_t ahead_ms = 0;
  int64_t sent_ms = 3;
  int64_t read_ms = 5;
  bool leads = false;
  uint64_t epoch = 1;
  uint64_t time_ms = kLogMs;
  bool disk_low = false;
};

void Note(const Told& told, Roster* roster) {
  MemberReport report{.name = told.name, .address = "", .leads = told.leads};
  report.wall_ms = told.time_ms + static_cast<uint64_t>(told.ahead_ms - told.sent_ms);
  report.ahead_most_ms = told.ahead_ms + told.read_ms;
  report.disk_low = told.disk_low;
  roster->NoteTime(told.time_ms);
  roster->Note({.report = report, .epoch = told.epoch, .report_ms = told.time_ms});
}

// Of the member w.
LeadVerdict Judge(const std::vector<Told>& reports, uint64_t bound_ms = kBoundMs) {
  Roster roster(bound_ms);
  for (const Told& told : reports) Note(told, &roster);
  return roster.JudgeLead("w");
}

TEST(ClockTest, WhatAClockMeansForTheLead) {
  const Told leader{.name = "l", .leads = true};
  const Told right{.name = "r", .ahead_ms = 40};
  struct Case {
    const char* what;
    std::vector<Told> reports;
    LeadVerdict verdict;
  };
  const Case cases[] = {
      {"all agree", {{.name = "w", .ahead_ms = 40}, leader, {.name = "s"}}, {}},
      {"ahead", {{.name = "w", .ahead_ms = 400}, leader, right}, {.apart = 2, .yields = true}},
      {"behind", {{.name = "w", .ahead_ms = -400}, leader, right}, {.apart = 2, .yields = true}},
      {"only the log's clock is wrong",
       {{.name = "w", .ahead_ms = 9'000}, {.name = "s", .ahead_ms = 9'000}},
       {}},
      {"a slow way to the log, and from there",
       {{.name = "w", .sent_ms = 900, .read_ms = 900}, leader, right},
       {}},
      {"apart, but not for certain",
       {{.name = "w", .ahead_ms = 300, .sent_ms = 60}, leader, right},
       {}},
      {"between two that are apart",
       {{.name = "w", .ahead_ms = 200}, leader, {.name = "s", .ahead_ms = 400}},
       {}},
      {"apart from the leader, and another is not",
       {{.name = "w", .ahead_ms = 400}, leader, {.name = "s", .ahead_ms = 200}},
       {.apart = 1, .yields = true}},
      {"only the leader is better",
       {{.name = "w", .ahead_ms = -200}, leader, {.name = "s", .ahead_ms = 200}},
       {.apart = 1}},
      {"no other member follows", {{.name = "w", .ahead_ms = 400}, leader}, {.apart = 1}},
      {"the other one is away",
       {{.name = "s", .time_ms = kLogMs - 40'000}, {.name = "w", .ahead_ms = 400}, leader},
       {.apart = 1}},
      {"the clocks of the other ones are not known",
       {{.name = "w", .ahead_ms = 400}, leader, {.name = "s", .sent_ms = -300, .read_ms = -300}},
       {.apart = 1}},
      {"a leader that is alone",
       {{.name = "w", .ahead_ms = 400, .leads = true}, right, {.name = "s"}},
       {.apart = 2, .yields = true, .hands_over = true}},
      {"a leader that half of the others agree with",
       {{.name = "w", .ahead_ms = 400, .leads = true},
        right,
        {.name = "s"},
        {.name = "t", .ahead_ms = 410}},
       {.apart = 2}},
      {"a leader that one of the others agrees with",
       {{.name = "w", .ahead_ms = 400, .leads = true},
        {.name = "s", .ahead_ms = 200},
        {.name = "t"}},
       {.apart = 1, .yields = true}},
      {"a leader of two", {{.name = "w", .ahead_ms = 400, .leads = true}, right}, {.apart = 1}},
      {"a leader that is alone, and the others have not followed it yet",
       {{.name = "w", .ahead_ms = 400, .leads = true, .epoch = 2}, right, {.name = "s"}},
       {.apart = 2, .yields = true}},
      {"all apart",
       {{.name = "w", .ahead_ms = 400, .leads = true}, right, {.name = "s", .ahead_ms = -400}},
       {.apart = 2}},
      {"a leader whose disk is low",
       {{.name = "w", .leads = true, .disk_low = true}, right, {.name = "s", .disk_low = true}},
       {.yields = true, .hands_over = true}},
      {"all disks are low",
       {{.name = "w", .leads = true, .disk_low = true}, {.name = "s", .disk_low = true}},
       {}},
      {"a low disk, and only the clock of the other one is apart",
       {{.name = "w", .leads = true, .disk_low = true},
        {.name = "s", .ahead_ms = 400},
        {.name = "t", .disk_low = true}},
       {.apart = 1}},
      {"a low disk, and the other ones have not followed it yet",
       {{.name = "w", .leads = true, .epoch = 2, .disk_low = true}, right},
       {.yields = true}},
      {"a member whose disk is low", {{.name = "w", .disk_low = true}, right}, {.yields = true}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const LeadVerdict verdict = Judge(one.reports);
    EXPECT_EQ(verdict.apart, one.verdict.apart);
    EXPECT_EQ(verdict.yields, one.verdict.yields);
    EXPECT_EQ(verdict.hands_over, one.verdict.hands_over);
    EXPECT_EQ(Judge(one.reports, 0).apart, 0u) << "the bound 0 is none";
  }
}

TEST(ClockTest, TheRosterTellsHowFarClocksAreApart) {
  Roster roster(kBoundMs);
  Note({.name = "a", .ahead_ms = -500, .sent_ms = 10, .read_ms = 20}, &roster);
  Note({.name = "b", .ahead_ms = 100, .sent_ms = 30, .read_ms = 40}, &roster);
  Note({.name = "c", .sent_ms = 0, .read_ms = -5}, &roster);
  const std::vector<RosterEntry> list = roster.List();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].clock.value_or(ClockRange{}).least_ms, -511);
  EXPECT_EQ(list[0].clock.value_or(ClockRange{}).most_ms, -480);
  EXPECT_EQ(AtLeast(*list[0].clock), -480);
  EXPECT_EQ(list[0].clock_differs_ms, 549u);
  EXPECT_EQ(AtLeast(*list[1].clock), 69);
  EXPECT_EQ(list[1].clock_differs_ms, 549u);
  EXPECT_FALSE(list[2].clock.has_value()) << "the readings contradict each other";
  EXPECT_EQ(list[2].clock_differs_ms, 0u);
}

TEST(ClockTest, TheFastestEntrySinceTheLastReportCounts) {
  Roster roster;
  EXPECT_EQ(roster.TakeAheadMost(), std::nullopt);
  roster.NoteTime(kLogMs, kLogMs + 90);
  roster.NoteTime(kLogMs + 50, kLogMs + 80);
  roster.NoteTime(kLogMs + 60, kLogMs + 200);
  EXPECT_EQ(roster.TakeAheadMost(), 30);
  EXPECT_EQ(roster.TakeAheadMost(), std::nullopt);
  roster.NoteTime(kLogMs + 70, kLogMs);
  EXPECT_EQ(roster.TakeAheadMost(), -70);
  roster.NoteTime(0, kLogMs);
  roster.NoteTime(kLogMs, 0);
  EXPECT_EQ(roster.TakeAheadMost(), std::nullopt) << "one time is not known";
}

TEST(ClockTest, AReportOfAnOlderProgramTellsNoClock) {
  const auto decode = [](const std::string& lines) {
    return DecodeReport(storage::EncodeJournalRecord(
        {.kind = storage::JournalRecordHead::Kind::kReport, .epoch = 1, .number = 1, .log = 1},
        std::vector<storage::RecordBatch>{
            {{.type = storage::RecordType::kObject,
              .shard = storage::kNoShard,
              .kind = static_cast<uint8_t>(storage::ObjectKind::kCell),
              .name = "report",
              .value = lines}}}));
  };
  for (const char* const lines : {"a\na:1\n1\n7", "a\na:1\n1\n7\n5\n", "a\na:1\n1\n7\nx\ny"}) {
    const std::optional<MemberReport> report = decode(lines);
    ASSERT_TRUE(report.has_value()) << lines;
    EXPECT_EQ(report->durable_offset, 7u);
    EXPECT_EQ(report->ahead_most_ms, std::nullopt);
  }
  const std::optional<MemberReport> report =
      decode("a\na:1\n0\n7\n1234\n-9223372036854775808\n0\nnew");
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->wall_ms, 1'234u);
  // Whatever a report says, no sum overflows.
  Roster roster(kBoundMs);
  Note({.name = "b"}, &roster);
  roster.Note({.report = *report, .report_ms = kLogMs});
  EXPECT_EQ(roster.JudgeLead("a").apart, 0u);

  MemberReport told{.name = "a", .address = "a:1"};
  told.wall_ms = 99;
  told.ahead_most_ms = -3;
  const auto again = DecodeReport(EncodeReport(told, {}));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->wall_ms, 99u);
  EXPECT_EQ(again->ahead_most_ms, -3);
  EXPECT_FALSE(again->disk_low);
  told.disk_low = true;
  EXPECT_TRUE(DecodeReport(EncodeReport(told, {}))->disk_low);
}

}  // namespace
}  // namespace duetime::cell
