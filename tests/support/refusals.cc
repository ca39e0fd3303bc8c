// SPDX-License-Identifier: Apache-2.0
#include "tests/support/refusals.h"

#include <chrono>
#include <fstream>
#include <grpcpp/generic/generic_stub.h>
#include <iterator>
#include <map>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "tests/support/error_metadata.h"
#include "tests/support/paths.h"

namespace duetime::test {
namespace {

using Channel = std::shared_ptr<grpc::Channel>;

std::chrono::system_clock::time_point Deadline() {
  return std::chrono::system_clock::now() + std::chrono::seconds(30);
}

// Replaces {3} by "xxx", and "3 * text" by three texts with their numbers for "#".
std::string Expand(std::string rest) {
  static const std::regex kLength(R"(\{(\d+)\})");
  static const std::regex kTimes(R"((\d+) \* (.*))");
  std::smatch found;
  if (std::regex_match(rest, found, kTimes)) {
    std::string all;
    for (unsigned long i = 0; i < std::stoul(found[1]); ++i) {
      absl::StrAppend(&all, absl::StrReplaceAll(found[2].str(), {{"#", absl::StrCat(i)}}), " ");
    }
    rest = all;
  }
  std::string text;
  while (std::regex_search(rest, found, kLength)) {
    absl::StrAppend(&text, found.prefix().str(), std::string(std::stoul(found[1]), 'x'));
    rest = found.suffix();
  }
  return text + rest;
}

// A line like "CreateTopic at topic.settings: topic { name: "t" }".
struct Section {
  std::vector<std::string> calls;
  std::string path;
  std::string good;
};

Section ReadSection(const std::string& line) {
  Section section;
  const auto [head, good] =
      std::pair<std::string, std::string>(absl::StrSplit(line, absl::MaxSplits(':', 1)));
  const auto [calls, path] = std::pair<std::string, std::string>(absl::StrSplit(head, " at "));
  section.calls = absl::StrSplit(calls, ", ");
  section.path = path;
  section.good = good;
  return section;
}

// The row without its request, and the text of its change.
RequestCase ReadRow(const Section& section, const std::string& line, std::string* change) {
  static const std::regex kRow(R"(  (?:(OK|GIVEN)|(\w+) (\S+) (\S+))(?:  (.*))?)");
  RequestCase row;
  std::smatch parts;
  EXPECT_TRUE(std::regex_match(line, parts, kRow)) << line;
  row.reason = parts[1].str() + parts[2].str();
  row.field = parts[3];
  row.limit = parts[4] == "-" ? "" : parts[4].str();
  *change = parts[5];
  if (section.path.empty()) return row;
  if (row.refused()) row.field = absl::StrCat(section.path, ".", row.field);
  const std::vector<std::string> names = absl::StrSplit(section.path, '.');
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    *change = absl::StrCat(*name, " { ", *change, " }");
  }
  return row;
}

void SetRequest(const std::string& call, const std::string& good, const std::string& change,
                RequestCase* row) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const google::protobuf::MethodDescriptor* method = nullptr;
  for (const char* service : {"duetime.v1.Messages", "duetime.v1.Admin"}) {
    if (method == nullptr) method = pool->FindServiceByName(service)->FindMethodByName(call);
  }
  ASSERT_NE(method, nullptr) << row->place;
  row->method = absl::StrCat("/", method->service()->full_name(), "/", call);
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  row->request.reset(factory->GetPrototype(method->input_type())->New());
  const bool replaces = absl::StartsWith(change, "=");
  for (const std::string& text : {replaces ? "" : good, Expand(change.substr(replaces ? 1 : 0))}) {
    google::protobuf::TextFormat::Parser parser;
    EXPECT_TRUE(parser.MergeFromString(text, row->request.get())) << row->place;
  }
}

// Makes any call, also of a stream, which then has one request.
grpc::Status Call(const Channel& channel, const RequestCase& row) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  grpc::CompletionQueue queue;
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto stream = stub.PrepareCall(&context, row.method, &queue);
  stream->StartCall(nullptr);
  if (next()) {
    const grpc::Slice slice(row.request->SerializeAsString());
    stream->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    next();
  }
  grpc::ByteBuffer response;
  do {
    stream->Read(&response, nullptr);
  } while (next());
  grpc::Status status;
  stream->Finish(&status, nullptr);
  next();
  return status;
}

// What a refusal says, in a status or in a Failure.
struct Refusal {
  int code = 0;
  std::string message;
  std::string reason;
  std::string field;
  std::map<std::string, std::string> metadata;
  bool has_retry_delay = false;
};

Refusal RefusalOf(const grpc::Status& status) {
  Refusal refusal;
  refusal.code = status.error_code();
  refusal.message = status.error_message();
  google::rpc::Status parsed;
  parsed.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  for (const auto& detail : parsed.details()) {
    detail.UnpackTo(&info);
    detail.UnpackTo(&bad);
    refusal.has_retry_delay |= detail.Is<google::rpc::RetryInfo>();
  }
  EXPECT_EQ(info.domain(), "duetime");
  refusal.reason = info.reason();
  refusal.metadata = {info.metadata().begin(), info.metadata().end()};
  if (bad.field_violations_size() == 1) refusal.field = bad.field_violations(0).field();
  return refusal;
}

