// SPDX-License-Identifier: Apache-2.0
//
// ChangeModel: what may be true of messages that are changed while others change them, too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/commands.h"
#include "storage/message_record.h"

namespace duetime::simulation {

// The name of the recurrence that never passes an occurrence over.
inline constexpr absl::string_view kWholeRecurrence = "whole";

// A schedule request. One that is repeated has the same number, which stands for its content.
struct Ask {
  uint64_t number = 0;
  storage::TopicId topic{};
  // Empty: none; then the message is known by its number.
  std::string key;
  std::string request_id;
  scheduler::OnConflict on_conflict = scheduler::OnConflict::kFail;
  bool only_if_exists = false;
  uint64_t max_wait_ms = 0;
  uint64_t deliver_ms = 0;
  // The request_id was sent before: what is answered may be what was done then.
  bool repeats = false;
};

// Follows messages with keys, replaced and moved by many at once, and the occurrences of
// recurrences.
//
// What makes it certain amid the interleaving is the revision: each change of a message has its
// own, so content and time of (id, revision) are one thing whoever tells them, and none below the
// highest that was confirmed may come any more. Everything else is said only where nothing that is
// open or was lost in a crash could have made it otherwise.
class ChangeModel {
 public:
  using Place = std::pair<storage::TopicId, std::string>;

  // A call about one place, as it was when it was sent.
  struct Question {
    Place place;
    // The message whose key it was for certain; no id if none.
    storage::MessageId owner;
    bool by_key = false;
    bool schedules = false;
    bool cancels = false;
    bool changes = false;
  };

  static Place PlaceOf(const Ask& ask);
  static std::string PayloadOf(uint64_t number);

  // The ids that are known, in order.
  const std::vector<storage::MessageId>& ids() const { return order_; }
  Place PlaceOf(const storage::MessageId& id) const { return items_.at(id).place; }
  // A place that answers to a key.
  static bool HasKey(const Place& place) { return place.second[0] != '#'; }

  void OnStart(uint64_t epoch) { epoch_ = epoch; }
  // The process is gone, with every open call.
  void OnCrash(bool power, const std::vector<Question>& open);

  Question AskSchedule(Ask* ask);
  Question AskCancel(const Place& place, bool by_key);
  Question AskReschedule(const Place& place, bool by_key, uint64_t deliver_ms);
  Question AskGet(const Place& place, bool by_key);
  // A bulk operation on keys that begin with `prefix` begins.
  void OnBulk(storage::TopicId topic, const std::string& prefix, bool ends);

  void OnSchedule(const Question& question, const Ask& ask, const delivery::AcceptedMessage& answer,
                  const absl::Status& status);
  void OnCancel(const Question& question, const storage::MessageId& id,
                const delivery::CancelReply& reply);
  void OnReschedule(const Question& question, const storage::MessageId& id, uint64_t deliver_ms,
                    const delivery::RescheduleReply& reply);
  void OnGet(const Question& question, const storage::MessageId& id,
             const delivery::GetReply& reply);

  void OnDelivery(base::Now now, const delivery::Delivery& delivery,
                  const storage::MessageRecord& record, storage::TopicId topic);
  bool Knows(delivery::LeaseToken token) const { return leases_.contains(token); }
  void OnAckSent(delivery::LeaseToken token);
  void OnAcked(delivery::LeaseToken token);

  // After the final drain. `violation` is empty while all is well.
  void CheckDrained();
  const std::string& violation() const { return violation_; }
  uint64_t replaced() const { return replaced_; }
  uint64_t moved() const { return moved_; }
  uint64_t occurrences() const { return occurrences_; }

 private:
  struct Version {
    // 0: not known.
    uint64_t number = 0;
    uint64_t deliver_ms = 0;
  };
  struct Item {
    storage::MessageId id;
    Place place;
    bool confirmed = false;
    bool occurrence = false;
    bool cancelled = false;
    bool stopped = false;
    bool acked = false;
    bool ack_may_be_lost = false;
    bool ack_sent = false;
    bool maybe_ended = false;
    // It has changes that nobody told.
    bool unsure = false;
    std::map<uint64_t, Version> versions;
    uint64_t highest = 0;
    int deliveries = 0;
    uint64_t delivered_revision = 0;
    uint64_t delivered_epoch = 0;
    uint32_t last_attempt = 0;
  };
  struct Key {
    std::set<storage::MessageId> ids;
    int changes_open = 0;
    int cancels_open = 0;
    // A change was lost, or a bulk operation may have made some: revisions that nobody told.
    bool unsure = false;
    // A schedule was lost: there may be a message that nobody told of.
    bool maybe_created = false;
    bool bulk_ends = false;
    // Deliver times that are the bound of a PUSH_BACK, or that a bulk operation made.
    bool any_time = false;
    std::set<uint64_t> times;
    std::set<uint64_t> numbers;
  };

  void Violate(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  Key& KeyOf(const Place& place);
  Question Open(const Place& place, bool by_key);
  void Close(const Question& question);
  void Lose(const Question& question);
  Item& ItemOf(const storage::MessageId& id, const Place& place);
  void Confirm(Item* item, uint64_t revision, Version version);
  bool MustExist(const Item& item);
  bool StillOwns(const Question& question);
  void OnCreated(const Question& question, const Ask& ask, const delivery::AcceptedMessage& answer);
  void OnReplaced(const Ask& ask, const delivery::AcceptedMessage& answer);
  void CheckVersion(const Item& item, uint64_t revision, const Version& seen);
  void OnOccurrence(const storage::MessageId& id, const storage::MessageRecord& record);

  std::map<storage::MessageId, Item> items_;
  std::vector<storage::MessageId> order_;
  std::map<Place, Key> keys_;
  std::map<storage::TopicId, std::set<std::string>> bulk_prefixes_;
  std::map<storage::TopicId, std::set<std::string>> bulk_end_prefixes_;
  // How often a content was sent and not refused.
  std::map<uint64_t, int> possible_;
  std::map<std::pair<Place, std::string>, std::pair<uint64_t, storage::MessageId>> requests_;
  std::set<std::pair<Place, std::string>> requests_sent_;
  std::map<delivery::LeaseToken, storage::MessageId> leases_;
  // By name and payload, which each creation has its own of: the ids by number.
  std::map<std::string, std::map<uint64_t, storage::MessageId>> recurrences_;
  uint64_t epoch_ = 0;
  uint64_t replaced_ = 0;
  uint64_t moved_ = 0;
  uint64_t occurrences_ = 0;
  std::string violation_;
};

}  // namespace duetime::simulation
