// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/load.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unistd.h>

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

double ProcessCpuSeconds(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // The fields after the program's name, which may contain spaces. utime and stime are the 12th and
  // 13th of these fields.
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  double ticks = 0;
  for (int i = 1; i <= 13 && fields >> field; ++i) {
    if (i >= 12) ticks += std::stod(field);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

uint64_t ProcessResidentBytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

v1::ScheduleRequest MakeMessage(const std::string& topic, size_t payload_bytes, int64_t delay_ms) {
  v1::ScheduleRequest request;
  request.set_topic(topic);
  request.set_payload(std::string(payload_bytes, 'x'));
  request.mutable_delay()->set_seconds(delay_ms / 1000);
  request.mutable_delay()->set_nanos(static_cast<int32_t>(delay_ms % 1000) * 1'000'000);
  return request;
}

namespace {

// The state of one call in flight, reused for the next call.
template <typename Stub, typename Request, typename Response>
struct Slot {
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  Response response;
  grpc::Status status;
  SteadyClock::time_point start;
  int messages = 0;
};

LoadResult Summarize(uint64_t count, double seconds, uint64_t errors,
                     std::vector<double>* latencies) {
  return {.per_second = static_cast<double>(count) / seconds,
          .p50_ms = Quantile(latencies, 0.5),
          .p99_ms = Quantile(latencies, 0.99),
          .errors = errors};
}

// Runs calls until `next` returns false. `next` prepares a slot's request and starts the call.
template <typename Slot, typename Next>
LoadResult Run(grpc::CompletionQueue* queue, int in_flight, Next next) {
  std::vector<Slot> slots(static_cast<size_t>(in_flight));
  std::vector<double> latencies;
  uint64_t done = 0;
  uint64_t errors = 0;
  int open = 0;
  const auto begin = SteadyClock::now();
  for (Slot& slot : slots) {
    if (next(&slot)) ++open;
  }
  void* tag = nullptr;
  bool ok = false;
  while (open > 0 && queue->Next(&tag, &ok)) {
    auto* slot = static_cast<Slot*>(tag);
    latencies.push_back(SecondsSince(slot->start) * 1e3);
    if (!ok || !slot->status.ok()) {
      ++errors;
    } else {
      done += static_cast<uint64_t>(slot->messages);
    }
    if (!next(slot)) --open;
  }
  return Summarize(done, SecondsSince(begin), errors, &latencies);
}

}  // namespace

LoadResult RunUnary(const std::shared_ptr<grpc::Channel>& channel, bool schedule, int in_flight,
                    double seconds) {
  grpc::CompletionQueue queue;
  const auto end = SteadyClock::now() + std::chrono::duration<double>(seconds);
  LoadResult result;
  if (schedule) {
    using ScheduleSlot = Slot<v1::Messages::Stub, v1::ScheduleRequest, v1::ScheduleResponse>;
    const auto stub = v1::Messages::NewStub(channel);
    const v1::ScheduleRequest request = MakeMessage("bench", 128, 3'600'000);
    result = Run<ScheduleSlot>(&queue, in_flight, [&](ScheduleSlot* slot) {
      if (SteadyClock::now() >= end) return false;
      slot->context = std::make_unique<grpc::ClientContext>();
      slot->messages = 1;
      slot->start = SteadyClock::now();
      slot->reader = stub->AsyncSchedule(slot->context.get(), request, &queue);
      slot->reader->Finish(&slot->response, &slot->status, slot);
      return true;
    });
  } else {
    namespace health = grpc::health::v1;
    using EchoSlot =
        Slot<health::Health::Stub, health::HealthCheckRequest, health::HealthCheckResponse>;
    const auto stub = health::Health::NewStub(channel);
    const health::HealthCheckRequest request;
    result = Run<EchoSlot>(&queue, in_flight, [&](EchoSlot* slot) {
      if (SteadyClock::now() >= end) return false;
      slot->context = std::make_unique<grpc::ClientContext>();
      slot->messages = 1;
      slot->start = SteadyClock::now();
      slot->reader = stub->AsyncCheck(slot->context.get(), request, &queue);
      slot->reader->Finish(&slot->response, &slot->status, slot);
      return true;
    });
  }
  queue.Shutdown();
  return result;
}

LoadResult RunBatches(const std::shared_ptr<grpc::Channel>& channel, int batches, int in_flight,
                      const std::function<void(int, v1::ScheduleBatchRequest*)>& fill) {
  grpc::CompletionQueue queue;
  using BatchSlot = Slot<v1::Messages::Stub, v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>;
  const auto stub = v1::Messages::NewStub(channel);
  v1::ScheduleBatchRequest request;
  int sent = 0;
  const LoadResult result = Run<BatchSlot>(&queue, in_flight, [&](BatchSlot* slot) {
    if (sent == batches) return false;
    fill(sent++, &request);
    slot->context = std::make_unique<grpc::ClientContext>();
    slot->messages = request.messages_size();
    slot->start = SteadyClock::now();
    slot->reader = stub->AsyncScheduleBatch(slot->context.get(), request, &queue);
    slot->reader->Finish(&slot->response, &slot->status, slot);
    return true;
  });
  queue.Shutdown();
  return result;
}

}  // namespace duetime::bench
