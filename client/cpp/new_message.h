// SPDX-License-Identifier: Apache-2.0
//
// NewMessage: what to deliver and when. Target: a message that exists, by its id or its key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/time/time.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// The local time of a time zone. The server resolves it by the rules of CivilTime in message.proto,
// and keeps the local time as well.
struct CivilTime {
  // "2026-11-21T09:00", optionally followed by ":30" or ":30.250".
  std::string local;
  // An IANA name like "Europe/Berlin".
  std::string time_zone;
};

// When to deliver. A duration counts from the arrival of the request at the server. With zero or a
// time in the past the message is due at once. This library rounds up to nanoseconds and the server
// to milliseconds, so that no message is early. The server refuses negative and infinite durations,
// and times out of its range.
using When = std::variant<absl::Duration, absl::Time, CivilTime>;

// What to deliver, and when. The topic and the time are required. ScheduleRequest in messages.proto
// has the same names and documents the bounds.
struct NewMessage {
  std::string topic{};
  std::string payload{};
  std::map<std::string, std::string> attributes{};
  // Without a time the server refuses the message: DELIVER_TIME_MISSING. For a message that is due
  // at once, use absl::ZeroDuration().
  std::optional<When> when{};

  // The producer's name for the message. Calls can find, move, replace and cancel it by this key.
  std::string key{};
  // What to do if the topic has a pending message under this key. Default: FAIL. For a program that
  // may replay: ONCE.
  v1::ScheduleRequest::OnConflict on_conflict = v1::ScheduleRequest::ON_CONFLICT_UNSPECIFIED;
  // With PUSH_BACK: the longest total delay, counted from acceptance. Zero: no bound.
  absl::Duration max_wait{};
  // True: the call replaces a message but never creates one.
  bool only_if_exists = false;
  // Makes a repeat of this request safe for an hour. Empty: Schedule chooses a random one; see
  // Repeat.
  std::string request_id{};
  // True: the server checks and decides as usual, but changes nothing.
  bool validate_only = false;

  // Labels for lists and filters.
  std::map<std::string, std::string> labels{};
  // First deliveries of messages with the same ordering_key start in order.
  std::string ordering_key{};
  // How long the message is worth delivering: a ttl, or the moment of its end. Default: the ttl of
  // the topic, if it has one.
  std::variant<std::monostate, absl::Duration, absl::Time> lifetime{};
  // What happens to the message after its lifetime. Default: DELIVER.
  v1::Message::LatePolicy late_policy = v1::Message::LATE_POLICY_UNSPECIFIED;
  // Delivers the message at a point within this span after its time. The message's id decides the
  // point.
  absl::Duration spread{};
};

// The request for the message.
v1::ScheduleRequest ToProto(const NewMessage& message);

// Writes `when` to a request.
void SetWhen(const When& when, v1::ScheduleRequest* request);
void SetWhen(const When& when, v1::RescheduleRequest* request);

// A message by its id, or by its topic and key.
class Target {
 public:
  static Target Id(std::string id) { return Target(std::move(id)); }
  static Target Key(std::string topic, std::string key) {
    v1::TopicKey name;
    name.set_topic(std::move(topic));
    name.set_key(std::move(key));
    return Target(std::move(name));
  }

  // Writes the id or key to the `target` of a request.
  template <typename Request>
  void FillIn(Request* request) const {
    if (const auto* id = std::get_if<std::string>(&name_)) {
      request->set_message_id(*id);
    } else {
      *request->mutable_key() = std::get<v1::TopicKey>(name_);
    }
  }

  // The id, or the key, for people.
  const std::string& name() const {
    const auto* id = std::get_if<std::string>(&name_);
    return id != nullptr ? *id : std::get<v1::TopicKey>(name_).key();
  }

 private:
  explicit Target(std::variant<std::string, v1::TopicKey> name) : name_(std::move(name)) {}

  std::variant<std::string, v1::TopicKey> name_;
};

}  // namespace duetime::client
