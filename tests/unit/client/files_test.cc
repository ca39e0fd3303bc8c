// SPDX-License-Identifier: Apache-2.0
//
// import and export: what they read, write and ask of the server, and how they go on after a break.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>
#include <zlib.h>

#include "absl/strings/str_cat.h"

#include "tests/support/temp_directory.h"
#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class FilesTest : public CommandsTest {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(directory_.Join(name), std::ios::binary) << content;
    return directory_.Join(name);
  }
  static std::string Read(const std::string& name) {
    std::ostringstream content;
    content << std::ifstream(name, std::ios::binary).rdbuf();
    return content.str();
  }

  // Accepts every message of a batch.
  void AcceptBatches() {
    server_.On<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>(
        [](const v1::ScheduleBatchRequest& request, v1::ScheduleBatchResponse* response) {
          for (int i = 0; i < request.messages_size(); ++i) {
            v1::ScheduleResult* const result = response->add_results();
            result->mutable_message()->set_id("id");
            result->set_outcome(v1::SCHEDULE_OUTCOME_CREATED);
          }
          return grpc::Status::OK;
        });
  }

  // A topic with messages due one after the other, three in a page.
  void AnswerListsOf(int count) {
    Answer<v1::ServerInfoRequest, v1::ServerInfoResponse>("server_time { seconds: 1000 }");
    server_.On<v1::ListRequest, v1::ListResponse>(
        [this, count](const v1::ListRequest& request, v1::ListResponse* page) {
          if (request.page_token() == fails_at_) {
            return client::MakeServerError(grpc::StatusCode::INTERNAL, "BROKEN");
          }
          const int begin = request.page_token().empty() ? 0 : std::stoi(request.page_token());
          const int end = std::min(begin + 3, count);
          for (int i = begin; i < end; ++i) *page->add_messages() = Message(i, request.view());
          if (end < count) page->set_next_page_token(std::to_string(end));
          return grpc::Status::OK;
        });
    server_.On<v1::GetRequest, v1::GetResponse>(
        [this](const v1::GetRequest& request, v1::GetResponse* response) {
          *response->mutable_message() = Message(std::stoi(request.message_id()), request.view());
          return grpc::Status::OK;
        });
  }
  v1::Message Message(int number, v1::MessageView view) const {
    v1::Message message;
    message.set_id(std::to_string(number));
    message.set_topic("t");
    message.set_etag(number == changed_ ? "new" : "old");
    message.set_key(absl::StrCat("k", number));
    message.mutable_accept_time()->set_seconds(accepted_at_);
    message.mutable_deliver_time()->set_seconds(2'000 + number);
    message.set_payload_bytes(1);
    if (view == v1::MESSAGE_VIEW_FULL && number != unreadable_) message.set_payload("p");
    if (number == changed_) message.mutable_update_time()->set_seconds(changed_at_);
    return message;
  }

  test::TempDirectory directory_;
  std::string fails_at_ = "nowhere";
  int64_t accepted_at_ = 900;
  int unreadable_ = -1;
  int changed_ = -1;
  int64_t changed_at_ = 0;
};

TEST_F(FilesTest, ACsvFileSetsFieldsByItsColumns) {
  AcceptBatches();
  struct Case {
    const char* content;
    const char* options;
    const char* request;
  };
  const Case cases[] = {
      {"topic,delay,payload\nt,1h30m,\" two\nlines, \"\"quoted\"\"\"\n", "",
       "topic: 't' delay { seconds: 5400 } payload: ' two\\nlines, \"quoted\"'"},
      {"\xEF\xBB\xBFtopic,deliver_time,labels.city,attributes.a.b,key\r\nt,1.5,Rome,1,\r\n",
       "--allow-past",
       "topic: 't' deliver_time { seconds: 1 nanos: 500000000 } labels { key: 'city' value: 'Rome' "
       "}"
       " attributes { key: 'a.b' value: '1' }"},
      {"id,due,other\n7,2026-12-24 18:00:00+00,x\n",
       "--topic t --column key=id --column deliver_time=due",
       "topic: 't' key: '7' deliver_time { seconds: 1798135200 }"},
      {"topic,civil_time.local,civil_time.time_zone,late_policy,ttl,on_conflict,only_if_exists\n"
       "t,2026-12-24T18:00,Europe/Rome,drop,1d,REPLACE,true\n",
       "",
       "topic: 't' civil_time { local: '2026-12-24T18:00' time_zone: 'Europe/Rome' }"
       " late_policy: LATE_POLICY_DROP ttl { seconds: 86400 } on_conflict: ON_CONFLICT_REPLACE"
       " only_if_exists: true"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.content);
    const std::string out = Out(absl::StrCat("import ", Write("f.csv", c.content), " ", c.options));
    EXPECT_THAT(out, StartsWith("scheduled 1 messages, 0 lines refused"));
    v1::ScheduleRequest sent = server_.Seen<v1::ScheduleBatchRequest>().back().messages(0);
    EXPECT_THAT(sent.request_id(), StartsWith("import-2-"));
    sent.clear_request_id();
    EXPECT_EQ(sent.DebugString(), ParseProto<v1::ScheduleRequest>(c.request).DebugString());
  }
}

