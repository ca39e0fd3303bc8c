// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/subscriber.h"

#include <algorithm>
#include <chrono>
#include <grpcpp/grpcpp.h>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cpp/callback.h"
#include "client/cpp/connection_log.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"
#include "client/cpp/subscriber_state.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "server/base/mutex.h"

namespace duetime::client {
namespace {

// How often a subscriber that waits for its server looks whether it should stop.
constexpr absl::Duration kLookEvery = absl::Milliseconds(50);
// The longest pause, so that an infinite one does not overflow the clock's arithmetic.
constexpr absl::Duration kPauseMax = absl::Hours(24 * 365);
// A subscriber that gets neither a stream nor an error for this long says so.
constexpr absl::Duration kOverdueAfter = absl::Seconds(5);

// Returns true if a new stream may succeed. An error about the request itself is permanent. Other
// errors may pass: a restart, a full table, a broken connection (for which gRPC has several codes).
bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return false;
    default:
      return true;
  }
}

v1::SubscribeRequest MakeStart(const SubscriberOptions& options, int64_t max_deliveries) {
  v1::SubscribeRequest request;
  v1::SubscribeStart* start = request.mutable_start();
  start->set_topic(options.topic);
  start->set_subscription(options.subscription);
  start->set_client_id(options.client_id);
  start->set_max_outstanding_messages(options.max_outstanding_messages);
  start->set_max_outstanding_bytes(options.max_outstanding_bytes);
  start->set_max_deliveries(max_deliveries);
  start->set_reports_begun(true);
  if (options.lease != absl::ZeroDuration()) {
    *start->mutable_lease_duration() = ToProto(options.lease);
  }
  return request;
}

}  // namespace

v1::Settlement ToProto(const Settlement& settlement, std::string lease_token) {
  v1::Settlement proto;
  proto.set_lease_token(std::move(lease_token));
  const auto set_delay = [&settlement](auto* action) {
    if (settlement.delay.has_value()) *action->mutable_delay() = ToProto(*settlement.delay);
  };
  switch (settlement.kind) {
    case Settlement::Kind::kAck:
      break;
    case Settlement::Kind::kLeave:
      // Without an action it would be an ack. The server refuses a settlement without a token.
      proto.clear_lease_token();
      break;
    case Settlement::Kind::kNack:
      proto.mutable_nack()->set_reason(settlement.reason);
      set_delay(proto.mutable_nack());
      break;
    case Settlement::Kind::kDeadLetter:
      proto.mutable_dead_letter()->set_reason(settlement.reason);
      break;
    case Settlement::Kind::kRelease:
      set_delay(proto.mutable_release());
      break;
  }
  return proto;
}

absl::Time Delivery::deliver_time() const { return FromProto(proto_.deliver_time()); }
absl::Time Delivery::accept_time() const { return FromProto(proto_.accept_time()); }
absl::Duration Delivery::lateness() const { return FromProto(proto_.lateness()); }

// The threads: the connection thread, which starts a reader and a writer for each stream, and the
// handlers.
class Subscriber::Impl {
 public:
  // One of the two handlers is empty.
  Impl(const SubscriberOptions& options, Handler handler, BatchHandler batch_handler,
       const std::shared_ptr<grpc::Channel>& channel)
      : options_(options),
        handler_(std::move(handler)),
        batch_handler_(std::move(batch_handler)),
        channel_(channel),
        stub_(v1::Messages::NewStub(channel)),
        log_(options.topic, options.server.target),
        state_(std::max(1, options.handler_threads), options.extend_max, options.max_deliveries) {
    for (int i = 0; i < std::max(1, options.handler_threads); ++i) {
      handlers_.emplace_back([this, i] { batch_handler_ ? HandleBatches(i) : Handle(i); });
    }
    connection_ = std::thread([this] { KeepConnected(); });
  }

