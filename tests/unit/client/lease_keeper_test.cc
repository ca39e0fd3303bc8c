// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/lease_keeper.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/cpp/convert.h"
#include "tests/support/settlements.h"

namespace duetime::client {
namespace {

using std::chrono::milliseconds;

constexpr absl::Duration kLease = absl::Milliseconds(300);
// A third of the lease.
constexpr milliseconds kInterval(100);

class LeaseKeeperTest : public testing::Test {
 protected:
  LeaseKeeperTest() { keeper_.Start(kLease); }

  static Frame MakeFrame(int first_token, int count) {
    Frame frame;
    for (int i = 0; i < count; ++i) {
      frame.response.add_deliveries()->set_lease_token(std::to_string(first_token + i));
    }
    return frame;
  }

  // Returns the tokens that the keeper prolongs at `time` after the start.
  std::vector<std::string> Collect(milliseconds time, int room = 100) {
    v1::SubscribeRequest request;
    keeper_.Collect(zero_ + time, /*sends=*/false, room, &request);
    std::vector<std::string> tokens;
    for (const v1::Settlement& one : test::With(v1::Settlement::kExtend, request)) {
      EXPECT_EQ(FromProto(one.extend().duration()), kLease);
      tokens.push_back(one.lease_token());
    }
    return tokens;
  }

  using Tokens = std::vector<std::string>;

