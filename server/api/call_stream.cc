// SPDX-License-Identifier: Apache-2.0
#include "server/api/call_stream.h"

#include <algorithm>
#include <grpcpp/support/slice.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"

namespace duetime::api {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

constexpr uint32_t TagOf(int field, WireFormatLite::WireType type) {
  return WireFormatLite::MakeTag(field, type);
}

// Makes room for `size` more bytes, and returns where they begin.
uint8_t* Extend(size_t size, std::string* bytes) {
  const size_t before = bytes->size();
  bytes->resize(before + size);
  return reinterpret_cast<uint8_t*>(bytes->data() + before);
}

// Appends a v1::StreamedAnswer to a v1::CallStreamResponse, without a copy of the answer.
void AppendAnswer(int64_t number, int field, const google::protobuf::Message& answer,
                  std::string* response) {
  constexpr uint32_t kAnswerTag =
      TagOf(v1::CallStreamResponse::kAnswersFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  constexpr uint32_t kNumberTag =
      TagOf(v1::StreamedAnswer::kNumberFieldNumber, WireFormatLite::WIRETYPE_VARINT);
  const uint32_t tag = TagOf(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  const size_t size = answer.ByteSizeLong();
  const size_t whole = CodedOutputStream::VarintSize32(kNumberTag) +
                       CodedOutputStream::VarintSize64(static_cast<uint64_t>(number)) +
                       CodedOutputStream::VarintSize32(tag) +
                       CodedOutputStream::VarintSize32(static_cast<uint32_t>(size)) + size;
  uint8_t* at = Extend(CodedOutputStream::VarintSize32(kAnswerTag) +
                           CodedOutputStream::VarintSize32(static_cast<uint32_t>(whole)) + whole,
                       response);
  at = CodedOutputStream::WriteVarint32ToArray(kAnswerTag, at);
  at = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(whole), at);
  at = CodedOutputStream::WriteVarint32ToArray(kNumberTag, at);
  at = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(number), at);
  at = CodedOutputStream::WriteVarint32ToArray(tag, at);
  at = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(size), at);
  answer.SerializeWithCachedSizesToArray(at);
}

}  // namespace

CallStream::~CallStream() {
  DT_CHECK_EQ(open_, 0u);
  worker().AddStreamAnswers(-static_cast<int64_t>(waiting_bytes_ + sending_bytes_));
}

void CallStream::OnOpened() {
  absl::Status status = Open();
  if (status.ok()) status = Serving();
  if (status.ok() && worker().ending()) status = base::DrainingError();
  if (status.ok()) status = Count(&worker().state().call_streams, streams_max());
  if (!status.ok()) {
    OnRefused(status);
    return End(rpc::ToGrpcStatus(status));
  }
  StartRead();
}

void CallStream::OnMessage(grpc::ByteBuffer* buffer) {
  if (closing_.has_value()) return;
  if (absl::Status status = HandleFrame(buffer); !status.ok()) {
    OnRefused(status);
    Close(status);
  }
  Pump();
}

absl::Status CallStream::HandleFrame(grpc::ByteBuffer* buffer) {
  // Rights that have ended since the last frame allow nothing more.
  if (absl::Status status = Recheck(worker().state().machine_clock->Read()); !status.ok())
    return status;
  grpc::Slice frame;
  const bool valid = buffer->Valid() && buffer->DumpToSingleSlice(&frame).ok();
  buffer->Clear();
  if (!valid) return absl::InvalidArgumentError("the frame cannot be read");
  absl::Status status =
      ParseFrame(absl::string_view(reinterpret_cast<const char*>(frame.begin()), frame.size()),
                 *methods_, *limits_, &parsed_);
  for (size_t i = 0; status.ok() && i < parsed_.size(); ++i) {
    if (!numbers_.insert(parsed_[i].number).second) {
      status = Invalid("MALFORMED_REQUEST", absl::StrCat("calls[", i, "].number"),
                       "the number of a call that is open");
    }
  }
  if (!status.ok()) return status;
  open_ += parsed_.size();
  taken_ += static_cast<int64_t>(parsed_.size());
  for (const ParsedCall& parsed : parsed_) {
    if (free_.empty()) {
      StreamedCall::Owner* const owner = this;
      free_.push_back(&calls_.emplace_back(&worker(), owner));
    }
    StreamedCall* const call = free_.back();
    free_.pop_back();
    open_bytes_ += parsed.request.size();
    call->Begin(parsed, frame, Caller());
    // Now or later, it calls OnAnswer.
    parsed.method->run(*app_, *call);
    // The handler has parsed it. It is a part of the frame, and would keep all of it in memory.
    call->request()->Clear();
  }
  if (parsed_.size() > kIdleCallsMax) parsed_ = {};
  return absl::OkStatus();
}

