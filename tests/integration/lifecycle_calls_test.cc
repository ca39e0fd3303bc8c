// SPDX-License-Identifier: Apache-2.0
//
// The calls about single messages and lists, against the built daemon: keys, request ids,
// reschedules, batches of cancels, lists, forecasts, schedule streams, civil times.
#include "tests/integration/lifecycle_calls.h"

#include <gmock/gmock.h>
#include <set>

namespace duetime::test {
namespace {

TEST_F(LifecycleCallsTest, AKeyIsFoundReplacedAndFreedAgain) {
  ScheduleRequest first = Keyed("k", kHour, "one");
  *first.mutable_deliver_time() = client::ToProto(absl::Now() + absl::Hours(2));
  const v1::ScheduleResponse created = Put(first);
  EXPECT_EQ(created.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  const v1::ScheduleResponse again = Put(first);
  EXPECT_EQ(again.outcome(), v1::SCHEDULE_OUTCOME_UNCHANGED);
  EXPECT_EQ(again.message().id(), created.message().id());
  EXPECT_EQ(again.message().etag(), created.message().etag());

  const grpc::Status mismatch = Refused(Keyed("k", kHour, "two"));
  EXPECT_EQ(mismatch.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(InfoOf(mismatch).reason, "CONTENT_MISMATCH");
  EXPECT_EQ(InfoOf(mismatch).metadata.at("message_id"), created.message().id());

  const v1::ScheduleResponse replaced =
      Put(Keyed("k", kHour, "two", ScheduleRequest::ON_CONFLICT_REPLACE));
  EXPECT_EQ(replaced.outcome(), v1::SCHEDULE_OUTCOME_REPLACED);
  EXPECT_EQ(replaced.message().id(), created.message().id());
  EXPECT_NE(replaced.message().etag(), created.message().etag());
  EXPECT_EQ(ToTime(replaced.old_deliver_time()), ToTime(created.message().deliver_time()));
  Restart();
  EXPECT_EQ(GetKey("k").payload(), "two");
  EXPECT_EQ(GetKey("k").etag(), replaced.message().etag());

  v1::CancelRequest cancel;
  SetKey("k", &cancel);
  v1::CancelResponse cancelled;
  MustCall(messages_, &v1::Messages::Stub::Cancel, cancel, &cancelled);
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  MustCall(messages_, &v1::Messages::Stub::Cancel, cancel, &cancelled);
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_EQ(cancelled.message_id(), created.message().id());

  ScheduleRequest only = Keyed("k", kHour, "three", ScheduleRequest::ON_CONFLICT_REPLACE);
  only.set_only_if_exists(true);
  EXPECT_EQ(InfoOf(Refused(only)).reason, "MESSAGE_NOT_FOUND");
  const v1::ScheduleResponse next =
      Put(Keyed("k", kHour, "three", ScheduleRequest::ON_CONFLICT_REPLACE));
  EXPECT_EQ(next.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(next.previous_message_id(), created.message().id());

  // The key is free after the end of its message, also for the same content.
  ScheduleRequest last = Keyed("k", kHour, "three");
  EXPECT_EQ(Put(last).message().id(), next.message().id());
  MustCall(messages_, &v1::Messages::Stub::Cancel, cancel, &cancelled);
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  Restart();
  const v1::ScheduleResponse anew = Put(last);
  EXPECT_EQ(anew.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(anew.previous_message_id(), next.message().id());
  EXPECT_EQ(GetKey("k").state(), v1::Message::STATE_SCHEDULED);
}

TEST_F(LifecycleCallsTest, ARequestIdMakesARepeatSafe) {
  ScheduleRequest request = Request("t", kHour, "p");
  request.set_request_id("intent");
  const v1::ScheduleResponse first = Put(request);
  Restart();
  const v1::ScheduleResponse repeat = Put(request);
  EXPECT_EQ(repeat.message().id(), first.message().id());
  EXPECT_EQ(repeat.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(ToTime(repeat.message().deliver_time()), ToTime(first.message().deliver_time()));
  request.set_payload("q");
  EXPECT_EQ(InfoOf(Refused(request)).reason, "REQUEST_ID_REUSED");
  request.set_request_id("another");
  request.set_validate_only(true);
  EXPECT_EQ(Put(request).message().id(), "");
  EXPECT_EQ(CountsWhen([](const v1::Counts&) { return true; }).accepted(), 0);
}

TEST_F(LifecycleCallsTest, ARescheduledMessageComesAtItsNewTimeOnly) {
  const v1::Message far = Put(Keyed("sooner", kHour, "sooner")).message();
  const v1::Message near = Put(Keyed("later", Millis(400), "later")).message();
  v1::RescheduleRequest request;
  request.set_message_id(near.id());
  *request.mutable_delay() = client::ToProto(absl::Hours(3));
  request.set_etag(near.etag());
  v1::RescheduleResponse response;
  MustCall(messages_, &v1::Messages::Stub::Reschedule, request, &response);
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_RESCHEDULED);
  EXPECT_EQ(ToTime(response.old_deliver_time()), ToTime(near.deliver_time()));
  EXPECT_NE(response.message().etag(), near.etag());
  const grpc::Status stale = Call(messages_, &v1::Messages::Stub::Reschedule, request, &response);
  EXPECT_EQ(stale.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(InfoOf(stale).reason, "ETAG_MISMATCH");

  request.Clear();
  SetKey("sooner", &request);
  *request.mutable_delay() = client::ToProto(absl::Milliseconds(300));
  MustCall(messages_, &v1::Messages::Stub::Reschedule, request, &response);
  EXPECT_EQ(response.message().id(), far.id());
  Restart();
  EXPECT_THAT(ReceiveAll("t", Millis(1'000)), testing::ElementsAre("sooner"));
  MustCall(messages_, &v1::Messages::Stub::Reschedule, request, &response);
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_SETTLED);
  EXPECT_EQ(response.state(), v1::Message::STATE_ACKED);
  EXPECT_TRUE(response.has_end_time());
}

TEST_F(LifecycleCallsTest, ABatchOfCancelsAnswersEachInOrder) {
  PutTen();
  v1::CancelBatchRequest request;
  SetKey("key/3", request.add_cancels());
  request.add_cancels()->set_message_id("nonsense");
  SetKey("none", request.add_cancels());
  SetKey("key/3", request.add_cancels());
  request.add_cancels()->set_message_id(GetKey("key/7").id());
  v1::CancelBatchResponse response;
  MustCall(messages_, &v1::Messages::Stub::CancelBatch, request, &response);
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.results(0).cancel().outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(client::GetErrorInfo(client::ToAbslStatus(response.results(1).error())).reason,
            "INVALID_MESSAGE_ID");
  EXPECT_EQ(response.results(2).cancel().outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  EXPECT_EQ(response.results(3).cancel().outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_EQ(response.results(4).cancel().outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(GetKey("key/7").state(), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(GetKey("key/4").state(), v1::Message::STATE_SCHEDULED);
}

TEST_F(LifecycleCallsTest, AListComesPageByPageInDueOrder) {
  PutTen();
  v1::ListRequest request;
  request.set_topic("t");
  request.set_page_size(3);
  int pages = 0;
  const std::vector<std::string> all = {"key/0", "key/1", "key/2", "key/3", "key/4",
                                        "key/5", "key/6", "key/7", "key/8", "key/9"};
  EXPECT_EQ(ListKeys(request, &pages), all);
  EXPECT_GE(pages, 4);
  (*request.mutable_labels())["parity"] = "odd";
  EXPECT_THAT(ListKeys(request, &pages),
              testing::ElementsAre("key/1", "key/3", "key/5", "key/7", "key/9"));
  request.clear_labels();
  *request.mutable_start_time() = GetKey("key/2").deliver_time();
  *request.mutable_end_time() = GetKey("key/4").deliver_time();
  EXPECT_THAT(ListKeys(request, &pages), testing::ElementsAre("key/2", "key/3"));
  request.set_key_prefix("key/3");
  EXPECT_THAT(ListKeys(request, &pages), testing::ElementsAre("key/3"));

  // A page token is valid only with its filter, and the topic must exist.
  request.Clear();
  request.set_topic("t");
  request.set_page_size(3);
  v1::ListResponse response;
  MustCall(messages_, &v1::Messages::Stub::List, request, &response);
  request.set_page_token(response.next_page_token());
  request.set_key_prefix("key/");
  EXPECT_EQ(InfoOf(Call(messages_, &v1::Messages::Stub::List, request, &response)).reason,
            "INVALID_PAGE_TOKEN");
  request.Clear();
  request.set_topic("none");
  EXPECT_EQ(InfoOf(Call(messages_, &v1::Messages::Stub::List, request, &response)).reason,
            "TOPIC_NOT_FOUND");
}

TEST_F(LifecycleCallsTest, AForecastCountsWhatIsToCome) {
  PutTen();
  MustSchedule("t", Millis(0));
  MustSchedule("other", kHour);
  MustSchedule("t", 1'000 * kHour);
  v1::ForecastRequest request;
  request.set_topic("t");
  *request.mutable_start_time() = client::ToProto(absl::Now() + absl::Minutes(30));
  request.set_bucket(v1::ForecastRequest::BUCKET_MINUTE);
  request.set_buckets(120);
  v1::ForecastResponse response;
  MustCall(admin_, &v1::Admin::Stub::Forecast, request, &response);
  EXPECT_EQ(response.buckets_size(), 10);
  for (const v1::ForecastBucket& bucket : response.buckets()) {
    EXPECT_EQ(bucket.count().messages(), 1);
    EXPECT_GT(bucket.count().bytes(), 0);
  }
  EXPECT_EQ(response.overdue().messages(), 1);
  EXPECT_EQ(response.later().messages(), 1);
  EXPECT_EQ(response.total().messages(), 12);
  request.clear_topic();
  Restart();
  MustCall(admin_, &v1::Admin::Stub::Forecast, request, &response);
  EXPECT_EQ(response.total().messages(), 13);
}

TEST_F(LifecycleCallsTest, ExplainTellsTheStory) {
  const v1::Message accepted = MustSchedule("t", Millis(100));
  v1::ExplainRequest request;
  request.set_message_id(accepted.id());
  v1::ExplainResponse response;
  MustCall(messages_, &v1::Messages::Stub::Explain, request, &response);
  EXPECT_EQ(ToTime(response.timeline().due_time()), ToTime(accepted.deliver_time()));
  EXPECT_FALSE(response.timeline().has_first_dispatch_time());
  EXPECT_THAT(ReceiveAll("t", Millis(1'000)), testing::SizeIs(1));
  MustCall(messages_, &v1::Messages::Stub::Explain, request, &response);
  EXPECT_EQ(response.message().state(), v1::Message::STATE_ACKED);
  EXPECT_EQ(response.timeline().attempts(), 1);
  EXPECT_GE(ToTime(response.timeline().fire_time()), ToTime(accepted.deliver_time()));
  EXPECT_GE(ToTime(response.timeline().first_dispatch_time()),
            ToTime(response.timeline().fire_time()));
  EXPECT_GE(ToTime(response.timeline().end_time()),
            ToTime(response.timeline().first_dispatch_time()));
  EXPECT_FALSE(response.summary().empty());
}

// Before and after a kill.
TEST_F(LifecycleCallsTest, ExplainTellsFailures) {
  const v1::Message accepted = MustSchedule("t", Millis(0));
  for (const char* reason : {"HTTP 503", "HTTP 504"}) {
    v1::PullRequest pull;
    pull.set_topic("t");
    pull.set_client_id("worker-1");
    pull.mutable_wait()->set_seconds(10);
    v1::PullResponse pulled;
    MustCall(messages_, &v1::Messages::Stub::Pull, pull, &pulled);
    ASSERT_EQ(pulled.deliveries_size(), 1);
    v1::SettleRequest settle;
    v1::Settlement* const nack = settle.add_settlements();
    nack->set_lease_token(pulled.deliveries(0).lease_token());
    nack->mutable_nack()->set_reason(reason);
    nack->mutable_nack()->mutable_delay()->set_nanos(100'000'000);
    v1::SettleResponse settled;
    MustCall(messages_, &v1::Messages::Stub::Settle, settle, &settled);
    ASSERT_EQ(settled.settled_size(), 1);
  }
  v1::ExplainRequest request;
  request.set_message_id(accepted.id());
  const auto told = [&] {
    v1::ExplainResponse response;
    MustCall(messages_, &v1::Messages::Stub::Explain, request, &response);
    EXPECT_THAT(response.summary(), testing::HasSubstr("attempt 2 was nacked: \"HTTP 504\"."));
    return response.subscriptions(0);
  };
  const v1::SubscriptionStatus before = told();
  ASSERT_EQ(before.last_attempts_size(), 2);
  const v1::Attempt& first = before.last_attempts(0);
  EXPECT_EQ(first.number(), 1);
  EXPECT_EQ(first.end(), v1::Attempt::END_NACKED);
  EXPECT_EQ(first.client_id(), "worker-1");
  EXPECT_EQ(first.reason(), "HTTP 503");
  EXPECT_EQ(first.delay().nanos(), 100'000'000);
  EXPECT_GE(ToTime(first.end_time()), ToTime(accepted.deliver_time()));
  Restart();
  const v1::SubscriptionStatus after = told();
  ASSERT_EQ(after.last_attempts_size(), 2);
  EXPECT_EQ(after.last_attempts(0).SerializeAsString(), first.SerializeAsString());
}

TEST_F(LifecycleCallsTest, AStreamThatBreaksIsRepeatedSafelyByKeys) {
  constexpr int kFrames = 20;
  const auto frame = [](int number) {
    v1::ScheduleStreamRequest request;
    for (int i = 0; i < 10; ++i) {
      const std::string key = absl::StrCat(number, ".", i);
      *request.add_messages() = Keyed(key, kHour, key);
    }
    return request;
  };
  int answered = 0;
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto stream = messages_->ScheduleStream(&context);
    v1::ScheduleStreamResponse response;
    for (int i = 0; i < kFrames && stream->Write(frame(i)); ++i) {
      if (i < kFrames / 2) continue;
      if (!stream->Read(&response)) break;
      EXPECT_EQ(response.first(), answered * 10);
      EXPECT_EQ(response.results_size(), 10);
      ++answered;
      // Kills the daemon while calls are open.
      if (answered == 4) server_->Kill();
    }
    context.TryCancel();
    EXPECT_FALSE(stream->Finish().ok());
  }
  EXPECT_GE(answered, 4);
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = messages_->ScheduleStream(&context);
  for (int i = 0; i < kFrames; ++i) ASSERT_TRUE(stream->Write(frame(i)));
  stream->WritesDone();
  v1::ScheduleStreamResponse response;
  int number = 0;
  for (; stream->Read(&response); ++number) {
    for (const v1::ScheduleResult& result : response.results()) {
      ASSERT_TRUE(result.has_message()) << result.error().message();
      if (number < answered) {
        EXPECT_EQ(result.outcome(), v1::SCHEDULE_OUTCOME_UNCHANGED) << number;
      }
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(number, kFrames);
  v1::ListRequest list;
  list.set_topic("t");
  int pages = 0;
  const std::vector<std::string> keys = ListKeys(list, &pages);
  EXPECT_EQ(keys.size(), 200u);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 200u);
}

TEST_F(LifecycleCallsTest, CivilTimeIsResolvedInItsZone) {
  ScheduleRequest request = Request("t", Millis(0));
  // The clocks in Berlin go forward that night, so the local time 02:30 does not exist.
  request.mutable_civil_time()->set_local("2027-03-28T02:30");
  request.mutable_civil_time()->set_time_zone("Europe/Berlin");
  const v1::Message message = MustSchedule(request);
  EXPECT_EQ(message.deliver_time().seconds(), 1'806'197'400);  // 2027-03-28T01:30:00Z
  EXPECT_EQ(message.civil_time().local(), "2027-03-28T02:30");
  EXPECT_EQ(message.civil_time().time_zone(), "Europe/Berlin");
  request.mutable_civil_time()->set_time_zone("Europe/Nowhere");
  EXPECT_EQ(InfoOf(Refused(request)).reason, "INVALID_TIME_ZONE");
  request.mutable_civil_time()->set_time_zone("UTC");
  request.mutable_civil_time()->set_local("2027-02-29T00:00");
  EXPECT_EQ(InfoOf(Refused(request)).reason, "INVALID_CIVIL_TIME");
}

}  // namespace
}  // namespace duetime::test
