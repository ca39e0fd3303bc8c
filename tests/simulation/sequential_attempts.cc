// SPDX-License-Identifier: Apache-2.0
//
// The part of SequentialContract about attempts that ended without a settlement, of which Get
// tells.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/simulation/sequential_contract.h"

namespace duetime::simulation {

using protocol::LeaseToken;

void SequentialContract::OnHolder(LeaseToken token, const std::string& client_id) {
  if (Message* const message = FindLease(token)) message->client_id = client_id;
}

void SequentialContract::NewAttempt(base::Now now, uint32_t number, Message* message) {
  EndIfLate(now, message);
  message->current = number;
  message->begin_ms = now.wall_ms;
}

void SequentialContract::EndAttempt(base::Now now, storage::AttemptEnd how, uint64_t delay_ms,
                                    const std::string& reason, Message* message) {
  const uint64_t begin_ms = message->begin_ms;
  message->ended.push_back(
      storage::AddAttempt("", {.number = message->current,
                               .end = how,
                               .end_ms = now.wall_ms,
                               .held_ms = now.wall_ms > begin_ms ? now.wall_ms - begin_ms : 0,
                               .delay_ms = delay_ms,
                               .client_id = message->client_id,
                               .reason = reason}));
}

bool SequentialContract::TellsAll(const storage::Attempts& told, const Message& message) {
  const std::vector<std::string>& ended = message.ended;
  const size_t last = std::min(ended.size(), storage::kLastAttemptsMax);
  return std::equal(told.begin(), told.end(), ended.end() - static_cast<int64_t>(last), ended.end(),
                    [](const storage::Attempt& one, const std::string& bytes) {
                      return storage::AddAttempt("", one) == bytes;
                    });
}

void SequentialContract::EndIfLate(base::Now now, Message* message) {
  if (!message->pending() || !message->lease.has_value() || message->Leased(now)) return;
  EndAttempt(now, storage::AttemptEnd::kLeaseLost, 0, "", message);
  message->lease.reset();
}

void SequentialContract::CompareAttempts(const std::string& name, const Message& message,
                                         const protocol::GetReply& actual) {
  Same(name + ": subscriptions", size_t{1}, actual.subscriptions.size());
  if (actual.subscriptions.empty()) return;
  const auto told = storage::DecodeAttempts(actual.subscriptions.front().last_attempts);
  if (!told.has_value() || !TellsAll(*told, message)) {
    Violate(absl::StrCat(name, ": tells of ", told.has_value() ? told->size() : 0, " attempts; ",
                         message.ended.size(), " happened, or others"));
  }
}

void SequentialContract::RecoverAttempts(const storage::Progress* row, Host::End how,
                                         Message* message) {
  const bool power = how == Host::End::kPowerCut;
  const auto told =
      storage::DecodeAttempts(row == nullptr ? absl::string_view() : row->last_attempts);
  if (!told.has_value()) return Violate(message->id.ToString() + ": attempts that nobody wrote");
  std::vector<std::string>& known = message->ended;
  const std::string last = told->empty() ? "" : storage::AddAttempt("", told->back());
  while (power && !known.empty() && known.back() != last) known.pop_back();
  if (!TellsAll(*told, *message)) {
    Violate(message->id.ToString() + ": a restart knows other attempts than those that happened");
  }
}

void SequentialContract::OnDetached(base::Now now, LeaseToken token) {
  Message* const message = FindLease(token);
  if (message == nullptr) return;
  EndAttempt(now, storage::AttemptEnd::kStreamEnded, 0, "", message);
  OnFailed(now, token, std::nullopt);
}

void SequentialContract::OnStop(base::Now now) {
  for (auto& [id, message] : messages_) {
    if (!message.pending() || !message.Leased(now)) continue;
    EndAttempt(now, storage::AttemptEnd::kTakenBack, 0, "", &message);
    message.lease.reset();
  }
}

}  // namespace duetime::simulation