TEST_F(FilesTest, WhatCannotBeReadIsSaid) {
  AcceptBatches();
  struct Case {
    const char* name;
    const char* content;
    const char* options;
    ExitCode code;
    const char* error;
  };
  const Case cases[] = {
      {"f.csv", "", "", kRefused, "no row with column names"},
      {"f.csv", "topic,nonsense\n", "", kRefused, "\"nonsense\" is no field of a message"},
      {"f.csv", "topic,labels\n", "", kRefused, "\"labels\" is no field of a message"},
      {"f.csv", "a,b\n", "--column topic=c", kRefused, "no column \"c\"; there are a, b"},
      {"f.csv", "a,b\n", "--column topic", kRefused, "not of the form FIELD=COLUMN"},
      {"f.csv", "topic,delay\nt,1s\nt,\"1s\n", "", kRefused,
       "line 3, in the row of line 3: a quote is missing"},
      {"f.csv", "topic,delay\n\nt,\"1s\n\n", "", kRefused, "line 4, in the row of line 3: a quote"},
      {"f.csv", "topic,topic\nt,u\n", "", kRefused, "columns 1 and 2 are both \"topic\""},
      {"f.csv", "a,a,b\nt,u,1s\n", "--column topic=a", kRefused, "several columns \"a\""},
      {"f.csv", "a,b\nt,u\n", "--column topic=a --column topic=b", kRefused, "both \"topic\""},
      {"f.csv", "topic,delay\nt,1s,2s\n", "", kNotAsWished, "f.csv:2: the row has 3 cells"},
      {"f.csv", "topic,delay,deliver_time\nt,1s,tomorrow 9:00\n", "", kNotAsWished,
       "column \"deliver_time\": \"tomorrow 9:00\" is not the only one: the row has delay"},
      {"f.csv", "topic,deliver_time\n\nt,46380.75\n", "", kNotAsWished,
       "f.csv:3: column \"deliver_time\": \"46380.75\" seconds since 1970 are 1970-01-01T12:53:"},
      {"f.csv", "topic,deliver_time\nt,20261224\n", "", kNotAsWished, "add --allow-past"},
      {"f.csv", "topic,deliver_time\nt,-1\n", "", kNotAsWished, "add --allow-past"},
      {"f.csv", "topic,deliver_time\nt,1e9\n", "", kNotAsWished, "\"1e9\" is not a moment"},
      {"f.csv", "topic,deliver_time\nt,0x7fffffff\n", "", kNotAsWished, "is not a moment"},
      {"f.csv", "topic,deliver_time\nt,inf\n", "", kNotAsWished, "is not a moment"},
      {"f.csv", "\xFF\xFEt", "", kRefused, "f.csv is in UTF-16; convert it"},
      {"f.ndjson", "\xFE\xFF", "", kRefused, "f.ndjson is in UTF-16; convert it"},
      {"f.csv", "topic,delay\nt,1s\nt,1\"s\n", "", kRefused, "a quote is in the wrong place"},
      {"f.csv", "topic,delay\nt,soon\n", "", kNotAsWished, "f.csv:2: column \"delay\": \"soon\""},
      {"f.csv", "topic,delay\nt\n", "", kNotAsWished, "the row has 1 cells"},
      {"f.csv", "topic,late_policy\nt,never\n", "", kNotAsWished, "is no value of late_policy"},
      {"f.ndjson", "[]\n", "--text", kNotAsWished, "f.ndjson:1: this is no JSON object"},
      {"f.ndjson.gz", "\x1f\x8b\x08\x00", "", kRefused, "unexpected end of file"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.content);
    const Result result = Cli(absl::StrCat("import ", Write(c.name, c.content), " ", c.options));
    EXPECT_EQ(result.code, c.code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.error));
  }
  EXPECT_EQ(Cli("import " + directory_.Join("")).code, kRefused) << "a directory";
  EXPECT_EQ(Cli("import " + directory_.Join("none")).code, kRefused);
}