Refusal RefusalOf(const v1::Failure& failure) {
  return {.code = failure.code(),
          .message = failure.message(),
          .reason = failure.reason(),
          .field = failure.field(),
          .metadata = {failure.metadata().begin(), failure.metadata().end()},
          .has_retry_delay = failure.has_retry_delay()};
}

void Expect(const RequestCase& row, const std::string& field, const Refusal& refusal) {
  SCOPED_TRACE(refusal.message);
  ExpectPromisedMetadata(refusal.reason, refusal.metadata, refusal.field);
  EXPECT_EQ(refusal.code, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refusal.reason, row.reason);
  EXPECT_EQ(refusal.field, field);
  EXPECT_FALSE(refusal.message.empty());
  EXPECT_FALSE(refusal.has_retry_delay) << "a repeat would not help";
  if (row.limit.empty()) return;
  ASSERT_TRUE(refusal.metadata.contains("limit"));
  EXPECT_EQ(refusal.metadata.at("limit"), row.limit);
  EXPECT_TRUE(absl::StrContains(refusal.message, row.limit));
}

// Sends each refused Schedule after a good one. Returns the number of the good ones.
int ExpectRefusedItems(const Channel& channel, const std::vector<RequestCase>& schedules) {
  v1::ScheduleBatchRequest batch;
  for (const RequestCase& row : schedules) {
    v1::ScheduleRequest* const good = batch.add_messages();
    good->set_topic("t");
    good->mutable_delay()->set_seconds(3'600);
    batch.add_messages()->CopyFrom(*row.request);
  }
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::ScheduleBatchResponse response;
  const grpc::Status status =
      v1::Messages::NewStub(channel)->ScheduleBatch(&context, batch, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results_size(), batch.messages_size());
  for (int i = 1; i < response.results_size(); i += 2) {
    const RequestCase& row = schedules[static_cast<size_t>(i / 2)];
    SCOPED_TRACE(row.place);
    EXPECT_TRUE(response.results(i - 1).has_message());
    Expect(row, absl::StrCat("messages[", i, "].", row.field),
           RefusalOf(response.results(i).error()));
  }
  return static_cast<int>(schedules.size());
}

std::vector<std::string> Topics(v1::Admin::Stub* admin) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::ListTopicsResponse response;
  EXPECT_TRUE(admin->ListTopics(&context, {}, &response).ok());
  std::vector<std::string> names;
  for (const v1::Topic& topic : response.topics()) names.push_back(topic.name());
  return names;
}

// The number of accepted messages, which is a copy and may be a moment old, once it reaches
// `expected`.
int64_t Accepted(v1::Admin::Stub* admin, int64_t expected) {
  v1::ServerInfoResponse info;
  const auto deadline = Deadline();
  do {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    EXPECT_TRUE(admin->ServerInfo(&context, {}, &info).ok());
  } while (info.counts().accepted() < expected && std::chrono::system_clock::now() < deadline);
  return info.counts().accepted();
}

void MakeCalls(const Channel& channel, const std::vector<RequestCase>& rows,
               const std::string& reason) {
  for (const RequestCase& row : rows) {
    if (row.reason != reason) continue;
    const grpc::Status status = Call(channel, row);
    EXPECT_TRUE(status.ok()) << row.place << ": " << status.error_message();
  }
}

}  // namespace

std::vector<RequestCase> RequestCases() {
  std::ifstream in(absl::StrCat(kSourceRoot, "/tests/support/refusals.txt"));
  EXPECT_TRUE(in.is_open());
  std::vector<RequestCase> rows;
  Section section;
  std::string change;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      section = ReadSection(line);
      continue;
    }
    RequestCase row = ReadRow(section, line, &change);
    for (const std::string& call : section.calls) {
      row.place = absl::StrCat("refusals.txt:", number, " ", call);
      SetRequest(call, section.good, change, &row);
      rows.push_back(row);
    }
  }
  return rows;
}

void ExpectRefusals(const Channel& channel) {
  const auto admin = v1::Admin::NewStub(channel);
  const std::vector<RequestCase> rows = RequestCases();
  MakeCalls(channel, rows, "GIVEN");
  const std::vector<std::string> topics = Topics(admin.get());
  const int64_t before = Accepted(admin.get(), 1);  // an occurrence of the given recurrence
  std::vector<RequestCase> schedules;
  for (const RequestCase& row : rows) {
    if (!row.refused()) continue;
    SCOPED_TRACE(row.place);
    Expect(row, row.field, RefusalOf(Call(channel, row)));
    if (absl::EndsWith(row.method, "/Schedule")) schedules.push_back(row);
  }
  EXPECT_EQ(Topics(admin.get()), topics);
  EXPECT_GT(schedules.size(), 50u);
  const int64_t after = before + ExpectRefusedItems(channel, schedules);
  EXPECT_EQ(Accepted(admin.get(), after), after);
}

void ExpectAccepted(const Channel& channel) {
  const std::vector<RequestCase> rows = RequestCases();
  MakeCalls(channel, rows, "GIVEN");
  MakeCalls(channel, rows, "OK");
}

}  // namespace duetime::test
