// SPDX-License-Identifier: Apache-2.0
//
// Requests of a test as text, and what errors say.
#pragma once

#include <grpcpp/grpcpp.h>
#include <map>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

#include "duetime/v1/failure.pb.h"
#include "tests/support/error_metadata.h"
#include "tests/support/proto_text.h"

namespace duetime::rpc {

// The ErrorInfo of a status; empty if it has none. Checks its metadata.
inline google::rpc::ErrorInfo InfoOf(const google::rpc::Status& status) {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  for (const auto& detail : status.details()) {
    detail.UnpackTo(&info);
    detail.UnpackTo(&bad);
  }
  const bool invalid = status.code() == static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT) &&
                       bad.field_violations_size() > 0;
  test::ExpectPromisedMetadata(info.reason(), info.metadata(),
                               invalid ? bad.field_violations(0).field() : "");
  return info;
}
inline google::rpc::ErrorInfo InfoOf(const grpc::Status& status) {
  google::rpc::Status parsed;
  if (!parsed.ParseFromString(status.error_details())) return {};
  return InfoOf(parsed);
}

// The reason in the ErrorInfo of a status.
inline std::string ReasonOf(const grpc::Status& status) {
  const std::string reason = InfoOf(status).reason();
  return reason.empty() ? "no reason: " + status.error_message() : reason;
}
inline std::string ReasonOf(const v1::Failure& failure) {
  const bool invalid = failure.code() == static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT);
  test::ExpectPromisedMetadata(failure.reason(), failure.metadata(),
                               invalid ? failure.field() : "");
  return failure.reason();
}

inline bool HasRetryInfo(const grpc::Status& status) {
  google::rpc::Status parsed;
  parsed.ParseFromString(status.error_details());
  for (const auto& detail : parsed.details()) {
    if (detail.Is<google::rpc::RetryInfo>()) return true;
  }
  return false;
}

using Metadata = std::map<std::string, std::string>;

// The metadata of a status' ErrorInfo.
inline Metadata MetadataOf(const grpc::Status& status) {
  const google::rpc::ErrorInfo info = InfoOf(status);
  return {info.metadata().begin(), info.metadata().end()};
}

// Checks a refusal. Its metadata may have more entries.
inline void ExpectRefused(const grpc::Status& status, grpc::StatusCode code,
                          const std::string& reason, const Metadata& metadata) {
  SCOPED_TRACE(reason);
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_EQ(ReasonOf(status), reason);
  const Metadata actual = MetadataOf(status);
  for (const auto& [key, value] : metadata) {
    EXPECT_TRUE(actual.contains(key) && actual.at(key) == value) << key;
  }
}

// A request, or its text format.
template <typename Request>
struct Asked {
  Asked(const Request& request) : proto(request) {}
  Asked(const std::string& text) : proto(ParseProto<Request>(text)) {}
  Asked(const char* text) : proto(ParseProto<Request>(text)) {}

  Request proto;
};

}  // namespace duetime::rpc
