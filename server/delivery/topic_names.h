// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::delivery {

// The names of topics, which the catalog knows and a shard does not. A topic keeps its number, but
// after a deletion a number can get another name. So a record that must find its topic again later
// has the name, and a shard asks for the number when it uses it. Thread-safe.
class TopicNames {
 public:
  virtual ~TopicNames() = default;

  // Empty if no topic has this number.
  virtual std::string NameOf(storage::TopicId topic) const = 0;
  // The number of the topic of this name, deleted or not; 0 if no topic has the name.
  virtual storage::TopicId Find(absl::string_view name) const = 0;
  // The name of the topic that had this message, if its dead letters go to `letters`. Empty if the
  // number belongs to another topic now. For dead letters without a name of their topic.
  virtual std::string NameOfOrigin(storage::TopicId topic, const storage::MessageId& message,
                                   storage::TopicId letters) const = 0;
  struct UsedTopic {
    storage::TopicId topic{};
    // The ids of the messages of topics that had the number before are below it.
    storage::MessageId first_id{};
  };
  // As Find. In addition, the number of a deleted topic keeps its name from now on. The first id
  // may be news to the shard, whose command from the catalog can be still in the mailbox. REQUIRES:
  // the caller puts a message of the topic, which revives the topic.
  virtual UsedTopic Use(absl::string_view name) = 0;
};

// Knows no topic.
class NoTopicNames final : public TopicNames {
 public:
  static NoTopicNames* Shared() {
    static NoTopicNames shared;
    return &shared;
  }

  std::string NameOf(storage::TopicId) const override { return ""; }
  storage::TopicId Find(absl::string_view) const override { return {}; }
  std::string NameOfOrigin(storage::TopicId, const storage::MessageId&,
                           storage::TopicId) const override {
    return "";
  }
  UsedTopic Use(absl::string_view) override { return {}; }
};

}  // namespace duetime::delivery
