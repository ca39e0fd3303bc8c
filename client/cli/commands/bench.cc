// SPDX-License-Identifier: Apache-2.0
//
// The command bench.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "client/cli/commands/bench_figures.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/terminal/signals.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/subscriber.h"
#include "server/base/mutex.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::Client;

// Threads that schedule batches at once, so that the server can join their writes.
constexpr int kSenders = 4;
constexpr int64_t kBenchBatch = 500;
constexpr int64_t kCalls = 200;
// The messages whose lateness is measured, the time before the first one is due, and the time from
// one to the next.
constexpr int64_t kLateMessages = 2'000;
constexpr absl::Duration kLateLead = absl::Seconds(1);
constexpr absl::Duration kLateStep = absl::Milliseconds(1);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(5);
constexpr absl::Duration kRemovalMax = absl::Seconds(60);

// Measures in a topic of its own. Each step ends early at the end of the time and at Ctrl-C.
class Bench {
 public:
  Bench(const Settings& settings, const Input& input, Client* client, AdminClient* admin,
        Signals* signals)
      : settings_(settings),
        topic_(input.Text("--topic")),
        count_(input.Number("--count")),
        end_(absl::Now() + *input.Duration("--for")),
        client_(client),
        admin_(admin),
        signals_(signals),
        progress_(settings) {
    figures_.payload_bytes = input.Number("--payload-bytes");
    payload_.assign(static_cast<size_t>(figures_.payload_bytes), 'x');
  }

  ExitCode Run() {
    absl::Status status = CreateTopic();
    if (!status.ok()) return Fail(settings_, status);
    status = Measure();
    progress_.Clear();
    if (subscriber_ != nullptr) subscriber_->Stop().IgnoreError();  // The topic goes anyway.
    const absl::Status removed = RemoveTopic();
    if (status.ok()) Print(settings_.json ? FiguresJson(figures_) : FiguresText(figures_));
    if (ended_ && !settings_.json) {
      PrintError(signals_->Interrupted() ? "interrupted\n" : "ended after the time of --for\n");
    }
    if (!removed.ok()) {
      PrintError(
          absl::StrCat("the topic is still there: duetime topic delete ", topic_, " --force\n"));
    }
    if (!status.ok()) return Fail(settings_, status);
    if (!removed.ok()) return Fail(settings_, removed);
    if (signals_->Interrupted()) return kInterrupted;
    return ended_ ? kNotAsWished : kDone;
  }

 private:
  // True once the bench should end.
  bool Ended() {
    if (signals_->Interrupted() || absl::Now() >= end_) ended_ = true;
    return ended_;
  }

  // Refuses a topic that exists, because its messages would be acked and removed.
  absl::Status CreateTopic() {
    v1::GetTopicRequest request;
    request.set_name(topic_);
    const absl::StatusOr<v1::Topic> found = admin_->GetTopic(request);
    if (found.ok()) {
      return absl::AlreadyExistsError(
          absl::StrCat("topic ", topic_,
                       " exists: another bench runs, or one was killed; to remove "
                       "it: duetime topic delete ",
                       topic_, " --force"));
    }
    if (!absl::IsNotFound(found.status())) return found.status();
    v1::Topic topic;
    topic.set_name(topic_);
    // Ended messages leave nothing behind.
    topic.mutable_settings()->mutable_tombstone_retention();
    // The measurement of deliveries resumes it.
    topic.mutable_settings()->set_paused(true);
    return admin_->CreateTopic(topic).status();
  }

  absl::Status Measure() {
    client::SubscriberOptions options;
    options.server = settings_.server;
    options.topic = topic_;
    options.client_id = "duetime bench";
    options.max_outstanding_messages = 10'000;
    options.log = [](absl::LogSeverity, const std::string&) {};
    auto subscriber =
        client::Subscriber::Start(options, [this](const client::Delivery& d) { return Take(d); });
    if (!subscriber.ok()) return subscriber.status();
    subscriber_ = *std::move(subscriber);
    absl::Status status = MeasureSchedule();
    if (status.ok() && !Ended()) status = MeasureDeliver();
    if (status.ok() && !Ended()) status = MeasureCalls();
    if (status.ok() && !Ended()) status = MeasureLateness();
    return status.ok() ? subscriber_->status() : status;
  }

