// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/load.h"

#include <algorithm>
#include <string>
#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"

namespace duetime::bench {

int64_t WallMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double Quantile(std::vector<double>* values, double quantile) {
  if (values->empty()) return 0;
  std::sort(values->begin(), values->end());
  const auto last = static_cast<double>(values->size() - 1);
  return (*values)[static_cast<size_t>(last * quantile)];
}

MessageSource::MessageSource(std::string topic, int64_t ahead_ms, int64_t spread_ms, uint64_t seed)
    : topic_(std::move(topic)),
      ahead_ms_(ahead_ms),
      spread_(0, std::max<int64_t>(spread_ms, 1) - 1),
      random_(seed) {}

void MessageSource::FillPayload(v1::ScheduleRequest* message) {
  constexpr size_t kBytes = 128;
  std::string* const payload = message->mutable_payload();
  payload->assign(kBytes, 'x');
  for (size_t i = 0; i < kBytes / 2; i += sizeof(uint64_t)) {
    const uint64_t bits = random_();
    payload->replace(i, sizeof(bits), reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
}

void MessageSource::Fill(v1::ScheduleRequest* message) {
  message->set_topic(topic_);
  FillPayload(message);
  const int64_t due_ms = WallMillis() + ahead_ms_ + spread_(random_);
  message->mutable_deliver_time()->set_seconds(due_ms / 1000);
  message->mutable_deliver_time()->set_nanos(static_cast<int32_t>(due_ms % 1000) * 1'000'000);
  if (keys_ == 0) return;
  message->set_key("k" + std::to_string(random_() % keys_));
  message->set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK);
}

namespace {

template <typename Response>
using Reader = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>>;

// One call in flight. The next call reuses it.
template <typename Response>
struct Slot {
  std::unique_ptr<grpc::ClientContext> context;
  Reader<Response> reader;
  Response response;
  grpc::Status status;
  SteadyClock::time_point start;
  uint64_t messages = 0;
};

// Runs calls until `next` returns no reader. `next` begins a call and sets the number of its
// messages. `count` returns how many messages of a response succeeded.
template <typename Response, typename Next, typename Count>
LoadResult Run(int in_flight, Next next, Count count) {
  grpc::CompletionQueue queue;
  std::vector<Slot<Response>> slots(static_cast<size_t>(in_flight));
  std::vector<double> latencies;
  LoadResult result;
  int open = 0;
  const auto begin_next = [&](Slot<Response>* slot) {
    slot->context = std::make_unique<grpc::ClientContext>();
    slot->start = SteadyClock::now();
    slot->reader = next(slot->context.get(), &queue, &slot->messages);
    if (slot->reader == nullptr) return;
    ++open;
    slot->reader->Finish(&slot->response, &slot->status, slot);
  };
  const auto begin = SteadyClock::now();
  for (Slot<Response>& slot : slots) begin_next(&slot);
  void* tag = nullptr;
  bool ok = false;
  while (open > 0 && queue.Next(&tag, &ok)) {
    auto* const slot = static_cast<Slot<Response>*>(tag);
    --open;
    latencies.push_back(SecondsSince(slot->start) * 1e3);
    const uint64_t done = ok && slot->status.ok() ? count(slot->response) : 0;
    result.operations += static_cast<double>(done);
    result.errors += slot->messages - done;
    begin_next(slot);
  }
  result.per_second = result.operations / SecondsSince(begin);
  result.p50_ms = Quantile(&latencies, 0.5);
  result.p99_ms = Quantile(&latencies, 0.99);
  queue.Shutdown();
  return result;
}

uint64_t CountCancelled(const v1::CancelResponse& response) {
  return response.outcome() == v1::CancelResponse::OUTCOME_CANCELLED ? 1 : 0;
}

}  // namespace

LoadResult ScheduleFor(const Channel& channel, MessageSource* source, int in_flight, double seconds,
                       std::vector<std::string>* ids) {
  const auto stub = v1::Messages::NewStub(channel);
  const auto end = SteadyClock::now() + std::chrono::duration<double>(seconds);
  v1::ScheduleRequest request;
  return Run<v1::ScheduleResponse>(
      in_flight,
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue, uint64_t* messages) {
        if (SteadyClock::now() >= end) return Reader<v1::ScheduleResponse>();
        *messages = 1;
        source->Fill(&request);
        return Reader<v1::ScheduleResponse>(stub->AsyncSchedule(context, request, queue));
      },
      [&](const v1::ScheduleResponse& response) {
        if (ids != nullptr) ids->push_back(response.message().id());
        return uint64_t{1};
      });
}

LoadResult EchoFor(const Channel& channel, int in_flight, double seconds) {
  namespace health = grpc::health::v1;
  const auto stub = health::Health::NewStub(channel);
  const auto end = SteadyClock::now() + std::chrono::duration<double>(seconds);
  return Run<health::HealthCheckResponse>(
      in_flight,
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue, uint64_t* messages) {
        if (SteadyClock::now() >= end) return Reader<health::HealthCheckResponse>();
        *messages = 1;
        return Reader<health::HealthCheckResponse>(stub->AsyncCheck(context, {}, queue));
      },
      [](const health::HealthCheckResponse&) { return uint64_t{1}; });
}

