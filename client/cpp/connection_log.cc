// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/connection_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "client/cpp/error.h"

namespace duetime::client {
namespace {

constexpr char kCannotReach[] = "cannot reach";
constexpr char kHasLost[] = "has lost";

// The code and the reason.
std::string KindOf(const absl::Status& status) {
  const std::string reason = GetErrorInfo(status).reason;
  return absl::StrCat(absl::StatusCodeToString(status.code()), reason.empty() ? "" : " ", reason);
}

std::string TextOf(const absl::Status& status) {
  if (status.ok()) return "the server ended the stream";
  return absl::StrCat(KindOf(status), ": ", status.message());
}

}  // namespace

ConnectionLog::ConnectionLog(const std::string& topic, const std::string& server)
    : subscriber_(absl::StrCat("the subscriber of \"", topic, "\" ")), server_(server) {}

std::optional<ConnectionLog::Line> ConnectionLog::OnOpened(SteadyTime now) {
  const base::MutexLock lock(&mutex_);
  std::optional<Line> line;
  if (!down_.has_value()) {
    line = {absl::LogSeverity::kInfo, absl::StrCat(subscriber_, "is connected to ", server_)};
  } else if (told_) {
    const auto away = std::chrono::duration_cast<std::chrono::seconds>(now - *down_).count();
    line = {absl::LogSeverity::kInfo,
            absl::StrCat(subscriber_, "is back: connected to ", server_, " after ", away, " s")};
  }
  opened_ = now;
  down_.reset();
  told_ = false;
  return line;
}

std::optional<ConnectionLog::Line> ConnectionLog::OnEnded(SteadyTime now,
                                                          const absl::Status& status) {
  const base::MutexLock lock(&mutex_);
  const char* const verb = opened_.has_value() ? kHasLost : kCannotReach;
  if (opened_.has_value() && now - *opened_ >= kPause) quiet_.clear();
  opened_.reset();
  return Fail(now, verb, KindOf(status), TextOf(status));
}

std::optional<ConnectionLog::Line> ConnectionLog::OnOverdue(SteadyTime now, absl::Duration wait) {
  const base::MutexLock lock(&mutex_);
  if (opened_.has_value()) return std::nullopt;
  return Fail(now, kCannotReach, "overdue",
              absl::StrCat("no server has answered for ", absl::FormatDuration(wait)));
}

ConnectionLog::Line ConnectionLog::OnRefused(const absl::Status& status) const {
  return {absl::LogSeverity::kError,
          absl::StrCat(subscriber_, "ends, because ", server_, " refused it: ", TextOf(status))};
}

std::optional<ConnectionLog::Line> ConnectionLog::Fail(SteadyTime now, const char* verb,
                                                       const std::string& kind,
                                                       const std::string& cause) {
  if (!down_.has_value()) down_ = now;
  const auto found = quiet_.try_emplace(absl::StrCat(verb, " ", kind), Quiet{now, kPause}).first;
  Quiet& quiet = found->second;
  if (now < quiet.until) return std::nullopt;
  quiet.until = now + quiet.pause;
  quiet.pause = std::min(2 * quiet.pause, kPauseMax);
  told_ = true;
  return Line{absl::LogSeverity::kWarning,
              absl::StrCat(subscriber_, verb, " ", server_, ", and tries again: ", cause)};
}

}  // namespace duetime::client
