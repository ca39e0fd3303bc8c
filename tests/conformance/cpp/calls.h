// SPDX-License-Identifier: Apache-2.0
//
// Calls: runs the requests of the runner, with the library.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/admin_client.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/schedule_stream.h"
#include "server/base/mutex.h"
#include "tests/conformance/cpp/wire.h"
#include "tests/conformance/cpp/worker.h"

namespace duetime::conformance {

// One server, as the runner named it.
struct Connection {
  client::ServerAddress server;
  std::unique_ptr<client::Client> messages;
  std::unique_ptr<client::AdminClient> admin;
};

// Things by their names. Thread-safe.
template <typename T>
class Names {
 public:
  void Put(const Json& name, std::shared_ptr<T> thing) {
    const base::MutexLock lock(&mutex_);
    things_.insert_or_assign(name.get<std::string>(), std::move(thing));
  }
  // Throws if there is none.
  std::shared_ptr<T> Find(const Json& name) {
    const base::MutexLock lock(&mutex_);
    return things_.at(name.get<std::string>());
  }
  void Remove(const Json& name) {
    const base::MutexLock lock(&mutex_);
    things_.erase(name.get<std::string>());
  }

 private:
  base::Mutex mutex_;
  std::map<std::string, std::shared_ptr<T>> things_ ABSL_GUARDED_BY(mutex_);
};

// The clients, streams and subscribers, by their names. Thread-safe.
class Calls {
 public:
  Calls();

  // An object with the `ok` or the `error` of the answer.
  Json OutcomeOf(const Json& request);

 private:
  using Op = std::function<Json(const Json& request)>;

  // The `ok` of the answer. Throws Failed, or std::exception for an error of this driver.
  Json Run(const Json& request);
  void AddMessages();
  void AddTogether();
  void AddAdmin();
  void AddRecurrences();
  void AddLists();
  void AddStreams();
  void AddSubscribers();

  // A call of the admin client. `field` is the field of the response that holds its answer; empty
  // if the answer is the response.
  template <typename Request, typename Answer>
  void AddAdminCall(const char* op,
                    absl::StatusOr<Answer> (client::AdminClient::*method)(const Request&),
                    std::string field);
  // `items` is the response's accessor of its list.
  template <typename Request, typename Response, typename Item>
  void AddAdminList(const char* op,
                    absl::StatusOr<Response> (client::AdminClient::*method)(const Request&),
                    const google::protobuf::RepeatedPtrField<Item>& (Response::*items)() const);

  std::map<std::string, Op> ops_;
  Names<Connection> connections_;
  Names<client::ScheduleStream> streams_;
  Names<Worker> workers_;
};

}  // namespace duetime::conformance
