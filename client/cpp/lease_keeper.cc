// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

// The longest time, so that an infinite one does not overflow the clock's arithmetic.
constexpr absl::Duration kKeepMax = absl::Hours(24 * 365);

constexpr LeaseKeeper::SteadyTime kNever = LeaseKeeper::SteadyTime::max();

std::chrono::nanoseconds Bounded(absl::Duration time) {
  return absl::ToChronoNanoseconds(std::clamp(time, absl::ZeroDuration(), kKeepMax));
}

}  // namespace

LeaseKeeper::LeaseKeeper(absl::Duration extend_max, int handlers)
    : extend_max_(Bounded(extend_max)), running_(static_cast<size_t>(handlers)) {}

void LeaseKeeper::Start(absl::Duration lease) {
  lease_ = lease;
  interval_ = Bounded(lease) / 3;
  extends_ = interval_.count() > 0 && interval_ < extend_max_;
}

void LeaseKeeper::Clear() {
  for (Frame* frame : frames_) frame->listed = false;
  frames_.clear();
  for (auto& of_handler : running_) of_handler.clear();
  asked_.clear();
  lost_.clear();
  interval_ = std::chrono::nanoseconds(0);
  extends_ = false;
  reports_ = true;
}

// ---- Deliveries that wait

void LeaseKeeper::Add(Frame* frame, SteadyTime now) {
  const auto size = static_cast<size_t>(frame->response.deliveries_size());
  frame->waits.assign(size, true);
  frame->waiting = static_cast<int>(size);
  frame->received = now;
  frame->lease_end = interval_.count() > 0 ? now + Bounded(lease_) : kNever;
  frame->listed = false;
  if (size > 0 && interval_.count() > 0) Append(frame, now + (extends_ ? 1 : 2) * interval_);
}

void LeaseKeeper::Append(Frame* frame, SteadyTime extend_at) {
  frame->extend_at = extend_at;
  frame->extend_from = 0;
  frame->place = frames_.insert(frames_.end(), frame);
  frame->listed = true;
}

void LeaseKeeper::Unlist(Frame* frame) {
  if (!frame->listed) return;
  frames_.erase(frame->place);
  frame->listed = false;
}

bool LeaseKeeper::Remove(Frame* frame, int index) {
  if (!Unwait(frame, index)) return false;
  Forget(frame->response.deliveries(index).lease_token());
  return true;
}

bool LeaseKeeper::Unwait(Frame* frame, int index) {
  const auto at = static_cast<size_t>(index);
  if (!frame->waits[at]) return false;
  frame->waits[at] = false;
  if (--frame->waiting == 0) Unlist(frame);
  return true;
}

void LeaseKeeper::Forget(const std::string& lease_token) {
  const auto asked = asked_.empty() ? asked_.end() : asked_.find(lease_token);
  if (asked != asked_.end()) {
    asked->second.ended = true;
  } else if (!lost_.empty()) {
    lost_.erase(lease_token);
  }
}

// ---- Deliveries that run

LeaseKeeper::Taken LeaseKeeper::Take(int handler, Frame* frame, int index, SteadyTime now) {
  const std::string& token = frame->response.deliveries(index).lease_token();
  if (!Unwait(frame, index)) return Taken::kGone;
  const bool refused = IsLost(token);
  if (refused || now >= frame->lease_end) {
    // A refusal of an extension may follow, and is of the same lease.
    if (!refused) ++lost_count_;
    if (!refused && asked_.count(token) > 0) lost_.insert(token);
    Forget(token);
    return Taken::kLost;
  }
  running_[static_cast<size_t>(handler)].push_back({.frame = frame,
                                                    .index = index,
                                                    .begun = now,
                                                    .extend_at = frame->extend_at,
                                                    .reported = false,
                                                    .confirmed = false});
  begins_ = true;
  return Taken::kYes;
}

LeaseKeeper::Confirmation LeaseKeeper::ConfirmationOf(int handler) const {
  const Running& running = running_[static_cast<size_t>(handler)].front();
  if (IsLost(running.delivery().lease_token())) return Confirmation::kLost;
  return running.confirmed ? Confirmation::kYes : Confirmation::kPending;
}

bool LeaseKeeper::End(int handler, size_t nth) {
  std::vector<Running>& of_handler = running_[static_cast<size_t>(handler)];
  if (nth >= of_handler.size()) return true;
  const Running running = of_handler[nth];
  const std::string& token = running.delivery().lease_token();
  const bool lost = IsLost(token);
  Forget(token);
  of_handler[nth].frame = nullptr;
  if (nth + 1 == of_handler.size()) of_handler.clear();
  return running.reported || !reports_ || lost;
}

// ---- Requests

std::vector<std::string> LeaseKeeper::Collect(SteadyTime now, bool sends, int room,
                                              v1::SubscribeRequest* request) {
  std::vector<std::string> given_back;
  room = ExtendRunning(now, room, request);
  room = KeepWaiting(now, room, &given_back, request);
  Report(now, sends || request->settlements_size() > 0, room, request);
  return given_back;
}

void LeaseKeeper::AddExtension(const std::string& lease_token, v1::SubscribeRequest* request) {
  v1::Settlement* settlement = request->add_settlements();
  settlement->set_lease_token(lease_token);
  *settlement->mutable_extend()->mutable_duration() = ToProto(lease_);
  ++asked_[lease_token].requests;
}