  client::Settlement Take(const client::Delivery& delivery) {
    const base::MutexLock lock(&mutex_);
    if (keeps_lateness_) figures_.lateness.push_back(delivery.lateness());
    return client::Settlement::Ack();
  }

  v1::ScheduleRequest Message() const {
    v1::ScheduleRequest request;
    request.set_topic(topic_);
    request.set_payload(payload_);
    request.mutable_delay();  // Due at once.
    return request;
  }

  // Schedules a batch, of which every message must be accepted.
  absl::Status Send(const v1::ScheduleBatchRequest& batch) {
    // Without request ids: they would cost the server a record for each message.
    const auto results = client_->ScheduleBatch(batch, client::Repeat::kNever);
    if (!results.ok()) return results.status();
    for (const auto& result : *results) {
      if (!result.ok()) return result.status();
    }
    scheduled_ += batch.messages_size();
    return absl::OkStatus();
  }

  absl::Status MeasureSchedule() {
    std::atomic<int64_t> taken = 0;
    std::atomic<bool> stop = false;
    std::vector<absl::Status> ends(kSenders);
    std::atomic<int> running = kSenders;
    const absl::Time start = absl::Now();
    {
      std::vector<std::jthread> senders;
      senders.reserve(ends.size());
      for (absl::Status& end : ends) {
        senders.emplace_back([&, this] {
          for (int64_t first = taken.fetch_add(kBenchBatch); first < count_ && end.ok() && !stop;
               first = taken.fetch_add(kBenchBatch)) {
            v1::ScheduleBatchRequest batch;
            for (int64_t i = first; i < std::min(first + kBenchBatch, count_); ++i) {
              *batch.add_messages() = Message();
            }
            end = Send(batch);
          }
          --running;
        });
      }
      while (running > 0) {
        signals_->Wait(kBetweenLooks);
        stop = Ended();
        progress_.Show(absl::StrCat("scheduled ", scheduled_.load(), " of ", count_));
      }
    }
    figures_.schedule = {.messages = scheduled_, .time = absl::Now() - start};
    for (const absl::Status& end : ends) {
      if (!end.ok()) return end;
    }
    return absl::OkStatus();
  }

  // Waits until the server has confirmed the acks of all messages so far. Returns how many.
  int64_t WaitForAcks() {
    while (Acked() < scheduled_ && !Ended() && !subscriber_->WaitUntilEnded(absl::ZeroDuration())) {
      signals_->Wait(kBetweenLooks);
      progress_.Show(absl::StrCat("acked ", Acked(), " of ", scheduled_.load()));
    }
    return Acked();
  }
  int64_t Acked() const { return subscriber_->counts().acked; }

  absl::Status MeasureDeliver() {
    v1::ResumeTopicRequest request;
    request.set_name(topic_);
    const absl::Time start = absl::Now();
    const absl::StatusOr<v1::Topic> resumed = admin_->ResumeTopic(request);
    if (!resumed.ok()) return resumed.status();
    const int64_t acked = WaitForAcks();
    figures_.deliver = {.messages = acked, .time = absl::Now() - start};
    return absl::OkStatus();
  }

  absl::Status MeasureCalls() {
    for (int64_t i = 0; i < kCalls && !Ended(); ++i) {
      const absl::Time start = absl::Now();
      const auto answer = client_->Schedule(Message(), client::Repeat::kNever);
      if (!answer.ok()) return answer.status();
      figures_.calls.push_back(absl::Now() - start);
      ++scheduled_;
    }
    WaitForAcks();
    return absl::OkStatus();
  }