LoadResult CancelEach(const Channel& channel, const std::vector<std::string>& ids, int in_flight) {
  const auto stub = v1::Messages::NewStub(channel);
  size_t sent = 0;
  v1::CancelRequest request;
  return Run<v1::CancelResponse>(
      in_flight,
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue, uint64_t* messages) {
        if (sent == ids.size()) return Reader<v1::CancelResponse>();
        *messages = 1;
        request.set_message_id(ids[sent++]);
        return Reader<v1::CancelResponse>(stub->AsyncCancel(context, request, queue));
      },
      CountCancelled);
}

namespace {

// Keeps `in_flight` calls open on one stream, from one thread, until `next` makes no more. `count`
// says whether an answer is a success. Counts no latencies.
template <typename Next, typename Count>
LoadResult RunOnStream(const Channel& channel, int in_flight, Next next, Count count) {
  const auto stub = v1::Messages::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->CallStream(&context);
  LoadResult result;
  int64_t sent = 0;
  int64_t answered = 0;
  const auto send = [&](int calls) {
    v1::CallStreamRequest frame;
    for (int i = 0; i < calls; ++i) {
      v1::StreamedCall* const call = frame.add_calls();
      call->set_number(++sent);
      if (next(call)) continue;
      frame.mutable_calls()->RemoveLast();
      --sent;
      break;
    }
    if (frame.calls_size() > 0) stream->Write(frame);
  };
  const auto begin = SteadyClock::now();
  send(in_flight);
  v1::CallStreamResponse response;
  while (answered < sent && stream->Read(&response)) {
    for (const v1::StreamedAnswer& answer : response.answers()) {
      if (count(answer)) {
        ++result.operations;
      } else {
        ++result.errors;
      }
    }
    answered += response.answers_size();
    send(response.answers_size());
  }
  result.errors += static_cast<uint64_t>(sent - answered);
  result.per_second = result.operations / SecondsSince(begin);
  stream->WritesDone();
  while (stream->Read(&response)) continue;
  static_cast<void>(stream->Finish());
  return result;
}

}  // namespace

LoadResult ScheduleOnStream(const Channel& channel, MessageSource* source, int in_flight,
                            double seconds, std::vector<std::string>* ids) {
  const auto begin = SteadyClock::now();
  return RunOnStream(
      channel, in_flight,
      [&](v1::StreamedCall* call) {
        if (SecondsSince(begin) >= seconds) return false;
        source->Fill(call->mutable_schedule());
        return true;
      },
      [&](const v1::StreamedAnswer& answer) {
        if (!answer.has_schedule()) return false;
        ids->push_back(answer.schedule().message().id());
        return true;
      });
}

LoadResult CancelOnStream(const Channel& channel, const std::vector<std::string>& ids,
                          int in_flight) {
  size_t begun = 0;
  return RunOnStream(
      channel, in_flight,
      [&](v1::StreamedCall* call) {
        if (begun == ids.size()) return false;
        call->mutable_cancel()->set_message_id(ids[begun++]);
        return true;
      },
      [](const v1::StreamedAnswer& answer) { return CountCancelled(answer.cancel()) == 1; });
}

LoadResult RunBatches(const Channel& channel, int batches, int in_flight,
                      const std::function<void(int, v1::ScheduleBatchRequest*)>& fill,
                      std::vector<std::string>* ids) {
  const auto stub = v1::Messages::NewStub(channel);
  v1::ScheduleBatchRequest request;
  int sent = 0;
  return Run<v1::ScheduleBatchResponse>(
      in_flight,
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue, uint64_t* messages) {
        if (sent == batches) return Reader<v1::ScheduleBatchResponse>();
        fill(sent++, &request);
        *messages = static_cast<uint64_t>(request.messages_size());
        return Reader<v1::ScheduleBatchResponse>(stub->AsyncScheduleBatch(context, request, queue));
      },
      [&](const v1::ScheduleBatchResponse& response) {
        uint64_t accepted = 0;
        for (const v1::ScheduleResult& result : response.results()) {
          if (result.has_error()) continue;
          ++accepted;
          if (ids != nullptr) ids->push_back(result.message().id());
        }
        return accepted;
      });
}

LoadResult ScheduleBatches(const Channel& channel, MessageSource* source, int64_t messages,
                           int size, int in_flight, std::vector<std::string>* ids) {
  return RunBatches(
      channel, static_cast<int>(messages / size), in_flight,
      [&](int, v1::ScheduleBatchRequest* request) {
        while (request->messages_size() < size) request->add_messages();
        for (v1::ScheduleRequest& message : *request->mutable_messages()) source->Fill(&message);
      },
      ids);
}

LoadResult CancelBatches(const Channel& channel, const std::vector<std::string>& ids, int size,
                         int in_flight) {
  const auto stub = v1::Messages::NewStub(channel);
  size_t sent = 0;
  v1::CancelBatchRequest request;
  return Run<v1::CancelBatchResponse>(
      in_flight,
      [&](grpc::ClientContext* context, grpc::CompletionQueue* queue, uint64_t* messages) {
        if (sent == ids.size()) return Reader<v1::CancelBatchResponse>();
        request.Clear();
        while (sent < ids.size() && request.cancels_size() < size) {
          request.add_cancels()->set_message_id(ids[sent++]);
        }
        *messages = static_cast<uint64_t>(request.cancels_size());
        return Reader<v1::CancelBatchResponse>(stub->AsyncCancelBatch(context, request, queue));
      },
      [](const v1::CancelBatchResponse& response) {
        uint64_t cancelled = 0;
        for (const auto& result : response.results()) cancelled += CountCancelled(result.cancel());
        return cancelled;
      });
}

}  // namespace duetime::bench