  const LeaseKeeper::SteadyTime zero_;
  LeaseKeeper keeper_{absl::Seconds(1)};
};

TEST_F(LeaseKeeperTest, ProlongsWhatWaitsAtEveryThirdOfTheLease) {
  Frame frame = MakeFrame(1, 3);
  keeper_.Add(&frame, zero_);
  EXPECT_EQ(keeper_.NextCollect(zero_), zero_ + kInterval);
  EXPECT_EQ(Collect(milliseconds(50)), Tokens());
  EXPECT_EQ(Collect(kInterval), (Tokens{"1", "2", "3"}));
  EXPECT_EQ(keeper_.NextCollect(zero_ + kInterval), zero_ + 2 * kInterval);
  EXPECT_EQ(Collect(kInterval), Tokens()) << "asked for already";
  EXPECT_TRUE(keeper_.Remove(&frame, 1));
  EXPECT_FALSE(keeper_.Remove(&frame, 1));
  EXPECT_EQ(Collect(2 * kInterval), (Tokens{"1", "3"}));
  keeper_.Remove(&frame, 0);
  keeper_.Remove(&frame, 2);
  EXPECT_EQ(Collect(3 * kInterval), Tokens());
}

TEST_F(LeaseKeeperTest, WhatHasNoRoomStaysDue) {
  Frame first = MakeFrame(1, 3);
  Frame second = MakeFrame(4, 2);
  keeper_.Add(&first, zero_);
  keeper_.Add(&second, zero_);
  EXPECT_EQ(Collect(kInterval, 0), Tokens());
  EXPECT_EQ(Collect(kInterval, 2), (Tokens{"1", "2"}));
  EXPECT_EQ(keeper_.NextCollect(zero_ + kInterval), zero_ + kInterval);
  EXPECT_EQ(Collect(kInterval, 2), (Tokens{"3", "4"}));
  EXPECT_EQ(Collect(kInterval, 2), Tokens{"5"});
  EXPECT_EQ(Collect(kInterval), Tokens());
  EXPECT_EQ(Collect(2 * kInterval), (Tokens{"1", "2", "3", "4", "5"}));
}

TEST_F(LeaseKeeperTest, FramesThatComeCloseTogetherShareARequest) {
  Frame first = MakeFrame(1, 1);
  Frame second = MakeFrame(2, 1);
  Frame third = MakeFrame(3, 1);
  keeper_.Add(&first, zero_);
  keeper_.Add(&second, zero_ + milliseconds(20));
  keeper_.Add(&third, zero_ + milliseconds(60));
  EXPECT_EQ(Collect(kInterval), (Tokens{"1", "2"}));
  EXPECT_EQ(keeper_.NextCollect(zero_ + kInterval), zero_ + milliseconds(160));
}

TEST_F(LeaseKeeperTest, WhatIsAddedLaterIsNotDueBeforeTheNextCollect) {
  const auto next = keeper_.NextCollect(zero_);
  Frame frame = MakeFrame(1, 1);
  keeper_.Add(&frame, zero_ + milliseconds(1));
  ASSERT_TRUE(next.has_value());
  EXPECT_LE(*next, frame.extend_at);
}

TEST_F(LeaseKeeperTest, ALostLeaseIsNotAskedForAgain) {
  Frame frame = MakeFrame(1, 2);
  keeper_.Add(&frame, zero_);
  EXPECT_FALSE(keeper_.OnRefused("1")) << "nothing was asked: it is about a settlement";
  EXPECT_EQ(Collect(kInterval), (Tokens{"1", "2"}));
  EXPECT_TRUE(keeper_.OnRefused("1"));
  keeper_.OnExtended("2");
  EXPECT_FALSE(keeper_.OnRefused("1")) << "one answer for each request";
  EXPECT_FALSE(keeper_.OnRefused("2"));
  EXPECT_EQ(Collect(2 * kInterval), Tokens{"2"});
}

// The answers may come after the handler has returned. Nothing is remembered of them.
TEST_F(LeaseKeeperTest, NothingIsKeptOfAnEndedDelivery) {
  Frame frame = MakeFrame(1, 1);
  keeper_.Add(&frame, zero_);
  ASSERT_EQ(keeper_.Take(0, &frame, 0, zero_), LeaseKeeper::Taken::kYes);
  EXPECT_EQ(Collect(kInterval), Tokens{"1"});
  keeper_.End(0);
  EXPECT_TRUE(keeper_.OnRefused("1")) << "the report";
  EXPECT_TRUE(keeper_.OnRefused("1")) << "the extension";
  EXPECT_EQ(keeper_.lost_count(), 1);
  Frame again = MakeFrame(1, 1);
  keeper_.Add(&again, zero_);
  EXPECT_EQ(keeper_.Take(0, &again, 0, zero_), LeaseKeeper::Taken::kYes);
}

TEST_F(LeaseKeeperTest, AnOlderServerGetsNoReportAfterOneWithoutAnswer) {
  Frame frame = MakeFrame(1, 2);
  keeper_.Add(&frame, zero_);
  for (const int reports : {1, 0}) {
    const int index = 1 - reports;
    ASSERT_EQ(keeper_.Take(0, &frame, index, zero_), LeaseKeeper::Taken::kYes);
    v1::SubscribeRequest request;
    keeper_.Collect(zero_ + milliseconds(20), /*sends=*/true, 100, &request);
    EXPECT_EQ(request.begun_size(), reports);
    EXPECT_TRUE(keeper_.End(0));
    if (reports > 0) keeper_.OnSettled("1");
  }
  EXPECT_FALSE(keeper_.OnRefused("2")) << "it is about the settlement";
}

TEST_F(LeaseKeeperTest, DoesNothingWithoutALeaseOrAStream) {
  Frame frame = MakeFrame(1, 1);
  keeper_.Add(&frame, zero_);
  keeper_.Clear();
  EXPECT_EQ(Collect(kInterval), Tokens());
  EXPECT_EQ(keeper_.NextCollect(zero_), std::nullopt);
  keeper_.Remove(&frame, 0);
  keeper_.Start(absl::ZeroDuration());
  EXPECT_EQ(keeper_.NextCollect(zero_), std::nullopt);
}

// One delivery, or some, in the words of a test.
class Story {
 public:
  explicit Story(absl::Duration extend_max) : keeper_(extend_max) { keeper_.Start(kLease); }

  // Does what `action` says at `ms` after the start. Returns what came of it.
  std::string Do(int ms, const std::string& action) {
    const LeaseKeeper::SteadyTime now = zero_ + milliseconds(ms);
    const std::pair<std::string, std::string> words = absl::StrSplit(action, ' ');
    const auto& [verb, object] = words;
    if (verb == "add" || verb == "suspect") return Add(now, std::stoi(object), verb == "suspect");
    if (verb == "take") return Take(now, std::stoi(object));
    if (verb == "end") return keeper_.End(0) ? "reported" : "";
    if (verb == "extended") return keeper_.OnExtended(object), "";
    if (verb == "begun") return keeper_.OnBegun(object, now), "";
    if (verb == "refused") return keeper_.OnRefused(object) ? "lease" : "settlement";
    if (verb == "may?") return Confirmation();
    if (verb == "next") return Next(now);
    return Collect(now, /*sends=*/verb == "settle");
  }