void CallStream::OnAnswer(StreamedCall* call, int field, const google::protobuf::Message& answer) {
  DT_CHECK_GT(open_, 0u);
  --open_;
  open_bytes_ -= call->bytes();
  if (!ended()) {
    numbers_.erase(call->number());
    std::string* const response = OpenResponse();
    const size_t before = response->size();
    AppendAnswer(call->number(), field, answer, response);
    CountAnswers(response->size() - before);
    if (call->delay_ms > 0) {
      const uint64_t now_ms = worker().state().machine_clock->Read().mono_ms;
      read_from_mono_ms_ = std::max(read_from_mono_ms_, now_ms + call->delay_ms);
    }
    DropIfTooLarge();
  }
  // The coroutine still writes call->task after this function. The stream uses the object again
  // from the next frame on.
  call->Reset();
  free_.push_back(call);
  if (!std::exchange(touched_, true)) worker().FlushLater(this);
}

std::string* CallStream::OpenResponse() {
  if (responses_.empty() || responses_.back().size() >= kAnswerBytesMax) responses_.emplace_back();
  return &responses_.back();
}

void CallStream::CountAnswers(size_t bytes) {
  waiting_bytes_ += bytes;
  worker().AddStreamAnswers(static_cast<int64_t>(bytes));
}

void CallStream::DropIfTooLarge() {
  if (waiting_bytes_ + sending_bytes_ < kAnswerBytesMin || !worker().TooManyStreamAnswers()) return;
  worker().state().stats->answers_dropped.fetch_add(1, std::memory_order_relaxed);
  worker().LogDrop(server_context()->peer());
  End(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the client does not read its answers"));
}

void CallStream::Flush() {
  touched_ = false;
  if (open_ == 0 && calls_.size() > kIdleCallsMax) {
    free_.clear();
    calls_.clear();
  }
  if (ended()) return MaybeGo();
  Pump();
}

void CallStream::Pump() {
  if (ended() || writing()) return;
  const bool over = closing_.has_value() && open_ == 0;
  if (over && !closing_->ok() && !std::exchange(told_taken_, true)) {
    constexpr uint32_t kTag =
        TagOf(v1::CallStreamResponse::kCallsTakenFieldNumber, WireFormatLite::WIRETYPE_VARINT);
    const auto taken = static_cast<uint64_t>(taken_);
    const size_t size =
        CodedOutputStream::VarintSize32(kTag) + CodedOutputStream::VarintSize64(taken);
    uint8_t* at = Extend(size, OpenResponse());
    at = CodedOutputStream::WriteVarint32ToArray(kTag, at);
    CodedOutputStream::WriteVarint64ToArray(taken, at);
    CountAnswers(size);
  }
  if (!responses_.empty()) {
    sending_bytes_ = responses_.front().size();
    waiting_bytes_ -= sending_bytes_;
    StartWrite(std::move(responses_.front()));
    responses_.pop_front();
  } else if (over) {
    return End(rpc::ToGrpcStatus(*closing_));
  }
  ReadOn();
}

void CallStream::ReadOn() {
  if (ended() || reading() || closing_.has_value() || read_from_mono_ms_ != 0) return;
  if (open_ < limits_->call_stream_calls_max && open_bytes_ < limits_->batch_bytes_max &&
      waiting_bytes_ < kAnswerBytesMax) {
    StartRead();
  }
}

void CallStream::Close(const absl::Status& status) {
  // The first reason counts.
  if (!closing_.has_value()) closing_ = status;
}

void CallStream::OnReadsDone() {
  Close(absl::OkStatus());
  Pump();
}

void CallStream::OnWritten() {
  worker().AddStreamAnswers(-static_cast<int64_t>(std::exchange(sending_bytes_, 0)));
  Pump();
}

void CallStream::OnServingState() {
  if (ended()) return;
  if (absl::Status status = Serving(); !status.ok()) Close(status);
  if (worker().ending()) {
    Close(base::DrainingError());
    close_by_mono_ms_ = std::min(close_by_mono_ms_,
                                 worker().state().machine_clock->Read().mono_ms + kEndingTimeoutMs);
  }
  Pump();
}

void CallStream::OnSweep(base::Now now) {
  if (now.mono_ms >= close_by_mono_ms_) {
    // Answers are missing. OK would say that there are none, and a reason why a call is refused
    // that the calls changed nothing.
    return End(rpc::ToGrpcStatus(base::DrainingError()));
  }
  DropIfTooLarge();
  if (ended()) return;
  if (absl::Status status = Recheck(now); !status.ok() && !closing_.has_value()) {
    OnRefused(status);
    Close(status);
    return Pump();
  }
  if (read_from_mono_ms_ != 0 && now.mono_ms >= read_from_mono_ms_) {
    read_from_mono_ms_ = 0;
    ReadOn();
  }
}

void CallStream::OnEnded() {
  // What gRPC sends stays in memory until it is sent.
  worker().AddStreamAnswers(-static_cast<int64_t>(std::exchange(waiting_bytes_, 0)));
  responses_.clear();
}

void CallStream::AbandonCalls() {
  for (StreamedCall& call : calls_) {
    if (!call.waiting()) continue;
    call.Abandon();
    call.FinishWithError(base::DrainingError());
  }
}

}  // namespace duetime::api