  absl::Status MeasureLateness() {
    {
      const base::MutexLock lock(&mutex_);
      keeps_lateness_ = true;
    }
    v1::ScheduleBatchRequest batch;
    for (int64_t i = 0; i < kLateMessages; ++i) {
      v1::ScheduleRequest* const message = batch.add_messages();
      *message = Message();
      *message->mutable_delay() = client::ToProto(kLateLead + i * kLateStep);
    }
    const absl::Status sent = Send(batch);
    if (!sent.ok()) return sent;
    WaitForAcks();
    return absl::OkStatus();
  }

  // Messages remain if the bench ended early. Then the server first purges the topic.
  absl::Status RemoveTopic() {
    v1::DeleteTopicRequest request;
    request.set_name(topic_);
    request.set_force(true);
    const absl::Time give_up = absl::Now() + kRemovalMax;
    // A second Ctrl-C ends this, too.
    while (signals_->Wait(absl::ZeroDuration()) != 0) {
    }
    while (absl::Now() < give_up) {
      progress_.Show("removing the topic");
      const absl::StatusOr<v1::DeleteTopicResponse> answer = admin_->DeleteTopic(request);
      if (absl::IsNotFound(answer.status())) return absl::OkStatus();
      if (!answer.ok() && !absl::IsAborted(answer.status())) return answer.status();
      if (answer.ok() && answer->operation().empty()) return absl::OkStatus();
      v1::GetOperationRequest purge;
      if (answer.ok()) purge.set_name(answer->operation());
      while (answer.ok() && absl::Now() < give_up) {
        const absl::StatusOr<v1::Operation> operation = admin_->GetOperation(purge);
        if (!operation.ok()) return operation.status();
        if (operation->state() != v1::Operation::STATE_RUNNING) break;
        if (signals_->Wait(kBetweenLooks) != 0) return absl::CancelledError("interrupted again");
      }
    }
    return absl::DeadlineExceededError("the topic could not be removed in time");
  }

  const Settings& settings_;
  const std::string topic_;
  const int64_t count_;
  const absl::Time end_;
  Client* const client_;
  AdminClient* const admin_;
  Signals* const signals_;
  Progress progress_;
  std::string payload_;
  std::unique_ptr<client::Subscriber> subscriber_;
  // Messages that the server accepted.
  std::atomic<int64_t> scheduled_ = 0;
  bool ended_ = false;
  base::Mutex mutex_;
  bool keeps_lateness_ ABSL_GUARDED_BY(mutex_) = false;
  // The thread of the subscriber writes the lateness; it has ended when the figures are printed.
  Figures figures_;
};

}  // namespace

Command BenchCommand() {
  return {"bench",
          "Measure a server with messages of its own topic, and remove them",
          "Prints how many messages a second the server accepts and delivers, how long one call "
          "takes, and how late\nmessages come. Other work of the server is slower meanwhile. Exit "
          "code 3: it was ended before it was complete.",
          {"", "--count 100000 --payload-bytes 1000 --for 1m --json"},
          {Row("", "--count", "Messages to schedule and deliver",
               {Type(Row::Type::kNumber), Range(1, 1'000'000), Default("20000")}),
           Row("", "--for", "At most this long",
               {Type(Row::Type::kDuration), NotEmpty(), Default("30s")}),
           Row("", "--payload-bytes", "The size of a payload",
               {Type(Row::Type::kNumber), Range(0, 100'000), Default("100")}),
           Row("", "--topic", "The topic, which must not exist yet", {Default("duetime-bench")})},
          {.run = [](const Settings& settings, const Input& input) {
            Signals signals;
            return With<Client>(settings, [&](Client* client) {
              return With<AdminClient>(settings, [&](AdminClient* admin) {
                return Bench(settings, input, client, admin, &signals).Run();
              });
            });
          }}};
}

}  // namespace duetime::cli
