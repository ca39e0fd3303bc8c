// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/top_screen.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/row.h"
#include "client/cli/terminal/colour.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

// The lines above the topics, and below them.
constexpr size_t kOtherLines = 6;
// The widths of all columns except the name and the note.
constexpr size_t kNumbersWidth = 69;
constexpr size_t kNameWidthMin = 12;
constexpr size_t kNoteWidth = 16;

absl::Time TimeOf(const Sample& sample) { return client::FromProto(sample.info.server_time()); }

std::string RateText(const std::optional<double>& rate) {
  return rate.has_value() ? absl::StrFormat("%.*f", *rate < 10 && *rate > 0 ? 1 : 0, *rate) : "-";
}

std::string LateText(const std::optional<absl::Duration>& late) {
  if (!late.has_value()) return "-";
  const absl::Duration unit = *late < absl::Seconds(10) ? absl::Milliseconds(1)
                              : *late < absl::Hours(1)  ? absl::Seconds(1)
                                                        : absl::Minutes(1);
  return FormatAgeText(absl::Trunc(*late, unit));
}

void AddNote(bool holds, absl::string_view word, std::string* note) {
  if (holds) absl::StrAppend(note, note->empty() ? "" : ", ", word);
}

struct Delivered {
  int64_t delivered = 0;
  int64_t acked = 0;
};

Delivered SumOf(const TopicSample& sample) {
  Delivered sum;
  for (const v1::Subscription& subscription : sample.subscriptions) {
    sum.delivered += subscription.counts().delivered();
    sum.acked += subscription.counts().acked();
  }
  return sum;
}

TopicLine LineOf(const TopicSample& sample, absl::Time now) {
  TopicLine line = {.name = sample.topic.name(),
                    .pending = sample.topic.counts().pending(),
                    .due = sample.topic.counts().due()};
  bool paused = false;
  bool slowed = false;
  bool behind = false;
  for (const v1::Subscription& subscription : sample.subscriptions) {
    const v1::SubscriptionCounts& counts = subscription.counts();
    line.in_flight += counts.in_flight();
    line.streams += counts.streams();
    if (subscription.backlog().has_oldest_due_time()) {
      const absl::Duration late = now - client::FromProto(subscription.backlog().oldest_due_time());
      line.late = std::max({line.late.value_or(absl::ZeroDuration()), late});
    }
    paused = paused || subscription.settings().paused();
    slowed = slowed || counts.slowed();
    behind = behind || counts.behind();
  }
  AddNote(paused || sample.topic.settings().paused(), "paused", &line.note);
  AddNote(slowed, "slowed", &line.note);
  AddNote(behind, "behind", &line.note);
  // Such messages are not late: they wait for the first subscription.
  AddNote(line.due > 0 && sample.subscriptions.empty(), "no subscription", &line.note);
  AddNote(line.due > 0 && !sample.subscriptions.empty() && line.streams == 0, "no reader",
          &line.note);
  return line;
}

// Topics with the largest of the number that the order names come first.
std::tuple<double, std::string> PlaceOf(const TopicLine& line, Order order) {
  const auto largest = [](double number) { return -number; };
  switch (order) {
    case Order::kRate:
      return {largest(line.delivered_rate.value_or(0)), line.name};
    case Order::kLate:
      return {largest(absl::ToDoubleSeconds(line.late.value_or(absl::ZeroDuration()))), line.name};
    case Order::kDue:
      return {largest(static_cast<double>(line.due)), line.name};
    case Order::kPending:
      return {largest(static_cast<double>(line.pending)), line.name};
    case Order::kName:
      return {0, line.name};
  }
  return {0, line.name};
}

std::string HeadText(const std::string& server, const Sample* before, const Sample& now) {
  const v1::ServerInfoResponse& info = now.info;
  const absl::Duration uptime = absl::Trunc(client::FromProto(info.uptime()), absl::Seconds(1));
  std::string text = absl::StrCat(server, "  ", info.version(), "  ",
                                  PaintState(WordOf(info.state())), "  up ", FormatAgeText(uptime));
  if (info.clock_state() != v1::CLOCK_STATE_NORMAL) {
    absl::StrAppend(&text, "  clock ", Paint(Colour::kRed, WordOf(info.clock_state())));
  }
  if (info.disk_low()) absl::StrAppend(&text, "  ", Paint(Colour::kRed, "disk low"));
  absl::StrAppend(&text, "\n");
  const v1::Counts& counts = info.counts();
  const auto rate = [&](int64_t (v1::Counts::*count)() const) {
    if (before == nullptr) return std::string("-");
    return RateText(
        RateOf((before->info.counts().*count)(), (counts.*count)(), TimeOf(now) - TimeOf(*before)));
  };
  absl::StrAppend(&text, "per second: ", rate(&v1::Counts::accepted), " accepted, ",
                  rate(&v1::Counts::delivered), " delivered, ", rate(&v1::Counts::acked),
                  " acked, ", rate(&v1::Counts::nacked), " nacked; now: ", counts.in_flight(),
                  " in flight, ", counts.streams(), " streams\n");
  return text;
}

