// SPDX-License-Identifier: Apache-2.0
#include "server/api/query_validation.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/api/page_token.h"
#include "server/base/error.h"
#include "storage/time_units.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

TEST(ValidateListTest, ATokenBelongsToItsFilter) {
  v1::ListRequest request;
  request.set_topic("orders");
  (*request.mutable_labels())["a"] = "b";
  api::ValidList valid;
  ASSERT_TRUE(api::ValidateList(request, api::RequestLimits{}, &valid).ok());
  EXPECT_EQ(valid.page_size, api::kPageSizeDefault);
  request.set_page_size(1'000'000);
  ASSERT_TRUE(api::ValidateList(request, api::RequestLimits{}, &valid).ok());
  EXPECT_EQ(valid.page_size, api::kPageSizeMax);
  const query::ListPosition position = {.place = {.due_ms = 5, .id = {.high = 6, .low = 7}},
                                        .key = "k"};
  request.set_page_token(api::MakePageToken(valid.token_filter, position));
  request.set_page_size(7);
  ASSERT_TRUE(api::ValidateList(request, api::RequestLimits{}, &valid).ok());
  EXPECT_EQ(valid.from, position);
  const std::vector<std::function<void(v1::ListRequest*)>> changes = {
      [](v1::ListRequest* r) { r->set_topic("other"); },
      [](v1::ListRequest* r) { r->set_key_prefix("x"); },
      [](v1::ListRequest* r) { (*r->mutable_labels())["a"] = "c"; },
      [](v1::ListRequest* r) { r->mutable_start_time()->set_seconds(1); },
      [](v1::ListRequest* r) { r->mutable_end_time()->set_seconds(1); },
      [](v1::ListRequest* r) { r->add_states(v1::Message::STATE_DUE); },
  };
  for (const auto& change : changes) {
    v1::ListRequest other = request;
    change(&other);
    api::ValidList unused;
    EXPECT_EQ(RefusalOf(api::ValidateList(other, api::RequestLimits{}, &unused)),
              "INVALID_PAGE_TOKEN page_token");
  }
}

TEST(PageTokenTest, AnyChangedCharacterIsNoticed) {
  const query::ListPosition position = {.place = {.due_ms = 5, .id = {.high = 6, .low = 7}},
                                        .key = "k"};
  const std::string token = api::MakePageToken("filter", position);
  EXPECT_EQ(api::ReadPageToken(token, "filter"), position);
  EXPECT_FALSE(api::ReadPageToken(token, "filter2").has_value());
  EXPECT_FALSE(api::ReadPageToken("", "filter").has_value());
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_NE(api::ReadPageToken(changed, "filter"), position) << i;
    EXPECT_FALSE(api::ReadPageToken(token.substr(0, i), "filter").has_value()) << i;
  }
}

TEST(PageTokenTest, OnlyTheTextThatTheServerGaveIsAToken) {
  const query::ListPosition position = {.place = {.due_ms = 5, .id = {}}, .key = ""};
  const std::string token = api::MakePageToken("filter", position);
  EXPECT_TRUE(api::ReadPageToken(token, "filter").has_value());
  for (const std::string& other : {" " + token, token + " ", token + "\n", token + "=",
                                   token + "==", token.substr(0, 7) + "\t" + token.substr(7)}) {
    EXPECT_FALSE(api::ReadPageToken(other, "filter").has_value()) << other;
  }
}

TEST(ValidateForecastTest, RangeAndBuckets) {
  v1::ForecastRequest request;
  api::ValidForecast valid;
  ASSERT_TRUE(api::ValidateForecast(request, kNow, &valid).ok());
  EXPECT_EQ(valid.topic, "");
  EXPECT_EQ(valid.range.bucket_ms, storage::kHourMs);
  EXPECT_EQ(valid.range.buckets, 24u);
  EXPECT_EQ(valid.range.start_ms, kNow - kNow % storage::kHourMs);
  request.set_bucket(v1::ForecastRequest::BUCKET_DAY);
  request.set_buckets(10'000);
  ASSERT_TRUE(api::ValidateForecast(request, kNow, &valid).ok());
  EXPECT_EQ(valid.range.start_ms % storage::kDayMs, 0u);
  EXPECT_EQ(valid.range.buckets, 10'000u);
}

}  // namespace
}  // namespace duetime::rpc
