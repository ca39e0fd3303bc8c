// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/message_io.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"

namespace duetime::rpc {
namespace {

absl::Status MalformedRequestError() {
  return base::MakeError(
      absl::StatusCode::kInvalidArgument,
      "the bytes are not the protobuf message of this call, or a string in it is not UTF-8",
      {.reason = "MALFORMED_REQUEST", .field = "", .metadata = {}, .retry_after_ms = 0});
}

absl::Status UnknownFieldsError(size_t bytes) {
  return base::MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("unknown fields: ", bytes, " bytes, limit ", kUnknownFieldBytesMax),
      {.reason = "MALFORMED_REQUEST",
       .field = "",
       .metadata = {{"value", absl::StrCat(bytes)}, {"limit", absl::StrCat(kUnknownFieldBytesMax)}},
       .retry_after_ms = 0});
}

}  // namespace

absl::Status CheckRequest(grpc::ByteBuffer* buffer, const google::protobuf::Descriptor* type,
                          WireSummary* summary) {
  if (!buffer->Valid()) return MalformedRequestError();
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) return MalformedRequestError();
  *summary = CheckWire(&reader, type);
  if (!summary->well_formed) return MalformedRequestError();
  if (summary->unknown_bytes > kUnknownFieldBytesMax) {
    return UnknownFieldsError(summary->unknown_bytes);
  }
  return absl::OkStatus();
}

absl::Status ParseChecked(grpc::ByteBuffer* buffer, google::protobuf::Message* message) {
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) return MalformedRequestError();
  if (!message->ParseFromZeroCopyStream(&reader)) return MalformedRequestError();
  return absl::OkStatus();
}

absl::Status ParseRequest(grpc::ByteBuffer* buffer, google::protobuf::Message* message) {
  WireSummary summary;
  if (absl::Status status = CheckRequest(buffer, message->GetDescriptor(), &summary);
      !status.ok()) {
    return status;
  }
  return ParseChecked(buffer, message);
}

void SerializeResponse(const google::protobuf::Message& message, grpc::ByteBuffer* buffer) {
  buffer->Clear();
  bool own = false;
  const grpc::Status status =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, buffer,
                                                                                 &own);
  // Serializing fails only above 2 GiB or if a string is not UTF-8. Neither occurs in a response.
  DT_CHECK(status.ok());
}

}  // namespace duetime::rpc
