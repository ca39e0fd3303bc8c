// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"

#include "server/delivery/topic_names.h"

namespace duetime::test {

// Topics whose names and numbers a test sets.
class MapOfNames final : public delivery::TopicNames {
 public:
  std::string NameOf(storage::TopicId topic) const override {
    for (const auto& [name, number] : numbers) {
      if (number == topic) return name;
    }
    return "";
  }
  storage::TopicId Find(absl::string_view name) const override {
    const auto found = numbers.find(name);
    return found == numbers.end() ? storage::TopicId{} : found->second;
  }
  std::string NameOfOrigin(storage::TopicId topic, const storage::MessageId&,
                           storage::TopicId letters) const override {
    const auto found = letters_of.find(topic);
    return found != letters_of.end() && found->second == letters ? NameOf(topic) : "";
  }
  UsedTopic Use(absl::string_view name) override {
    if (ends_first) return {};
    return {.topic = Find(name), .first_id = first_id};
  }

  std::map<std::string, storage::TopicId, std::less<>> numbers;
  // The dead-letter topics of topics.
  std::map<storage::TopicId, storage::TopicId> letters_of;
  // Of each topic.
  storage::MessageId first_id;
  // A name ends between Find and Use.
  bool ends_first = false;
};

}  // namespace duetime::test