int LeaseKeeper::ExtendRunning(SteadyTime now, int room, v1::SubscribeRequest* request) {
  for (auto& of_handler : running_) {
    for (Running& running : of_handler) {
      // A little ahead, so that leases that began close together share a request.
      if (ExtensionDue(running) > now + interval_ / 4) continue;
      if (room == 0) return 0;
      --room;
      AddExtension(running.delivery().lease_token(), request);
      running.extend_at = now + interval_;
    }
  }
  return room;
}

int LeaseKeeper::KeepWaiting(SteadyTime now, int room, std::vector<std::string>* given_back,
                             v1::SubscribeRequest* request) {
  const SteadyTime until = extends_ ? now + interval_ / 4 : now;
  // The loop ends because each frame moves to the end with a later time, or leaves the list.
  while (!frames_.empty() && frames_.front()->extend_at <= until) {
    Frame* frame = frames_.front();
    const bool keep = extends_ && now + interval_ < frame->received + extend_max_;
    for (int& i = frame->extend_from; i < frame->response.deliveries_size(); ++i) {
      const std::string& token = frame->response.deliveries(i).lease_token();
      if (!frame->waits[static_cast<size_t>(i)] || (keep && IsLost(token))) continue;
      if (room == 0) return 0;
      --room;
      if (keep) {
        AddExtension(token, request);
      } else {
        v1::Settlement* settlement = request->add_settlements();
        settlement->set_lease_token(token);
        settlement->mutable_release();
        given_back->push_back(token);
        Remove(frame, i);
      }
    }
    Unlist(frame);
    if (!keep) continue;
    frame->lease_end = now + Bounded(lease_);
    Append(frame, now + interval_);
  }
  return room;
}

void LeaseKeeper::Report(SteadyTime now, bool sends, int room, v1::SubscribeRequest* request) {
  sends = sends || std::any_of(running_.begin(), running_.end(), [&](const auto& of_handler) {
            return std::any_of(of_handler.begin(), of_handler.end(), [&](const Running& running) {
              return ReportDue(running, /*sends=*/false) <= now;
            });
          });
  if (!sends) return;
  for (auto& of_handler : running_) {
    for (Running& running : of_handler) {
      if (ReportDue(running, sends) > now) continue;
      if (room == 0) return;
      --room;
      const std::string& token = running.delivery().lease_token();
      request->add_begun(token);
      ++asked_[token].requests;
      running.reported = true;
    }
  }
}

LeaseKeeper::SteadyTime LeaseKeeper::ExtensionDue(const Running& running) const {
  if (!extends_ || running.frame == nullptr) return kNever;
  if (running.extend_at >= running.begun + extend_max_) return kNever;
  return IsLost(running.delivery().lease_token()) ? kNever : running.extend_at;
}

LeaseKeeper::SteadyTime LeaseKeeper::ReportDue(const Running& running, bool sends) const {
  if (running.frame == nullptr || running.reported || !reports_) return kNever;
  if (IsLost(running.delivery().lease_token())) return kNever;
  if (running.delivery().confirm_begun()) return running.begun;
  return running.begun + (sends ? kReportAfter : kReportAlone);
}

std::optional<LeaseKeeper::SteadyTime> LeaseKeeper::NextCollect(SteadyTime now) {
  SteadyTime next = kNever;
  if (!frames_.empty()) {
    next = frames_.front()->extend_at;
  } else if (interval_.count() > 0) {
    next = now + (extends_ ? 1 : 2) * interval_;
  }
  for (const auto& of_handler : running_) {
    for (const Running& running : of_handler) {
      next = std::min({next, ExtensionDue(running), ReportDue(running, /*sends=*/false)});
    }
  }
  // While handlers begin often, the caller need not be woken for each.
  if (std::exchange(begins_, false)) next = std::min(next, now + kReportAlone);
  return next == kNever ? std::nullopt : std::optional(next);
}

void LeaseKeeper::OnExtended(const std::string& lease_token) {
  const auto found = asked_.find(lease_token);
  if (found != asked_.end()) OnAnswer(found);
}

void LeaseKeeper::OnAnswer(AskedMap::iterator asked) {
  if (--asked->second.requests > 0) return;
  if (asked->second.ended) lost_.erase(asked->first);
  asked_.erase(asked);
}

void LeaseKeeper::OnBegun(const std::string& lease_token, SteadyTime now) {
  OnExtended(lease_token);
  for (auto& of_handler : running_) {
    // A delivery that waits for the answer is alone.
    if (of_handler.size() != 1) continue;
    Running& running = of_handler.front();
    if (!running.delivery().confirm_begun() || running.delivery().lease_token() != lease_token) {
      continue;
    }
    running.confirmed = true;
    running.begun = now;
  }
}

void LeaseKeeper::OnSettled(const std::string& lease_token) {
  if (asked_.empty() || asked_.erase(lease_token) == 0) return;
  reports_ = false;
  lost_.erase(lease_token);
}

bool LeaseKeeper::OnRefused(const std::string& lease_token) {
  const auto found = asked_.find(lease_token);
  if (found == asked_.end()) return false;
  if (lost_.insert(lease_token).second) ++lost_count_;
  OnAnswer(found);
  return true;
}

}  // namespace duetime::client
