// SPDX-License-Identifier: Apache-2.0
//
// The calls about the whole life of messages, against the built daemon: keys, moves, lists,
// forecasts, streams of messages, bulk operations, recurrences, topics.
#include <gmock/gmock.h>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"

#include "tests/integration/daemon_fixture.h"

namespace duetime::test {
namespace {

using v1::ScheduleRequest;

constexpr Millis kHour(3'600'000);

class LifecycleCallsTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon({"--shards=2"}); }

  // One call on either service, with a deadline.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(const std::unique_ptr<Stub>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    response->Clear();
    return (stub.get()->*method)(&context, request, response);
  }
  template <typename Stub, typename Request, typename Response>
  void MustCall(const std::unique_ptr<Stub>& stub,
                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Request& request, Response* response) {
    const grpc::Status status = Call(stub, method, request, response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  static ScheduleRequest Keyed(const std::string& key, Millis delay, const std::string& payload,
                               ScheduleRequest::OnConflict mode = ScheduleRequest::FAIL) {
    ScheduleRequest request = Request("t", delay, payload);
    request.set_key(key);
    request.set_on_conflict(mode);
    return request;
  }

  v1::ScheduleResponse Put(const ScheduleRequest& request) {
    v1::ScheduleResponse response;
    MustCall(messages_, &v1::Messages::Stub::Schedule, request, &response);
    return response;
  }
  grpc::Status Refused(const ScheduleRequest& request) {
    v1::ScheduleResponse response;
    return Call(messages_, &v1::Messages::Stub::Schedule, request, &response);
  }

  template <typename Request>
  static void SetKey(const std::string& key, Request* request) {
    request->mutable_key()->set_topic("t");
    request->mutable_key()->set_key(key);
  }

  v1::Message GetKey(const std::string& key, const std::string& topic = "t") {
    v1::GetRequest request;
    SetKey(key, &request);
    request.mutable_key()->set_topic(topic);
    request.set_view(v1::FULL);
    v1::GetResponse response;
    MustCall(messages_, &v1::Messages::Stub::Get, request, &response);
    return response.message();
  }

  void Restart() {
    server_->Kill();
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
  }

  // The payloads that come until nothing has come for `quiet`, each acked.
  std::multiset<std::string> ReceiveAll(const std::string& topic, Millis quiet = Millis(500)) {
    Subscription subscription(channel_, Subscription::Start{.topic = topic});
    EXPECT_TRUE(subscription.WaitStarted());
    std::multiset<std::string> payloads;
    while (const auto received = subscription.Next(quiet)) {
      payloads.insert(received->delivery.payload());
      EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
    }
    return payloads;
  }

  v1::Operation MustStart(const v1::StartBulkRequest& request) {
    v1::Operation operation;
    MustCall(admin_, &v1::Admin::Stub::StartBulk, request, &operation);
    return operation;
  }
  v1::Operation WaitOperation(const std::string& name) {
    v1::GetOperationRequest request;
    request.set_name(name);
    v1::Operation operation;
    const auto deadline = Clock::now() + Millis(20'000);
    do {
      MustCall(admin_, &v1::Admin::Stub::GetOperation, request, &operation);
      if (HasFatalFailure()) return operation;
      std::this_thread::sleep_for(Millis(10));
    } while (operation.state() == v1::Operation::RUNNING && Clock::now() < deadline);
    return operation;
  }

  // A list of the topic's keys, page by page.
  std::vector<std::string> ListKeys(v1::ListRequest request, int* pages) {
    std::vector<std::string> keys;
    v1::ListResponse response;
    *pages = 0;
    do {
      MustCall(messages_, &v1::Messages::Stub::List, request, &response);
      if (HasFatalFailure()) return keys;
      for (const v1::Message& message : response.messages()) keys.push_back(message.key());
      request.set_page_token(response.next_page_token());
      ++*pages;
    } while (!response.next_page_token().empty());
    return keys;
  }

  // Ten messages key/0 ... key/9, an hour and some minutes from now, with a label each second one.
  void PutTen() {
    for (int i = 0; i < 10; ++i) {
      ScheduleRequest request =
          Keyed(absl::StrCat("key/", i), kHour + Millis(60'000 * i), absl::StrCat("p", i));
      (*request.mutable_labels())["parity"] = i % 2 == 0 ? "even" : "odd";
      Put(request);
    }
  }
};

TEST_F(LifecycleCallsTest, AKeyIsFoundReplacedAndFreedAgain) {
  ScheduleRequest first = Keyed("k", kHour, "one");
  *first.mutable_deliver_time() = client::ToProto(absl::Now() + absl::Hours(2));
  const v1::ScheduleResponse created = Put(first);
  EXPECT_EQ(created.outcome(), v1::CREATED);
  const v1::ScheduleResponse again = Put(first);
  EXPECT_EQ(again.outcome(), v1::UNCHANGED);
  EXPECT_EQ(again.message().id(), created.message().id());
  EXPECT_EQ(again.message().etag(), created.message().etag());

  const grpc::Status mismatch = Refused(Keyed("k", kHour, "two"));
  EXPECT_EQ(mismatch.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(InfoOf(mismatch).reason, "CONTENT_MISMATCH");
  EXPECT_EQ(InfoOf(mismatch).metadata.at("message_id"), created.message().id());

  const v1::ScheduleResponse replaced = Put(Keyed("k", kHour, "two", ScheduleRequest::REPLACE));
  EXPECT_EQ(replaced.outcome(), v1::REPLACED);
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
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::CANCELLED);
  MustCall(messages_, &v1::Messages::Stub::Cancel, cancel, &cancelled);
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::ALREADY_CANCELLED);
  EXPECT_EQ(cancelled.message_id(), created.message().id());

  ScheduleRequest only = Keyed("k", kHour, "three", ScheduleRequest::REPLACE);
  only.set_only_if_exists(true);
  EXPECT_EQ(InfoOf(Refused(only)).reason, "MESSAGE_NOT_FOUND");
  const v1::ScheduleResponse next = Put(Keyed("k", kHour, "three", ScheduleRequest::REPLACE));
  EXPECT_EQ(next.outcome(), v1::CREATED);
  EXPECT_EQ(next.previous_message_id(), created.message().id());
}

TEST_F(LifecycleCallsTest, ARequestIdMakesARepeatSafe) {
  ScheduleRequest request = Request("t", kHour, "p");
  request.set_request_id("intent");
  const v1::ScheduleResponse first = Put(request);
  Restart();
  const v1::ScheduleResponse repeat = Put(request);
  EXPECT_EQ(repeat.message().id(), first.message().id());
  EXPECT_EQ(repeat.outcome(), v1::CREATED);
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
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::RESCHEDULED);
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
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::SETTLED);
  EXPECT_EQ(response.state(), v1::Message::ACKED);
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
  EXPECT_EQ(response.results(0).cancel().outcome(), v1::CancelResponse::CANCELLED);
  EXPECT_EQ(client::GetErrorInfo(client::ToAbslStatus(response.results(1).error())).reason,
            "INVALID_MESSAGE_ID");
  EXPECT_EQ(response.results(2).cancel().outcome(), v1::CancelResponse::NOT_FOUND);
  EXPECT_EQ(response.results(3).cancel().outcome(), v1::CancelResponse::ALREADY_CANCELLED);
  EXPECT_EQ(response.results(4).cancel().outcome(), v1::CancelResponse::CANCELLED);
  EXPECT_EQ(GetKey("key/7").state(), v1::Message::CANCELLED);
  EXPECT_EQ(GetKey("key/4").state(), v1::Message::SCHEDULED);
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

  // A token belongs to its filter, and the topic must exist.
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
  request.set_bucket(v1::ForecastRequest::MINUTE);
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
  EXPECT_EQ(response.message().state(), v1::Message::ACKED);
  EXPECT_EQ(response.timeline().attempts(), 1);
  EXPECT_GE(ToTime(response.timeline().fire_time()), ToTime(accepted.deliver_time()));
  EXPECT_GE(ToTime(response.timeline().first_dispatch_time()),
            ToTime(response.timeline().fire_time()));
  EXPECT_GE(ToTime(response.timeline().end_time()),
            ToTime(response.timeline().first_dispatch_time()));
  EXPECT_FALSE(response.summary().empty());
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
      // In the middle of them.
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
        EXPECT_EQ(result.outcome(), v1::UNCHANGED) << number;
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

TEST_F(LifecycleCallsTest, ABulkOperationDoesWhatItsDryRunSaid) {
  PutTen();
  v1::StartBulkRequest request;
  request.set_topic("t");
  request.set_action(v1::BULK_CANCEL);
  (*request.mutable_filter()->mutable_labels())["parity"] = "even";
  request.set_dry_run(true);
  const v1::Operation dry = MustStart(request);
  EXPECT_EQ(dry.state(), v1::Operation::DONE);
  EXPECT_EQ(dry.matched(), 5);
  EXPECT_EQ(dry.sample_size(), 5);
  EXPECT_EQ(GetKey("key/0").state(), v1::Message::SCHEDULED);

  request.set_dry_run(false);
  request.set_name("evens");
  EXPECT_EQ(MustStart(request).name(), "evens");
  const v1::Operation done = WaitOperation("evens");
  EXPECT_EQ(done.state(), v1::Operation::DONE);
  EXPECT_EQ(done.changed(), 5);
  EXPECT_TRUE(done.has_end_time());
  EXPECT_EQ(GetKey("key/0").state(), v1::Message::CANCELLED);
  EXPECT_EQ(GetKey("key/1").state(), v1::Message::SCHEDULED);
  // A repeat changes nothing; the name is taken.
  EXPECT_EQ(MustStart(request).changed(), 5);
  request.set_action(v1::BULK_PURGE);
  v1::Operation operation;
  EXPECT_EQ(InfoOf(Call(admin_, &v1::Admin::Stub::StartBulk, request, &operation)).reason,
            "OPERATION_EXISTS");

  v1::StartBulkRequest shift;
  shift.set_topic("t");
  shift.set_action(v1::BULK_SHIFT);
  *shift.mutable_shift_by() = client::ToProto(absl::Hours(-1));
  shift.set_name("shift");
  const auto before = ToTime(GetKey("key/9").deliver_time());
  MustStart(shift);
  EXPECT_EQ(WaitOperation("shift").changed(), 5);
  EXPECT_EQ(before - ToTime(GetKey("key/9").deliver_time()), std::chrono::hours(1));

  v1::StartBulkRequest release;
  release.set_topic("t");
  release.set_action(v1::BULK_RELEASE);
  release.set_name("release");
  MustStart(release);
  WaitOperation("release");
  EXPECT_THAT(ReceiveAll("t"), testing::ElementsAre("p1", "p3", "p5", "p7", "p9"));
}

TEST_F(LifecycleCallsTest, ABulkOperationSurvivesACrash) {
  constexpr int kMessages = 20'000;
  for (int i = 0; i < kMessages; i += 5'000) {
    v1::ScheduleBatchRequest batch;
    for (int j = 0; j < 5'000; ++j) *batch.add_messages() = Request("t", kHour + Millis(i + j));
    v1::ScheduleBatchResponse response;
    MustCall(messages_, &v1::Messages::Stub::ScheduleBatch, batch, &response);
  }
  v1::StartBulkRequest request;
  request.set_topic("t");
  request.set_action(v1::BULK_CANCEL);
  request.set_name("all");
  MustStart(request);
  Restart();
  const v1::Operation done = WaitOperation("all");
  EXPECT_EQ(done.state(), v1::Operation::DONE);
  EXPECT_GE(done.matched(), kMessages);
  v1::ListRequest list;
  list.set_topic("t");
  int pages = 0;
  EXPECT_THAT(ListKeys(list, &pages), testing::IsEmpty());
  v1::ListOperationsRequest operations;
  v1::ListOperationsResponse listed;
  MustCall(admin_, &v1::Admin::Stub::ListOperations, operations, &listed);
  ASSERT_EQ(listed.operations_size(), 1);
  EXPECT_EQ(listed.operations(0).name(), "all");
}

TEST_F(LifecycleCallsTest, ARecurrenceFiresPausesAndSurvivesACrash) {
  v1::CreateRecurrenceRequest create;
  v1::Recurrence* recurrence = create.mutable_recurrence();
  recurrence->set_name("every-second");
  recurrence->set_topic("t");
  recurrence->mutable_template_()->set_payload("tick");
  recurrence->mutable_schedule()->mutable_interval()->set_seconds(1);
  v1::CreateRecurrenceResponse created;
  MustCall(messages_, &v1::Messages::Stub::CreateRecurrence, create, &created);
  EXPECT_EQ(created.recurrence().state(), v1::Recurrence::ACTIVE);
  EXPECT_FALSE(created.recurrence().next_message_id().empty());
  {
    Subscription subscription(channel_, Subscription::Start{.topic = "t"});
    int64_t last = 0;
    for (int i = 0; i < 2; ++i) {
      const auto received = subscription.Next();
      ASSERT_TRUE(received.has_value());
      EXPECT_EQ(received->delivery.recurrence(), "every-second");
      EXPECT_GT(received->delivery.occurrence(), last);
      last = received->delivery.occurrence();
      EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
    }
  }
  Restart();
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  const auto received = subscription.Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.payload(), "tick");
  EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);

  v1::PauseRecurrenceRequest pause;
  pause.set_name("every-second");
  v1::PauseRecurrenceResponse paused;
  MustCall(messages_, &v1::Messages::Stub::PauseRecurrence, pause, &paused);
  EXPECT_EQ(paused.recurrence().state(), v1::Recurrence::PAUSED);
  // One may have been on its way.
  while (const auto late = subscription.Next(Millis(300))) subscription.AckAndWait(late->delivery);
  EXPECT_TRUE(subscription.StaysQuiet(Millis(1'500)));
  v1::ResumeRecurrenceRequest resume;
  resume.set_name("every-second");
  v1::ResumeRecurrenceResponse resumed;
  MustCall(messages_, &v1::Messages::Stub::ResumeRecurrence, resume, &resumed);
  EXPECT_TRUE(subscription.Next().has_value());
  v1::DeleteRecurrenceRequest remove;
  remove.set_name("every-second");
  v1::DeleteRecurrenceResponse removed;
  MustCall(messages_, &v1::Messages::Stub::DeleteRecurrence, remove, &removed);
  EXPECT_EQ(InfoOf(Call(messages_, &v1::Messages::Stub::DeleteRecurrence, remove, &removed)).reason,
            "RECURRENCE_NOT_FOUND");
}

TEST_F(LifecycleCallsTest, OneOccurrenceIsCancelledAndTheNextComes) {
  v1::CreateRecurrenceRequest create;
  v1::Recurrence* recurrence = create.mutable_recurrence();
  recurrence->set_name("hourly");
  recurrence->set_topic("t");
  recurrence->mutable_schedule()->set_cron("0 * * * *");
  recurrence->mutable_schedule()->set_time_zone("Europe/Berlin");
  v1::CreateRecurrenceResponse created;
  MustCall(messages_, &v1::Messages::Stub::CreateRecurrence, create, &created);
  const v1::Recurrence first = created.recurrence();
  EXPECT_EQ(MustCancel(first.next_message_id()).outcome(), v1::CancelResponse::CANCELLED);
  v1::GetRecurrenceRequest get;
  get.set_name("hourly");
  v1::GetRecurrenceResponse found;
  const auto deadline = Clock::now() + Millis(10'000);
  do {
    MustCall(messages_, &v1::Messages::Stub::GetRecurrence, get, &found);
  } while (found.recurrence().next_message_id() == first.next_message_id() &&
           Clock::now() < deadline);
  EXPECT_EQ(ToTime(found.recurrence().next_deliver_time()) - ToTime(first.next_deliver_time()),
            std::chrono::hours(1));
  v1::PreviewRecurrenceRequest preview;
  preview.set_name("hourly");
  preview.set_count(3);
  v1::PreviewRecurrenceResponse previewed;
  MustCall(messages_, &v1::Messages::Stub::PreviewRecurrence, preview, &previewed);
  EXPECT_EQ(previewed.occurrences_size(), 3);
}

TEST_F(LifecycleCallsTest, ATopicHoldsWhatItsSettingsAllow) {
  v1::CreateTopicRequest create;
  create.mutable_topic()->set_name("t");
  create.mutable_topic()->mutable_settings()->set_max_pending(2);
  v1::CreateTopicResponse created;
  MustCall(admin_, &v1::Admin::Stub::CreateTopic, create, &created);
  const v1::Message one = MustSchedule("t", kHour);
  MustSchedule("t", kHour);
  const grpc::Status full = Refused(Request("t", kHour));
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(InfoOf(full).reason, "TOPIC_FULL");
  MustCancel(one.id());
  MustSchedule("t", kHour);
  Restart();
  EXPECT_EQ(InfoOf(Refused(Request("t", kHour))).reason, "TOPIC_FULL");

  v1::GetTopicRequest get;
  get.set_name("t");
  v1::GetTopicResponse topic;
  MustCall(admin_, &v1::Admin::Stub::GetTopic, get, &topic);
  EXPECT_EQ(topic.topic().settings().max_pending(), 2);
  EXPECT_EQ(topic.topic().counts().pending(), 2);
  v1::UpdateTopicRequest update;
  update.mutable_topic()->set_name("t");
  update.mutable_topic()->mutable_settings()->set_max_pending(3);
  update.mutable_update_mask()->add_paths("settings.max_pending");
  v1::UpdateTopicResponse updated;
  MustCall(admin_, &v1::Admin::Stub::UpdateTopic, update, &updated);
  MustSchedule("t", kHour);

  v1::DeleteTopicRequest remove;
  remove.set_name("t");
  v1::DeleteTopicResponse removed;
  const grpc::Status full_of_messages =
      Call(admin_, &v1::Admin::Stub::DeleteTopic, remove, &removed);
  EXPECT_EQ(full_of_messages.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(InfoOf(full_of_messages).reason, "TOPIC_NOT_EMPTY");
  remove.set_force(true);
  MustCall(admin_, &v1::Admin::Stub::DeleteTopic, remove, &removed);
  ASSERT_FALSE(removed.operation().empty());
  const v1::Operation purge = WaitOperation(removed.operation());
  EXPECT_EQ(purge.state(), v1::Operation::DONE);
  EXPECT_EQ(purge.changed(), 3);
  remove.set_force(false);
  MustCall(admin_, &v1::Admin::Stub::DeleteTopic, remove, &removed);
  const auto reason = [&] {
    return InfoOf(Call(admin_, &v1::Admin::Stub::GetTopic, get, &topic)).reason;
  };
  EXPECT_EQ(reason(), "TOPIC_NOT_FOUND");
  Restart();
  EXPECT_EQ(reason(), "TOPIC_NOT_FOUND");
}

TEST_F(LifecycleCallsTest, CivilTimeIsResolvedInItsZone) {
  ScheduleRequest request = Request("t", Millis(0));
  // The clocks go forward in Berlin that night: half past two does not exist.
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