TEST_F(FilesTest, AZeroByteIsOfItsLineOnly) {
  AcceptBatches();
  const auto import = [&](const std::string& name, const std::string& content) {
    const Result result = Cli("import " + Write(name, content));
    EXPECT_EQ(result.code, kNotAsWished);
    EXPECT_THAT(result.out, StartsWith("scheduled 2 messages, 1 lines refused"));
    return result.err;
  };
  const std::string zero(1, '\0');
  EXPECT_THAT(import("f.csv", "topic,delay,payload\nt,1h,aa" + zero + "bb\nt,2h,b\nt,3h,c\n"),
              HasSubstr("f.csv:2: column \"payload\": the cell has a zero byte behind \"aa\""));
  const std::string line = "{\"topic\": \"t\", \"delay\": \"1s\"}\n";
  EXPECT_THAT(import("f.ndjson", line + "{\"topic\": " + zero + "}\n" + line),
              HasSubstr("f.ndjson:2: the line has a zero byte behind"));
  EXPECT_THAT(Cli("import " + Write("g.csv", "t" + zero + "o" + zero)).err,
              HasSubstr("g.csv is in UTF-16"));
}

TEST_F(FilesTest, TheMarkOfUtf8IsNoPartOfTheFirstLine) {
  AcceptBatches();
  EXPECT_THAT(
      Out("import " + Write("f.ndjson", "\xEF\xBB\xBF{\"topic\": \"t\", \"delay\": \"1s\"}")),
      StartsWith("scheduled 1 messages"));
}

// A message that is wrong is counted; one that may pass later ends the import, which can go on
// there.
TEST_F(FilesTest, AnImportStopsAtALineThatMayPassLater) {
  const std::string line = "{\"topic\": \"t\", \"delay\": \"1s\"}\n";
  const std::string name = Write("f.ndjson", line + line + line);
  const struct {
    const char* error;
    ExitCode code;
    const char* out;
    const char* err;
  } kCases[] = {
      {"code: 3 reason: 'PAYLOAD_TOO_LARGE'", kNotAsWished, "scheduled 2 messages, 1 lines refused",
       ":2: PAYLOAD_TOO_LARGE"},
      {"code: 7 reason: 'ACCESS_DENIED'", kNotAsWished, "scheduled 2 messages, 1 lines refused",
       ":2: ACCESS_DENIED"},
      {"code: 8 reason: 'TOPIC_FULL'", kNotAsWished, "scheduled 2 messages, 1 lines refused",
       ":2: TOPIC_FULL"},
      {"code: 8 reason: 'QUOTA_EXCEEDED'", kRefused, "scheduled 2 messages, 0 lines refused",
       "--from-line 2 continues"},
      {"code: 8 reason: 'OVERLOADED'", kRefused, "scheduled 2 messages, 0 lines refused",
       "--from-line 2 continues"},
      {"code: 14 reason: 'CELL_UNAVAILABLE'", kNoAnswer, "scheduled 2 messages, 0 lines refused",
       "--from-line 2 continues"},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.error);
    Answer<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>(
        absl::StrCat("results { message { id: 'a' } } results { error { ", one.error,
                     " } } results { message { id: 'c' } }"));
    const Result result = Cli("import " + name);
    EXPECT_EQ(result.code, one.code) << result.err;
    EXPECT_THAT(result.out, HasSubstr(one.out));
    EXPECT_THAT(result.err, HasSubstr(one.err));
  }
}