// `name` as wide as its column. A long one loses its end.
std::string NameText(const std::string& name, size_t width) {
  const std::string shown = Printable(name);
  if (shown.size() > width) return shown.substr(0, width - 1) + "~";
  return shown + std::string(width - shown.size(), ' ');
}

std::string ColumnsText(const std::string& name, const std::vector<std::string>& numbers) {
  // Their sum is kNumbersWidth.
  constexpr int kWidths[] = {11, 11, 11, 10, 10, 9, 7};
  std::string text = name;
  for (size_t i = 0; i < numbers.size(); ++i) {
    absl::StrAppendFormat(&text, "%*s", kWidths[i], numbers[i]);
  }
  return text;
}

}  // namespace

std::optional<double> RateOf(int64_t before, int64_t now, absl::Duration between) {
  if (between <= absl::ZeroDuration()) return std::nullopt;
  return static_cast<double>(now >= before ? now - before : now) / absl::ToDoubleSeconds(between);
}

std::optional<Order> OrderOf(absl::string_view word) {
  for (const auto& [name, order] : {std::pair<absl::string_view, Order>{"rate", Order::kRate},
                                    {"late", Order::kLate},
                                    {"due", Order::kDue},
                                    {"pending", Order::kPending},
                                    {"name", Order::kName}}) {
    if (word == name || word == name.substr(0, 1)) return order;
  }
  return std::nullopt;
}

std::vector<TopicLine> MakeLines(const Sample* before, const Sample& now, Order order) {
  std::map<std::string, Delivered> earlier;
  if (before != nullptr) {
    for (const TopicSample& topic : before->topics) earlier[topic.topic.name()] = SumOf(topic);
  }
  std::vector<TopicLine> lines;
  for (const TopicSample& topic : now.topics) {
    TopicLine line = LineOf(topic, TimeOf(now));
    if (const auto found = earlier.find(line.name); found != earlier.end()) {
      const Delivered sum = SumOf(topic);
      const absl::Duration between = TimeOf(now) - TimeOf(*before);
      line.delivered_rate = RateOf(found->second.delivered, sum.delivered, between);
      line.acked_rate = RateOf(found->second.acked, sum.acked, between);
    }
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end(), [order](const TopicLine& a, const TopicLine& b) {
    return PlaceOf(a, order) < PlaceOf(b, order);
  });
  return lines;
}

std::string ScreenText(const std::string& server, const Sample* before, const Sample& now,
                       Order order, const std::string& error, const ScreenSize& size) {
  const std::vector<TopicLine> lines = MakeLines(before, now, order);
  const size_t shown = std::min(lines.size(), size.height - std::min(size.height, kOtherLines));
  size_t name_width = kNameWidthMin;
  for (size_t i = 0; i < shown; ++i) name_width = std::max(name_width, lines[i].name.size());
  const size_t others = kNumbersWidth + kNoteWidth;
  const size_t room = size.width > others ? size.width - others : 0;
  name_width = std::max(kNameWidthMin, std::min(name_width, room));

  std::string text = HeadText(server, before, now);
  absl::StrAppend(
      &text, Paint(Colour::kRed, error), "\n",
      ColumnsText(NameText("TOPIC", name_width),
                  {"PENDING", "DUE", "IN FLIGHT", "DELIVER/s", "ACK/s", "LATE", "READER"}),
      "\n");
  for (size_t i = 0; i < shown; ++i) {
    const TopicLine& line = lines[i];
    absl::StrAppend(
        &text,
        ColumnsText(NameText(line.name, name_width),
                    {absl::StrCat(line.pending), absl::StrCat(line.due),
                     absl::StrCat(line.in_flight), RateText(line.delivered_rate),
                     RateText(line.acked_rate), LateText(line.late), absl::StrCat(line.streams)}),
        line.note.empty() ? "" : "  ", Paint(Colour::kYellow, line.note), "\n");
  }
  if (lines.empty()) absl::StrAppend(&text, "no topics\n");
  if (shown < lines.size()) absl::StrAppend(&text, "and ", lines.size() - shown, " more topics\n");
  return text;
}

}  // namespace duetime::cli