  int64_t lost_count() const { return keeper_.lost_count(); }

 private:
  std::string Add(LeaseKeeper::SteadyTime now, int count, bool suspect) {
    for (int i = 1; i <= count; ++i) {
      v1::Delivery* delivery = frame_.response.add_deliveries();
      delivery->set_lease_token(std::to_string(i));
      delivery->set_confirm_begun(suspect);
    }
    keeper_.Add(&frame_, now);
    return "";
  }

  std::string Take(LeaseKeeper::SteadyTime now, int token) {
    const LeaseKeeper::Taken taken = keeper_.Take(0, &frame_, token - 1, now);
    if (taken == LeaseKeeper::Taken::kYes) return "";
    return taken == LeaseKeeper::Taken::kLost ? "lost" : "gone";
  }

  std::string Confirmation() const {
    const LeaseKeeper::Confirmation answer = keeper_.ConfirmationOf(0);
    if (answer == LeaseKeeper::Confirmation::kPending) return "wait";
    return answer == LeaseKeeper::Confirmation::kYes ? "yes" : "lost";
  }

  std::string Next(LeaseKeeper::SteadyTime now) {
    return absl::StrCat((*keeper_.NextCollect(now) - zero_) / milliseconds(1));
  }

  std::string Collect(LeaseKeeper::SteadyTime now, bool sends) {
    v1::SubscribeRequest request;
    const std::vector<std::string> given_back = keeper_.Collect(now, sends, /*room=*/100, &request);
    const auto releases = test::TokensWith(v1::Settlement::kRelease, request);
    EXPECT_EQ(given_back, releases);
    std::vector<std::string> parts;
    for (const auto& token : test::TokensWith(v1::Settlement::kExtend, request)) {
      parts.push_back("extend " + token);
    }
    for (const auto& token : request.begun()) parts.push_back("begun " + token);
    for (const auto& token : releases) parts.push_back("release " + token);
    return absl::StrJoin(parts, ", ");
  }

