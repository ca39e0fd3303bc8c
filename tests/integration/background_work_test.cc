// SPDX-License-Identifier: Apache-2.0
//
// Background work of the built daemon and its bounds: bulk operations, recurrences, topics.
#include <gmock/gmock.h>

#include "tests/integration/lifecycle_calls.h"

namespace duetime::test {
namespace {

using BackgroundWorkTest = LifecycleCallsTest;

TEST_F(BackgroundWorkTest, ABulkOperationDoesWhatItsDryRunSaid) {
  PutTen();
  v1::StartBulkRequest request;
  request.set_topic("t");
  request.set_action(v1::BULK_ACTION_CANCEL);
  (*request.mutable_filter()->mutable_labels())["parity"] = "even";
  request.set_dry_run(true);
  const v1::Operation dry = MustStart(request);
  EXPECT_EQ(dry.state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(dry.matched(), 5);
  EXPECT_EQ(dry.sample_size(), 5);
  EXPECT_EQ(GetKey("key/0").state(), v1::Message::STATE_SCHEDULED);

  request.set_dry_run(false);
  request.set_name("evens");
  EXPECT_EQ(MustStart(request).name(), "evens");
  const v1::Operation done = WaitOperation("evens");
  EXPECT_EQ(done.state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(done.changed(), 5);
  EXPECT_TRUE(done.has_end_time());
  EXPECT_EQ(GetKey("key/0").state(), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(GetKey("key/1").state(), v1::Message::STATE_SCHEDULED);
  // A repeat of the request changes nothing, and the name stays taken.
  EXPECT_EQ(MustStart(request).changed(), 5);
  request.set_action(v1::BULK_ACTION_PURGE);
  v1::StartBulkResponse response;
  EXPECT_EQ(InfoOf(Call(admin_, &v1::Admin::Stub::StartBulk, request, &response)).reason,
            "OPERATION_EXISTS");

  v1::StartBulkRequest shift;
  shift.set_topic("t");
  shift.set_action(v1::BULK_ACTION_SHIFT);
  *shift.mutable_shift_by() = client::ToProto(absl::Hours(-1));
  shift.set_name("shift");
  const auto before = ToTime(GetKey("key/9").deliver_time());
  MustStart(shift);
  EXPECT_EQ(WaitOperation("shift").changed(), 5);
  EXPECT_EQ(before - ToTime(GetKey("key/9").deliver_time()), std::chrono::hours(1));

  v1::StartBulkRequest release;
  release.set_topic("t");
  release.set_action(v1::BULK_ACTION_RELEASE);
  release.set_name("release");
  MustStart(release);
  WaitOperation("release");
  EXPECT_THAT(ReceiveAll("t"), testing::ElementsAre("p1", "p3", "p5", "p7", "p9"));
}

TEST_F(BackgroundWorkTest, ABulkOperationSurvivesACrash) {
  constexpr int kMessages = 20'000;
  for (int i = 0; i < kMessages; i += 5'000) {
    v1::ScheduleBatchRequest batch;
    for (int j = 0; j < 5'000; ++j) *batch.add_messages() = Request("t", kHour + Millis(i + j));
    v1::ScheduleBatchResponse response;
    MustCall(messages_, &v1::Messages::Stub::ScheduleBatch, batch, &response);
  }
  v1::StartBulkRequest request;
  request.set_topic("t");
  request.set_action(v1::BULK_ACTION_CANCEL);
  request.set_name("all");
  MustStart(request);
  Restart();
  const v1::Operation done = WaitOperation("all");
  EXPECT_EQ(done.state(), v1::Operation::STATE_DONE);
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

TEST_F(BackgroundWorkTest, ARecurrenceFiresPausesAndSurvivesACrash) {
  v1::CreateRecurrenceRequest create;
  v1::Recurrence* recurrence = create.mutable_recurrence();
  recurrence->set_name("every-second");
  recurrence->set_topic("t");
  recurrence->mutable_template_()->set_payload("tick");
  recurrence->mutable_schedule()->mutable_interval()->set_seconds(1);
  v1::CreateRecurrenceResponse created;
  MustCall(messages_, &v1::Messages::Stub::CreateRecurrence, create, &created);
  EXPECT_EQ(created.recurrence().state(), v1::Recurrence::STATE_ACTIVE);
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
  EXPECT_EQ(paused.recurrence().state(), v1::Recurrence::STATE_PAUSED);
  // An occurrence may have been in flight.
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

TEST_F(BackgroundWorkTest, OneOccurrenceIsCancelledAndTheNextComes) {
  v1::CreateRecurrenceRequest create;
  v1::Recurrence* recurrence = create.mutable_recurrence();
  recurrence->set_name("hourly");
  recurrence->set_topic("t");
  recurrence->mutable_schedule()->set_cron("0 * * * *");
  recurrence->mutable_schedule()->set_time_zone("Europe/Berlin");
  v1::CreateRecurrenceResponse created;
  MustCall(messages_, &v1::Messages::Stub::CreateRecurrence, create, &created);
  const v1::Recurrence first = created.recurrence();
  EXPECT_EQ(MustCancel(first.next_message_id()).outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
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

TEST_F(BackgroundWorkTest, ATopicHoldsWhatItsSettingsAllow) {
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
  EXPECT_EQ(purge.state(), v1::Operation::STATE_DONE);
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

}  // namespace
}  // namespace duetime::test
