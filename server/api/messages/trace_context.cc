// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/trace_context.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace duetime::api {
namespace {

constexpr char kParent[] = "traceparent";
constexpr char kState[] = "tracestate";

// version "-" trace-id "-" parent-id "-" trace-flags
constexpr size_t kTraceIdAt = 3;
constexpr size_t kTraceIdBytes = 32;
constexpr size_t kParentIdAt = kTraceIdAt + kTraceIdBytes + 1;
constexpr size_t kParentIdBytes = 16;
constexpr size_t kFlagsAt = kParentIdAt + kParentIdBytes + 1;
constexpr size_t kParentBytes = kFlagsAt + 2;
// Later versions may append to the form of today. The bound keeps headers from filling messages.
constexpr size_t kParentBytesMax = 256;
constexpr size_t kStateBytesMax = 512;
constexpr size_t kStateMembersMax = 32;
constexpr size_t kStatePartBytesMax = 256;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

bool IsZero(absl::string_view text) {
  return text.find_first_not_of('0') == absl::string_view::npos;
}

bool IsParent(absl::string_view text) {
  if (text.size() < kParentBytes || text.size() > kParentBytesMax) return false;
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view trace_id = text.substr(kTraceIdAt, kTraceIdBytes);
  const absl::string_view parent_id = text.substr(kParentIdAt, kParentIdBytes);
  const bool dashes =
      text[kTraceIdAt - 1] == '-' && text[kParentIdAt - 1] == '-' && text[kFlagsAt - 1] == '-';
  if (!dashes || !IsHex(version) || version == "ff" || !IsHex(text.substr(kFlagsAt, 2))) {
    return false;
  }
  if (!IsHex(trace_id) || IsZero(trace_id) || !IsHex(parent_id) || IsZero(parent_id)) return false;
  if (text.size() == kParentBytes) return true;
  const absl::string_view rest = text.substr(kParentBytes);
  return version != "00" && rest[0] == '-' &&
         std::all_of(rest.begin(), rest.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

// One "key=value" of a list.
bool IsMember(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) return false;
  const absl::string_view key = text.substr(0, equals);
  const absl::string_view value = text.substr(equals + 1);
  if (key.empty() || key.size() > kStatePartBytesMax || value.empty() ||
      value.size() > kStatePartBytesMax) {
    return false;
  }
  const auto first = static_cast<unsigned char>(key[0]);
  if (!absl::ascii_islower(first) && !absl::ascii_isdigit(first)) return false;
  const bool key_fits = std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) ||
           absl::string_view("_-*/@").find(static_cast<char>(c)) != absl::string_view::npos;
  });
  return key_fits && std::all_of(value.begin(), value.end(), [](unsigned char c) {
           return absl::ascii_isprint(c) && c != '=';
         });
}

// The list without spaces and empty members; empty if it is malformed.
std::string StateOf(std::span<const absl::string_view> states) {
  std::vector<absl::string_view> members;
  for (const absl::string_view state : states) {
    if (state.size() > kStateBytesMax) return "";
    for (const absl::string_view part : absl::StrSplit(state, ',')) {
      const absl::string_view member = absl::StripAsciiWhitespace(part);
      if (member.empty()) continue;
      if (!IsMember(member) || members.size() == kStateMembersMax) return "";
      members.push_back(member);
    }
  }
  std::string all = absl::StrJoin(members, ",");
  return all.size() > kStateBytesMax ? "" : all;
}

// `metadata(name)`: the values of the metadata of this name.
template <typename Metadata>
TraceContext FindTraceContext(Metadata metadata) {
  const std::vector<absl::string_view> parents = metadata(kParent);
  if (parents.empty()) return {};
  return ParseTraceContext(parents, metadata(kState));
}

}  // namespace

TraceContext ParseTraceContext(std::span<const absl::string_view> parents,
                               std::span<const absl::string_view> states) {
  if (parents.size() != 1 || !IsParent(parents[0])) return {};
  return {.parent = std::string(parents[0]), .state = StateOf(states)};
}

TraceContext TraceContextOf(const rpc::Call& call) {
  return FindTraceContext([&](const char* name) { return call.Metadata(name); });
}

TraceContext TraceContextOf(const grpc::ServerContext& stream) {
  return FindTraceContext([&](const char* name) { return rpc::MetadataOf(stream, name); });
}

void AddTraceContext(const TraceContext& trace, const RequestLimits& limits,
                     storage::MessageRecord::Pairs* attributes) {
  if (trace.parent.empty()) return;
  size_t bytes = 0;
  for (const auto& [key, value] : *attributes) {
    if (key == kParent || key == kState) return;
    bytes += key.size() + value.size();
  }
  const auto fits = [&](absl::string_view key, const std::string& value) {
    bytes += key.size() + value.size();
    return attributes->size() < limits.attributes_max && bytes <= limits.attributes_bytes_max;
  };
  if (!fits(kParent, trace.parent)) return;
  attributes->emplace_back(kParent, trace.parent);
  if (trace.state.empty() || !fits(kState, trace.state)) return;
  attributes->emplace_back(kState, trace.state);
}

}  // namespace duetime::api