  const LeaseKeeper::SteadyTime zero_;
  LeaseKeeper keeper_;
  Frame frame_;
};

struct Line {
  int ms;
  const char* action;
  const char* result = "";
};

struct Case {
  const char* name;
  absl::Duration extend_max;
  std::vector<Line> lines;
  int64_t lost = 0;
};

// A lease has 300 ms. "collect" makes a request if one is needed, and "settle" one that is sent in
// any case.
TEST(DeliveryStoryTest, WaitsRunsAndEnds) {
  const absl::Duration second = absl::Seconds(1);
  const absl::Duration quarter = absl::Milliseconds(250);
  const Case cases[] = {
      {"a short handler costs nothing",
       second,
       {{0, "add 1"}, {1, "take 1"}, {10, "settle"}, {11, "end"}, {20, "settle"}}},
      {"a report goes with another request, once",
       second,
       {{0, "add 1"},
        {0, "take 1"},
        {9, "settle"},
        {20, "collect"},
        {20, "settle", "begun 1"},
        {30, "settle"},
        {40, "end", "reported"}}},
      {"or alone",
       absl::ZeroDuration(),
       {{0, "add 1"},
        {0, "next", "200"},
        {5, "take 1"},
        {6, "next", "105"},
        {104, "collect"},
        {105, "collect", "begun 1"}}},
      {"a handler that begins soon wakes nobody",
       absl::ZeroDuration(),
       {{0, "add 2"}, {0, "take 1"}, {1, "end"}, {2, "next", "102"}, {102, "next", "200"}}},
      {"the time counts from the begin",
       quarter,
       {{0, "add 1"},
        {100, "collect", "extend 1"},
        {150, "take 1"},
        {200, "collect", "extend 1, begun 1"},
        {300, "collect", "extend 1"},
        {400, "collect"}}},
      {"what waits too long is given back",
       quarter,
       {{0, "add 2"},
        {50, "take 1"},
        {100, "collect", "extend 1, extend 2, begun 1"},
        {200, "collect", "extend 1, release 2"},
        {201, "end", "reported"},
        {202, "take 2", "gone"},
        {300, "collect"}}},
      {"also without extensions",
       absl::ZeroDuration(),
       {{0, "add 1"}, {199, "collect"}, {200, "collect", "release 1"}}},
      {"also if extend_max is shorter than a third of the lease",
       absl::Milliseconds(50),
       {{0, "add 1"}, {100, "collect"}, {200, "collect", "release 1"}}},
      {"nothing is begun after the end of the lease",
       second,
       {{0, "add 2"}, {299, "take 1"}, {299, "end"}, {300, "take 2", "lost"}},
       1},
      {"an extension moves the end",
       second,
       {{0, "add 2"},
        {100, "collect", "extend 1, extend 2"},
        {399, "take 1"},
        {399, "end"},
        {400, "take 2", "lost"}},
       1},
      {"nothing is begun whose extension was refused",
       second,
       {{0, "add 1"},
        {100, "collect", "extend 1"},
        {101, "refused 1", "lease"},
        {102, "take 1", "lost"}},
       1},
      {"a refused report is a lost lease",
       second,
       {{0, "add 1"},
        {0, "take 1"},
        {20, "settle", "begun 1"},
        {21, "refused 1", "lease"},
        {100, "collect"},
        {101, "end", "reported"},
        {102, "refused 1", "settlement"}},
       1},
      {"a lease is lost once",
       second,
       {{0, "add 1"},
        {0, "take 1"},
        {100, "collect", "extend 1, begun 1"},
        {101, "refused 1", "lease"},
        {101, "refused 1", "lease"},
        {102, "refused 1", "settlement"}},
       1},
      {"a lease is lost once, also if the handler returns meanwhile",
       second,
       {{0, "add 1"},
        {0, "take 1"},
        {100, "collect", "extend 1, begun 1"},
        {101, "refused 1", "lease"},
        {101, "end", "reported"},
        {102, "refused 1", "lease"},
        {102, "refused 1", "settlement"}},
       1},
      {"a lease is lost once, also if it waits",
       second,
       {{0, "add 1"},
        {100, "collect", "extend 1"},
        {200, "collect", "extend 1"},
        {201, "refused 1", "lease"},
        {202, "take 1", "lost"},
        {203, "refused 1", "lease"}},
       1},
      {"a handler that leaves a delivery with a lost lease needs no report",
       second,
       {{0, "add 1"},
        {99, "take 1"},
        {100, "collect", "extend 1"},
        {101, "refused 1", "lease"},
        {102, "end", "reported"}},
       1},
      {"the time of a suspect counts from the answer",
       quarter,
       {{0, "suspect 1"},
        {0, "take 1"},
        {0, "collect", "begun 1"},
        {100, "collect", "extend 1"},
        {150, "begun 1"},
        {200, "collect", "extend 1"},
        {300, "collect", "extend 1"},
        {400, "collect"}}},
      {"a suspect waits for the answer, and is extended meanwhile",
       second,
       {{0, "suspect 1"},
        {0, "take 1"},
        {0, "next", "0"},
        {0, "collect", "begun 1"},
        {0, "may?", "wait"},
        {100, "collect", "extend 1"},
        {101, "begun 1"},
        {101, "may?", "yes"},
        {102, "extended 1"},
        {103, "refused 1", "settlement"}}},
      {"a suspect whose report is refused",
       second,
       {{0, "suspect 1"},
        {0, "take 1"},
        {0, "collect", "begun 1"},
        {1, "refused 1", "lease"},
        {1, "may?", "lost"}},
       1},
  };
  for (const Case& test : cases) {
    Story story(test.extend_max);
    for (const Line& line : test.lines) {
      EXPECT_EQ(story.Do(line.ms, line.action), line.result)
          << test.name << ": " << line.action << " at " << line.ms << " ms";
    }
    EXPECT_EQ(story.lost_count(), test.lost) << test.name;
  }
}

}  // namespace
}  // namespace duetime::client
