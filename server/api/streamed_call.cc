// SPDX-License-Identifier: Apache-2.0
#include "server/api/streamed_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/failure.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/rpc/grpc_time.h"
#include "storage/time_units.h"

namespace duetime::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// gRPC computes with deadlines in 32 bits.
constexpr uint64_t kTimeoutMsMax = 7 * storage::kDayMs;

absl::Status MalformedFrameError(absl::string_view text) {
  return Invalid("MALFORMED_REQUEST", "calls", text);
}

// Longer ones are not valid, and are left out.
constexpr size_t kTraceBytesMax = 512;

void KeepTrace(absl::string_view from, std::string* to) {
  to->clear();
  if (from.size() <= kTraceBytesMax) to->assign(from.data(), from.size());
}

// Reads the tag of the next field. 0: the end, or bytes that are no field.
int NextField(CodedInputStream* in, WireFormatLite::WireType* type) {
  const uint32_t tag = in->ReadTag();
  *type = WireFormatLite::GetTagWireType(tag);
  return WireFormatLite::GetTagFieldNumber(tag);
}

// Reads the bytes of a field of the type LENGTH_DELIMITED, which are a part of `all`.
bool ReadBytes(CodedInputStream* in, absl::string_view all, absl::string_view* bytes) {
  uint32_t size = 0;
  if (!in->ReadVarint32(&size)) return false;
  const auto at = static_cast<size_t>(in->CurrentPosition());
  if (size > all.size() - at) return false;
  *bytes = all.substr(at, size);
  return in->Skip(static_cast<int>(size));
}

CodedInputStream StreamOf(absl::string_view bytes) {
  return CodedInputStream(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
}

// False if the bytes are not a StreamedCall, or if it has two requests.
bool ParseCall(absl::string_view bytes, const StreamedMethods& methods, ParsedCall* call) {
  CodedInputStream in = StreamOf(bytes);
  WireFormatLite::WireType type{};
  while (const int field = NextField(&in, &type)) {
    if (field == v1::StreamedCall::kNumberFieldNumber && type == WireFormatLite::WIRETYPE_VARINT) {
      uint64_t number = 0;
      if (!in.ReadVarint64(&number)) return false;
      call->number = static_cast<int64_t>(number);
      continue;
    }
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, WireFormatLite::MakeTag(field, type))) return false;
      continue;
    }
    absl::string_view part;
    if (!ReadBytes(&in, bytes, &part)) return false;
    if (const rpc::UnaryMethod* const method = methods.Find(field); method != nullptr) {
      if (call->method != nullptr) return false;
      call->method = method;
      call->field = field;
      call->request = part;
    } else if (field == v1::StreamedCall::kTimeoutFieldNumber) {
      google::protobuf::Duration timeout;
      if (!timeout.ParseFromArray(part.data(), static_cast<int>(part.size()))) return false;
      const std::optional<uint64_t> ms = DurationToMs(timeout);
      if (!ms.has_value()) return false;
      call->timeout_ms = std::min(*ms, kTimeoutMsMax);
    } else if (field == v1::StreamedCall::kTraceparentFieldNumber) {
      call->traceparent = part;
    } else if (field == v1::StreamedCall::kTracestateFieldNumber) {
      call->tracestate = part;
    }
  }
  return in.ConsumedEntireMessage();
}

}  // namespace

StreamedMethods::StreamedMethods(std::span<const rpc::UnaryMethod> all) {
  const auto* const requests = v1::StreamedCall::descriptor()->FindOneofByName("request");
  for (int i = 0; i < requests->field_count(); ++i) {
    const FieldDescriptor& request = *requests->field(i);
    const auto number = static_cast<size_t>(request.number());
    if (by_field_.size() <= number) by_field_.resize(number + 1);
    for (const rpc::UnaryMethod& method : all) {
      if (method.descriptor->input_type() == request.message_type()) by_field_[number] = &method;
    }
    DT_CHECK(by_field_[number] != nullptr);
    const FieldDescriptor* const answer =
        v1::StreamedAnswer::descriptor()->FindFieldByNumber(request.number());
    DT_CHECK(answer->message_type() == by_field_[number]->descriptor->output_type());
  }
}

