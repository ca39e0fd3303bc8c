// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/cpp/calls.h"

#include <latch>
#include <thread>
#include <vector>

#include "client/cpp/convert.h"
#include "client/cpp/pager.h"

namespace duetime::conformance {
namespace {

using client::NewMessage;
using client::Target;

NewMessage ToNewMessage(const v1::ScheduleRequest& request) {
  NewMessage message;
  message.topic = request.topic();
  message.payload = request.payload();
  message.attributes = {request.attributes().begin(), request.attributes().end()};
  if (request.has_delay()) message.when = client::FromProto(request.delay());
  if (request.has_deliver_time()) message.when = client::FromProto(request.deliver_time());
  if (request.has_civil_time()) {
    message.when = client::CivilTime{.local = request.civil_time().local(),
                                     .time_zone = request.civil_time().time_zone()};
  }
  message.key = request.key();
  message.on_conflict = request.on_conflict();
  message.max_wait = client::FromProto(request.max_wait());
  message.only_if_exists = request.only_if_exists();
  message.request_id = request.request_id();
  message.validate_only = request.validate_only();
  message.labels = {request.labels().begin(), request.labels().end()};
  message.ordering_key = request.ordering_key();
  if (request.has_ttl()) message.lifetime = client::FromProto(request.ttl());
  if (request.has_expire_time()) message.lifetime = client::FromProto(request.expire_time());
  message.late_policy = request.late_policy();
  message.spread = client::FromProto(request.spread());
  return message;
}

template <typename Request>
Target TargetOf(const Request& request) {
  return request.has_key() ? Target::Key(request.key().topic(), request.key().key())
                           : Target::Id(request.message_id());
}

std::vector<NewMessage> MessagesOf(const Json& requests) {
  std::vector<NewMessage> messages;
  for (const Json& request : requests) {
    messages.push_back(ToNewMessage(FromJson<v1::ScheduleRequest>(request)));
  }
  return messages;
}

Json ResultJson(const absl::StatusOr<v1::ScheduleResponse>& result) {
  return result.ok() ? Json{{"ok", ToJson(*result)}} : Json{{"error", ToJson(result.status())}};
}

Json ResultJson(const absl::StatusOr<client::CancelResult>& result) {
  return result.ok() ? Json{{"ok", ToJson(result->answer)}}
                     : Json{{"error", ToJson(result.status())}};
}

template <typename Result>
Json ResultsJson(const std::vector<Result>& results) {
  Json list = Json::array();
  for (const Result& result : results) list.push_back(ResultJson(result));
  return {{"results", list}};
}

}  // namespace

Calls::Calls() {
  ops_["hello"] = [](const Json&) -> Json {
    return {{"language", "cpp"}, {"lacks", {"token", "cancel", "call_deadline"}}};
  };
  ops_["client_open"] = [this](const Json& request) -> Json {
    client::ClientOptions options;
    options.server = {.target = request.at("server"),
                      .tls_ca_file = request.value("tls_ca", ""),
                      .tls_cert_file = request.value("tls_cert", ""),
                      .tls_key_file = request.value("tls_key", "")};
    options.deadline = Millis(request, "timeout_ms", options.deadline);
    connections_.Put(request.at("client"),
                     std::make_shared<Connection>(
                         Connection{.server = options.server,
                                    .messages = Must(client::Client::Create(options)),
                                    .admin = Must(client::AdminClient::Create(options))}));
    return Json::object();
  };
  ops_["client_close"] = [this](const Json& request) -> Json {
    connections_.Remove(request.at("client"));
    return Json::object();
  };
  AddMessages();
  AddTogether();
  AddAdmin();
  AddRecurrences();
  AddLists();
  AddStreams();
  AddSubscribers();
}

Json Calls::Run(const Json& request) {
  const std::string op = request.at("op");
  const auto found = ops_.find(op);
  if (found == ops_.end()) throw std::runtime_error("unknown op: " + op);
  return found->second(request);
}

void Calls::AddMessages() {
  // `call` gets the client and the request of the RPC.
  const auto add = [this]<typename Request>(const char* op,
                                            Json (*call)(client::Client*, Request)) {
    ops_[op] = [this, call](const Json& request) {
      return call(connections_.Find(request.at("client"))->messages.get(),
                  FromJson<Request>(request.at("request")));
    };
  };
  add(
      "schedule", +[](client::Client* client, v1::ScheduleRequest request) {
        return ToJson(Must(client->Schedule(ToNewMessage(request))));
      });
  add(
      "schedule_batch", +[](client::Client* client, v1::ScheduleBatchRequest request) {
        std::vector<NewMessage> messages;
        for (const auto& message : request.messages()) messages.push_back(ToNewMessage(message));
        return ResultsJson(Must(client->ScheduleBatch(messages)));
      });
  add(
      "cancel", +[](client::Client* client, v1::CancelRequest request) {
        return ToJson(Must(client->Cancel(TargetOf(request), request.stop_redelivery())).answer);
      });
  add(
      "cancel_batch", +[](client::Client* client, v1::CancelBatchRequest request) {
        std::vector<Target> targets;
        for (const auto& cancel : request.cancels()) targets.push_back(TargetOf(cancel));
        return ResultsJson(Must(client->CancelBatch(targets)));
      });
  add(
      "reschedule", +[](client::Client* client, v1::RescheduleRequest request) {
        return ToJson(Must(client->Reschedule(request)));
      });
  add(
      "get", +[](client::Client* client, v1::GetRequest request) {
        return ToJson(Must(client->Get(request)));
      });
  add(
      "explain", +[](client::Client* client, v1::ExplainRequest request) {
        return ToJson(Must(client->Explain(request)));
      });
  add(
      "pull", +[](client::Client* client, v1::PullRequest request) {
        return ToJson(Must(client->Pull(request)));
      });
  add(
      "settle", +[](client::Client* client, v1::SettleRequest request) {
        return ToJson(Must(client->Settle(request)).answer);
      });
  add(
      "server_info", +[](client::Client* client, v1::ServerInfoRequest) {
        return ToJson(Must(client->ServerInfo()));
      });
}

void Calls::AddTogether() {
  ops_["call_together"] = [this](const Json& request) -> Json {
    const Json& calls = request.at("calls");
    std::vector<std::thread> callers;
    std::latch begin(static_cast<ptrdiff_t>(calls.size()));
    for (size_t number = 0; number < calls.size(); ++number) {
      callers.emplace_back([&, number] {
        Json call = calls[number];
        call["client"] = request.at("client");
        Json event = {{"event", "outcome"}, {"group", request.at("group")}, {"number", number}};
        begin.arrive_and_wait();
        event.update(OutcomeOf(call));
        Print(event);
      });
    }
    for (std::thread& caller : callers) caller.join();
    return Json::object();
  };
}

Json Calls::OutcomeOf(const Json& request) {
  try {
    return {{"ok", Run(request)}};
  } catch (const Failed& failed) {
    return {{"error", ToJson(failed.status)}};
  } catch (const std::exception& error) {
    return {{"error", {{"code", "DRIVER"}, {"message", error.what()}}}};
  }
}

template <typename Request, typename Answer>
void Calls::AddAdminCall(const char* op,
                         absl::StatusOr<Answer> (client::AdminClient::*method)(const Request&),
                         std::string field) {
  ops_[op] = [this, method, field](const Json& request) -> Json {
    const auto connection = connections_.Find(request.at("client"));
    const Json answer =
        ToJson(Must((connection->admin.get()->*method)(FromJson<Request>(request.at("request")))));
    return field.empty() ? answer : Json{{field, answer}};
  };
}

void Calls::AddAdmin() {
  using Admin = client::AdminClient;
  ops_["create_topic"] = [this](const Json& request) -> Json {
    const auto connection = connections_.Find(request.at("client"));
    const auto topic = FromJson<v1::CreateTopicRequest>(request.at("request")).topic();
    return {{"topic", ToJson(Must(connection->admin->CreateTopic(topic)))}};
  };
  AddAdminCall("get_topic", &Admin::GetTopic, "topic");
  AddAdminCall("update_topic", &Admin::UpdateTopic, "topic");
  AddAdminCall("delete_topic", &Admin::DeleteTopic, "");
  AddAdminCall("pause_topic", &Admin::PauseTopic, "topic");
  AddAdminCall("resume_topic", &Admin::ResumeTopic, "topic");
  AddAdminCall("create_subscription", &Admin::CreateSubscription, "subscription");
  AddAdminCall("get_subscription", &Admin::GetSubscription, "subscription");
  AddAdminCall("update_subscription", &Admin::UpdateSubscription, "subscription");
  AddAdminCall("delete_subscription", &Admin::DeleteSubscription, "");
  AddAdminCall("forecast", &Admin::Forecast, "");
  AddAdminCall("start_bulk", &Admin::StartBulk, "operation");
  AddAdminCall("get_operation", &Admin::GetOperation, "operation");
  AddAdminCall("cancel_operation", &Admin::CancelOperation, "operation");
}

void Calls::AddRecurrences() {
  using Admin = client::AdminClient;
  AddAdminCall("create_recurrence", &Admin::CreateRecurrence, "recurrence");
  AddAdminCall("get_recurrence", &Admin::GetRecurrence, "recurrence");
  AddAdminCall("update_recurrence", &Admin::UpdateRecurrence, "recurrence");
  AddAdminCall("pause_recurrence", &Admin::PauseRecurrence, "recurrence");
  AddAdminCall("resume_recurrence", &Admin::ResumeRecurrence, "recurrence");
  AddAdminCall("delete_recurrence", &Admin::DeleteRecurrence, "");
  AddAdminCall("preview_recurrence", &Admin::PreviewRecurrence, "");
}

template <typename Request, typename Response, typename Item>
void Calls::AddAdminList(const char* op,
                         absl::StatusOr<Response> (client::AdminClient::*method)(const Request&),
                         const google::protobuf::RepeatedPtrField<Item>& (Response::*items_of)()
                             const) {
  ops_[op] = [this, method, items_of](const Json& request) -> Json {
    const auto connection = connections_.Find(request.at("client"));
    client::PageReader<Request, Response> pages(
        FromJson<Request>(request.at("request")),
        [&](const Request& page) { return (connection->admin.get()->*method)(page); });
    const size_t limit = request.value("limit", SIZE_MAX);
    Json items = Json::array();
    while (items.size() < limit) {
      const std::optional<Response> page = Must(pages.Next());
      if (!page.has_value()) break;
      for (const Item& item : ((*page).*items_of)()) {
        if (items.size() < limit) items.push_back(ToJson(item));
      }
    }
    return {{"items", items}};
  };
}

void Calls::AddLists() {
  using Admin = client::AdminClient;
  ops_["list"] = [this](const Json& request) -> Json {
    const auto connection = connections_.Find(request.at("client"));
    client::MessageReader reader(connection->messages.get(),
                                 FromJson<v1::ListRequest>(request.at("request")));
    const size_t limit = request.value("limit", SIZE_MAX);
    Json items = Json::array();
    while (items.size() < limit) {
      const std::optional<v1::Message> message = Must(reader.Next());
      if (!message.has_value()) break;
      items.push_back(ToJson(*message));
    }
    return {{"items", items}};
  };
  AddAdminList("list_topics", &Admin::ListTopics, &v1::ListTopicsResponse::topics);
  AddAdminList("list_subscriptions", &Admin::ListSubscriptions,
               &v1::ListSubscriptionsResponse::subscriptions);
  AddAdminList("list_operations", &Admin::ListOperations, &v1::ListOperationsResponse::operations);
  AddAdminList("list_recurrences", &Admin::ListRecurrences,
               &v1::ListRecurrencesResponse::recurrences);
}

void Calls::AddStreams() {
  ops_["stream_open"] = [this](const Json& request) -> Json {
    const std::string name = request.at("stream");
    client::ScheduleStreamOptions options;
    options.server = connections_.Find(request.at("client"))->server;
    streams_.Put(
        name,
        Must(client::ScheduleStream::Open(options, [name](int64_t number, const auto& result) {
          Json event = ResultJson(result);
          event.update({{"event", "result"}, {"stream", name}, {"number", number}});
          Print(event);
        })));
    return Json::object();
  };
  ops_["stream_send"] = [this](const Json& request) -> Json {
    const auto stream = streams_.Find(request.at("stream"));
    const absl::Status status = stream->Send(MessagesOf(request.at("messages")));
    if (!status.ok()) throw Failed{status};
    return Json::object();
  };
  ops_["stream_finish"] = [this](const Json& request) -> Json {
    const auto stream = streams_.Find(request.at("stream"));
    const absl::Status status = stream->Finish();
    Json unanswered = Json::array();
    for (const NewMessage& message : stream->TakeUnanswered()) {
      unanswered.push_back(ToJson(client::ToProto(message)));
    }
    streams_.Remove(request.at("stream"));
    return {{"answered", stream->answered()},
            {"unanswered", unanswered},
            {"error", status.ok() ? Json() : ToJson(status)}};
  };
}

void Calls::AddSubscribers() {
  ops_["subscriber_start"] = [this](const Json& request) -> Json {
    const auto connection = connections_.Find(request.at("client"));
    workers_.Put(request.at("subscriber"), std::make_shared<Worker>(request, connection->server));
    return Json::object();
  };
  ops_["subscriber_finish"] = [this](const Json& request) -> Json {
    workers_.Find(request.at("subscriber"))->Finish(request.at("n").get<int64_t>(), request);
    return Json::object();
  };
  ops_["subscriber_counts"] = [this](const Json& request) -> Json {
    return workers_.Find(request.at("subscriber"))->Counts();
  };
  ops_["subscriber_stop"] = [this](const Json& request) -> Json {
    const auto worker = workers_.Find(request.at("subscriber"));
    return {{"clean", worker->Stop(Millis(request, "handlers_ms", absl::InfiniteDuration()),
                                   Millis(request, "confirm_ms", absl::Seconds(5)))}};
  };
}

}  // namespace duetime::conformance
