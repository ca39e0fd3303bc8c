// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/open_streams.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "server/rpc/cq_worker.h"

namespace duetime::rpc {

void OpenStreams::Add(const OpenStreamPtr& stream) {
  base::MutexLock lock(&mutex_);
  stream->id = absl::StrFormat("%011x%08x", stream->start_ms, ++added_);
  by_id_.emplace(stream->id, stream);
}

void OpenStreams::Remove(const OpenStreamPtr& stream) {
  if (stream == nullptr) return;
  stream->end = nullptr;
  base::MutexLock lock(&mutex_);
  by_id_.erase(stream->id);
}

OpenStreamPtr OpenStreams::Find(absl::string_view id) const {
  base::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

OpenStreams::Page OpenStreams::List(absl::string_view after, absl::string_view topic,
                                    size_t max) const {
  Page page;
  base::MutexLock lock(&mutex_);
  for (auto next = by_id_.upper_bound(after); next != by_id_.end(); ++next) {
    if (!topic.empty() && next->second->topic != topic) continue;
    page.more = page.streams.size() == max;
    if (page.more) break;
    page.streams.push_back(next->second);
  }
  return page;
}

void EndStream(const OpenStreamPtr& stream, std::function<void()> done) {
  stream->worker->RunHere([stream, done = std::move(done)] {
    // A copy: the stream resets the function as it ends.
    const std::function<void()> end = stream->end;
    if (end) end();
    done();
  });
}

}  // namespace duetime::rpc
