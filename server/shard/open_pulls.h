// SPDX-License-Identifier: Apache-2.0
//
// OpenPulls: the Pulls of one shard that wait for messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::shard {

// A Pull is a stream that receives the deliveries of one step and then ends.
//
// Guarantees: (1) every Pull is answered once; (2) it is answered at the end of the step in which
// it got messages, was refused them for lack of room (AnswerBudget), was ended, or ran out of time,
// so each Pull sees one step at least. Cost: O(1) per Pull and per delivery frame, O(log n) for its
// deadline. Thread safety: confined to the shard's engine thread.
class OpenPulls {
 public:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  void Add(base::Now now, const protocol::PullCommand& command) {
    const uint64_t end_mono_ms = now.mono_ms + command.wait_ms;
    DT_CHECK(pulls_.emplace(command.stream, Pull{command.tag, end_mono_ms}).second);
    deadlines_.emplace(end_mono_ms, command.stream);
  }

  // Answers the Pull at the end of this step. False if it was answered before.
  bool End(protocol::StreamId stream) {
    const auto found = pulls_.find(stream);
    if (found == pulls_.end()) return false;
    deadlines_.erase({found->second.end_mono_ms, stream});
    found->second.end_mono_ms = 0;
    deadlines_.emplace(0, stream);
    return true;
  }

  // Answers the Pulls that got messages in `effects`, and the Pulls whose time is up. Returns the
  // streams of both; the caller must detach them.
  std::vector<protocol::StreamId> Answer(base::Now now, protocol::Effects* effects) {
    std::vector<protocol::StreamId> answered;
    if (pulls_.empty()) return answered;
    std::erase_if(effects->frames, [&](protocol::DeliveryFrame& frame) {
      const auto found = pulls_.find(frame.stream);
      if (found == pulls_.end()) return false;
      Pull& pull = found->second;
      for (auto& delivery : frame.deliveries) pull.deliveries.push_back(std::move(delivery));
      if (frame.charge != nullptr) pull.charges.push_back(std::move(frame.charge));
      pull.status = std::move(frame.status);
      End(frame.stream);
      return true;
    });
    while (!deadlines_.empty() && deadlines_.begin()->first <= now.mono_ms) {
      const protocol::StreamId stream = deadlines_.begin()->second;
      deadlines_.erase(deadlines_.begin());
      const auto found = pulls_.find(stream);
      Pull& pull = found->second;
      // A refusal does not matter to a Pull that got messages before.
      if (!pull.deliveries.empty()) pull.status = absl::OkStatus();
      effects->replies.push_back(protocol::PullReply{.tag = pull.tag,
                                                     .deliveries = std::move(pull.deliveries),
                                                     .status = std::move(pull.status),
                                                     .charges = std::move(pull.charges)});
      pulls_.erase(found);
      answered.push_back(stream);
    }
    return answered;
  }

  // The first deadline on the steady clock; kNever if no Pull waits.
  uint64_t NextDeadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }

 private:
  struct Pull {
    protocol::CallTag tag{};
    uint64_t end_mono_ms = 0;
    std::vector<protocol::Delivery> deliveries = {};
    absl::Status status = absl::OkStatus();
    std::vector<protocol::AnswerCharge> charges = {};
  };

  absl::flat_hash_map<protocol::StreamId, Pull> pulls_;
  std::set<std::pair<uint64_t, protocol::StreamId>> deadlines_;
};

}  // namespace duetime::shard