TEST_F(FilesTest, ACompressedFileIsReadAsItIs) {
  AcceptBatches();
  const std::string name = directory_.Join("f.ndjson.gz");
  const gzFile file = gzopen(name.c_str(), "wb");
  for (int i = 0; i < 20'000; ++i) gzputs(file, "{\"topic\": \"t\", \"delay\": \"1s\"}\n\n");
  gzclose(file);
  EXPECT_THAT(Out("import " + name), StartsWith("scheduled 20000 messages, 0 lines refused"));
}

TEST_F(FilesTest, AnExportHasWhatWasThereWhenItBegan) {
  AnswerListsOf(7);
  std::string all;
  for (int i = 0; i < 7; ++i) {
    absl::StrAppend(&all,
                    "{\"topic\":\"t\",\"payload\":\"cA==\",\"deliver_time\":\"1970-01-01T00:33:2",
                    i, "Z\",\"key\":\"k", i, "\",\"request_id\":\"export-", i, "-old\"}\n");
  }
  EXPECT_EQ(Out("export t"), all);
  // A message that changes during the export is left to the next pass, as it is then.
  changed_ = 4;
  changed_at_ = 1'000;
  const Result changing = Cli("export t");
  EXPECT_EQ(changing.code, kNotAsWished);
  EXPECT_THAT(changing.err, HasSubstr("exported 10 messages"));
  EXPECT_THAT(changing.err, HasSubstr("messages still change"));
  EXPECT_THAT(changing.out, HasSubstr("\"on_conflict\":\"ON_CONFLICT_REPLACE\","
                                      "\"request_id\":\"export-4-new\""));
  changed_ = -1;
  accepted_at_ = 1'000;
  EXPECT_EQ(Out("export t"), "") << "what came later is no part of it";
  accepted_at_ = 900;
  unreadable_ = 2;
  const Result damaged = Cli("export t --json");
  EXPECT_EQ(damaged.code, kNotAsWished);
  EXPECT_THAT(damaged.err, HasSubstr("message 2 cannot be read"));
  EXPECT_THAT(damaged.err, HasSubstr("{\"messages\":6,\"unreadable\":1}"));
}

TEST_F(FilesTest, AnExportGoesOnWhereItStopped) {
  AnswerListsOf(8);
  const std::string whole = Out("export t");
  const std::string file = directory_.Join("out");
  const std::string line = absl::StrCat("export t --output ", file);
  EXPECT_THAT(Cli(line + " --resume").err, HasSubstr("nothing to continue"));
  fails_at_ = "6";
  const Result stopped = Cli(line);
  EXPECT_EQ(stopped.code, kRefused);
  EXPECT_THAT(stopped.err, HasSubstr("stopped after 6 messages; --resume continues"));
  EXPECT_THAT(Cli(line).err, HasSubstr("--resume continues it"));
  // As if the process had been killed while it wrote.
  std::ofstream(file, std::ios::app) << "{\"topic\": \"t\", \"pay";
  fails_at_ = "nowhere";
  EXPECT_THAT(Out(line + " --resume"), StartsWith("exported 8 messages"));
  EXPECT_EQ(Read(file), whole);
  EXPECT_FALSE(std::filesystem::exists(file + ".progress"));
  EXPECT_THAT(Cli(line).err, HasSubstr("exists"));
  // A file that lost what the note counts.
  fails_at_ = "3";
  std::filesystem::remove(file);
  EXPECT_EQ(Cli(line).code, kRefused);
  std::filesystem::resize_file(file, 10);
  EXPECT_THAT(Cli(line + " --resume").err, HasSubstr("is shorter than"));
}

TEST_F(FilesTest, TextIsTextOrRefused) {
  AnswerListsOf(1);
  EXPECT_THAT(Out("export t --text"), HasSubstr("\"payload\":\"p\""));
  server_.On<v1::ListRequest, v1::ListResponse>(
      [this](const v1::ListRequest& request, v1::ListResponse* page) {
        *page->add_messages() = Message(1, request.view());
        page->mutable_messages(0)->set_payload("\xff");
        return grpc::Status::OK;
      });
  EXPECT_THAT(Cli("export t --text").err, HasSubstr("is no UTF-8 text: leave out --text"));
}

}  // namespace
}  // namespace duetime::cli