absl::Status ParseFrame(absl::string_view frame, const StreamedMethods& methods,
                        const RequestLimits& limits, std::vector<ParsedCall>* calls) {
  calls->clear();
  CodedInputStream in = StreamOf(frame);
  WireFormatLite::WireType type{};
  while (const int field = NextField(&in, &type)) {
    if (field != v1::CallStreamRequest::kCallsFieldNumber ||
        type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, WireFormatLite::MakeTag(field, type))) {
        return MalformedFrameError("the bytes are not the protobuf message of a frame");
      }
      continue;
    }
    if (calls->size() == limits.batch_messages_max) {
      return Invalid("BATCH_TOO_LARGE", "calls",
                     absl::StrCat("more than ", limits.batch_messages_max, " calls"),
                     {{"limit", absl::StrCat(limits.batch_messages_max)}});
    }
    absl::string_view part;
    ParsedCall& call = calls->emplace_back();
    if (!ReadBytes(&in, frame, &part) || !ParseCall(part, methods, &call)) {
      return MalformedFrameError("a call in the frame is malformed, or has two requests");
    }
    if (call.method == nullptr) return MalformedFrameError("a call in the frame has no request");
  }
  if (!in.ConsumedEntireMessage()) {
    return MalformedFrameError("the bytes are not the protobuf message of a frame");
  }
  if (calls->size() > 1 && frame.size() > limits.batch_bytes_max) {
    return OverLimit("BATCH_TOO_LARGE", "calls", frame.size(), limits.batch_bytes_max, "bytes");
  }
  return absl::OkStatus();
}

void StreamedCall::Begin(const ParsedCall& parsed, const grpc::Slice& frame,
                         access::CallerPtr client) {
  DT_CHECK(!waiting_);
  waiting_ = true;
  number_ = parsed.number;
  field_ = parsed.field;
  bytes_ = parsed.request.size();
  timeout_ms_ = parsed.timeout_ms;
  KeepTrace(parsed.traceparent, &traceparent_);
  KeepTrace(parsed.tracestate, &tracestate_);
  const auto* const begin = reinterpret_cast<const char*>(frame.begin());
  const auto offset = static_cast<size_t>(parsed.request.data() - begin);
  // A part of the frame, not a copy.
  const grpc::Slice request = frame.sub(offset, offset + bytes_);
  request_ = grpc::ByteBuffer(&request, 1);
  caller = std::move(client);
  BeginCall(parsed.method);
}

void StreamedCall::Reset() {
  DT_CHECK(!waiting_);
  request_.Clear();
  ResetCall();
}

void StreamedCall::Finish(const google::protobuf::Message& response) {
  DT_CHECK(waiting_);
  waiting_ = false;
  EndCall(absl::OkStatus());
  owner_->OnAnswer(this, field_, response);
}

void StreamedCall::FinishWithError(const absl::Status& status) {
  DT_CHECK(waiting_);
  waiting_ = false;
  EndCall(status);
  v1::Failure failure;
  FillFailure(status, &failure);
  owner_->OnAnswer(this, v1::StreamedAnswer::kErrorFieldNumber, failure);
}

std::vector<absl::string_view> StreamedCall::Metadata(absl::string_view name) const {
  if (traceparent_.empty()) return Call::Metadata(name);
  if (name == "traceparent") return {traceparent_};
  if (name != "tracestate") return Call::Metadata(name);
  if (tracestate_.empty()) return {};
  return {tracestate_};
}

gpr_timespec StreamedCall::deadline() const {
  if (timeout_ms_ == ParsedCall::kNoTimeout) return Call::deadline();
  return rpc::AfterSteady(static_cast<int64_t>(timeout_ms_));
}

}  // namespace duetime::api