  ~Impl() {
    for (std::thread& handler : handlers_) handler.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Stop(absl::Duration confirm_timeout, absl::Duration handlers_timeout) {
    const base::MutexLock lock(&stop_mutex_);
    if (!connection_.joinable()) return stopped_;
    state_.RequestStop();
    const bool handled = state_.WaitHandled(handlers_timeout);
    const bool confirmed = state_.WaitConfirmed(confirm_timeout);
    state_.Close();
    connection_.join();
    if (!handled) {
      stopped_ = absl::DeadlineExceededError(
          "stopped while handlers were running; their messages come again");
    } else if (!confirmed) {
      stopped_ = absl::DeadlineExceededError(
          "stopped before the server had confirmed every settlement; those messages may come "
          "again");
    }
    return stopped_;
  }

  SubscriberState& state() { return state_; }

 private:
  void KeepConnected() {
    Backoff backoff(options_.backoff, std::random_device{}());
    for (;;) {
      const auto opened = std::chrono::steady_clock::now();
      const std::optional<int64_t> max_deliveries = state_.BeginStream();
      if (!max_deliveries.has_value()) return;
      const absl::Status status = RunStream(*max_deliveries);
      if (state_.EndIfDone()) return;
      if (!MayPass(status)) {
        Log(log_.OnRefused(status));
        state_.Fail(status);
        return;
      }
      // A stream that lived longer than the longest wait starts the backoff anew.
      const auto lived = absl::FromChrono(std::chrono::steady_clock::now() - opened);
      if (lived > options_.backoff.max) backoff.Reset();
      const absl::Duration wait =
          backoff.Next(GetErrorInfo(status).retry_delay.value_or(absl::ZeroDuration()));
      if (!state_.Running()) return;
      Log(log_.OnEnded(std::chrono::steady_clock::now(), status));
      RunCallback(options_.log, "on_disconnect", options_.on_disconnect, status);
      if (!PauseBeforeNext(status, wait)) return;
    }
  }

  // Waits before the next stream. Returns false as soon as a stop is requested. Waits
  // inside gRPC, which connects only while a thread calls it (as in caller.cc). After a change of
  // leader in a cell, the wait ends early once a member leads.
  bool PauseBeforeNext(const absl::Status& status, absl::Duration wait) {
    const std::string reason = GetErrorInfo(status).reason;
    const bool leader_changes = HasSeveralAddresses(options_.server.target) &&
                                absl::IsUnavailable(status) &&
                                (reason.empty() || reason == "NOT_LEADER" || reason == "DRAINING");
    const auto deadline =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(std::min(wait, kPauseMax));
    if (!state_.Pause(std::min(wait, kLookEvery))) return false;
    while (state_.Running() && std::chrono::steady_clock::now() < deadline) {
      if (!channel_->WaitForConnected(std::chrono::system_clock::now() +
                                      absl::ToChronoMicroseconds(kLookEvery))) {
        continue;
      }
      if (leader_changes) break;
      return state_.Pause(absl::FromChrono(deadline - std::chrono::steady_clock::now()));
    }
    return state_.Running();
  }

  // Runs one stream from its opening to its end. Returns how it ended.
  absl::Status RunStream(int64_t max_deliveries) {
    grpc::ClientContext context;
    auto stream = stub_->Subscribe(&context);
    std::thread reader([&] { Read(stream.get()); });
    std::thread writer([&] { Write(stream.get(), max_deliveries); });
    const absl::Duration overdue_after = std::min(kOverdueAfter, options_.silence_max);
    SubscriberState::StreamEvent event = state_.WatchStream(overdue_after);
    if (event == SubscriberState::StreamEvent::kSilent) {
      Log(log_.OnOverdue(std::chrono::steady_clock::now(), overdue_after));
      event = state_.WatchStream(options_.silence_max);
    }
    if (event != SubscriberState::StreamEvent::kOver) context.TryCancel();
    reader.join();
    state_.EndStream();
    writer.join();
    const absl::Status status = ToAbslStatus(stream->Finish());
    if (event == SubscriberState::StreamEvent::kSilent) {
      return absl::UnavailableError(absl::StrCat("no sign of life from the server for ",
                                                 absl::FormatDuration(options_.silence_max)));
    }
    return status;
  }

  using Stream = grpc::ClientReaderWriter<v1::SubscribeRequest, v1::SubscribeResponse>;

  void Read(Stream* stream) {
    auto frame = state_.NewFrame();
    while (stream->Read(&frame->response)) {
      if (frame->response.has_started()) {
        Log(log_.OnOpened(std::chrono::steady_clock::now()));
        RunCallback(options_.log, "on_connect", options_.on_connect, frame->response.started());
      }
      state_.OnFrame(std::move(frame));
      frame = state_.NewFrame();
    }
    state_.OnReadEnd();
  }

  void Write(Stream* stream, int64_t max_deliveries) {
    v1::SubscribeRequest request = MakeStart(options_, max_deliveries);
    while (stream->Write(request)) {
      switch (state_.NextWrite(&request)) {
        case SubscriberState::WriteTask::kWrite:
          continue;
        case SubscriberState::WriteTask::kHalfClose:
          stream->WritesDone();
          return;
        case SubscriberState::WriteTask::kEnd:
          return;
      }
    }
  }

  void Handle(int handler) {
    while (std::optional<Work> work = state_.TakeWork(handler)) {
      while (state_.Settle(&*work, HandleOne(Delivery(work->delivery())))) {
      }
    }
  }

  void HandleBatches(int handler) {
    while (std::optional<Batch> batch =
               state_.TakeBatch(handler, std::max(1, options_.batch_max))) {
      state_.SettleBatch(&*batch, HandleBatch(*batch));
    }
  }

  void Log(const std::optional<ConnectionLog::Line>& line) const {
    if (line.has_value()) WriteLog(options_.log, line->severity, line->text);
  }

  Settlement HandleOne(const Delivery& delivery) const {
    return CatchAll([&] { return handler_(delivery); },
                    [](const char* text) { return Settlement::Nack(text); });
  }

  // As SubscriberState::SettleBatch takes them.
  std::vector<Settlement> HandleBatch(const Batch& batch) const {
    std::vector<Delivery> deliveries;
    deliveries.reserve(batch.places.size());
    for (const Batch::Place& place : batch.places) deliveries.emplace_back(place.delivery());
    const auto fail = [&](const std::string& reason) {
      WriteLog(options_.log, absl::LogSeverity::kError,
               absl::StrCat("a handler of the topic \"", options_.topic, "\" failed: ", reason));
      return std::vector<Settlement>(deliveries.size(), Settlement::Nack(reason));
    };
    std::vector<Settlement> settlements =
        CatchAll([&] { return batch_handler_(deliveries); }, fail);
    if (settlements.empty() || settlements.size() == deliveries.size()) return settlements;
    return fail(absl::StrCat("the handler returned ", settlements.size(), " settlements for ",
                             deliveries.size(), " deliveries"));
  }

  const SubscriberOptions options_;
  const Handler handler_;
  const BatchHandler batch_handler_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Messages::Stub> stub_;
  ConnectionLog log_;
  SubscriberState state_;
  std::vector<std::thread> handlers_;
  // Started by the constructor, joined by Stop.
  std::thread connection_;

  // Makes Stop idempotent for callers on several threads.
  base::Mutex stop_mutex_;
  absl::Status stopped_ ABSL_GUARDED_BY(stop_mutex_);
};

Subscriber::Subscriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Subscriber::~Subscriber() { Stop().IgnoreError(); }

absl::StatusOr<std::unique_ptr<Subscriber>> Subscriber::Start(const SubscriberOptions& options,
                                                              Handler handler) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Subscriber>(
      new Subscriber(std::make_unique<Impl>(options, std::move(handler), nullptr, *channel)));
}

absl::StatusOr<std::unique_ptr<Subscriber>> Subscriber::StartBatch(const SubscriberOptions& options,
                                                                   BatchHandler handler) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Subscriber>(
      new Subscriber(std::make_unique<Impl>(options, nullptr, std::move(handler), *channel)));
}

bool Subscriber::WaitUntilEnded(absl::Duration timeout) {
  return impl_->state().WaitUntilEnded(timeout);
}

absl::Status Subscriber::status() const { return impl_->state().status(); }

absl::Status Subscriber::Stop(absl::Duration confirm_timeout, absl::Duration handlers_timeout) {
  return impl_->Stop(confirm_timeout, handlers_timeout);
}

SubscriberCounts Subscriber::counts() const { return impl_->state().counts(); }

}  // namespace duetime::client
