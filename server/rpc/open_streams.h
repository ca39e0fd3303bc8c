// SPDX-License-Identifier: Apache-2.0
//
// OpenStreams: the open streams of subscribers, for those that list and end them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/base/mutex.h"

namespace duetime::rpc {

class CqWorker;

// One open stream. The plain fields are constant once it is in OpenStreams.
struct OpenStream {
  // OpenStreams sets it.
  std::string id{};
  std::string topic{};
  std::string subscription{};
  std::string client_id{};
  std::string peer{};
  std::string principal{};
  int64_t messages_max = 0;
  int64_t bytes_max = 0;
  uint64_t start_ms = 0;
  // The number of messages in flight. Thread-safe.
  std::function<int64_t()> in_flight{};
  // When a settlement was last confirmed; 0: never.
  std::atomic<uint64_t> settled_ms{0};

  // The worker of the stream.
  CqWorker* worker = nullptr;
  // Ends the stream. Confined to the thread of `worker`; empty once the stream has ended.
  std::function<void()> end{};
};
using OpenStreamPtr = std::shared_ptr<OpenStream>;

// Ids are in the order in which the streams opened, and differ between two runs of a server, unless
// its clock was set back. Cost: Add, Remove and Find O(log n); List O(n). streams_max bounds n.
// Thread-safe.
class OpenStreams {
 public:
  void Add(const OpenStreamPtr& stream);
  // Does nothing for null. On the thread of the stream.
  void Remove(const OpenStreamPtr& stream);

  // Null: there is none.
  OpenStreamPtr Find(absl::string_view id) const;

  struct Page {
    std::vector<OpenStreamPtr> streams;
    // More may follow.
    bool more = false;
  };
  // Those behind the id `after`, of one topic; empty: of all topics.
  Page List(absl::string_view after, absl::string_view topic, size_t max) const;

 private:
  mutable base::Mutex mutex_;
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, OpenStreamPtr, std::less<>> by_id_ ABSL_GUARDED_BY(mutex_);
};

// Ends the stream unless it has ended, and then calls `done`, on the thread of the stream.
void EndStream(const OpenStreamPtr& stream, std::function<void()> done);

}  // namespace duetime::rpc
