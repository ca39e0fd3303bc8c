// SPDX-License-Identifier: Apache-2.0
#include "server/query/operation_query.h"

#include <utility>

namespace duetime::query {
namespace {

using storage::ObjectKind;

constexpr size_t kLooksMax = 10'000;
constexpr size_t kObjectsPerRead = 100;

}  // namespace

absl::StatusOr<OperationParts> ReadOperation(storage::MessageStore* store,
                                             const std::string& name) {
  OperationParts parts;
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    const auto object = store->GetObject(ObjectKind::kOperation, shard, name);
    if (!object.ok()) return object.status();
    if (!object->has_value()) continue;
    auto part = protocol::DecodeOperation(name, **object);
    if (!part.ok()) return part.status();
    parts.emplace(shard, *std::move(part));
  }
  return parts;
}

absl::StatusOr<OperationPage> ReadOperations(storage::MessageStore* store,
                                             std::optional<storage::TopicId> topic,
                                             std::string after, size_t rows) {
  OperationPage page;
  size_t looks = 0;
  for (;;) {
    // Shard 0 has a part of every operation.
    std::vector<storage::ObjectRef> objects;
    absl::Status status =
        store->ScanObjects(ObjectKind::kOperation, 0, after, kObjectsPerRead, &objects);
    if (!status.ok()) return status;
    if (objects.empty()) return page;
    for (const storage::ObjectRef& object : objects) {
      if (page.operations.size() >= rows || looks >= kLooksMax) {
        page.next = after;
        return page;
      }
      ++looks;
      after = object.name;
      auto parts = ReadOperation(store, object.name);
      if (!parts.ok()) return parts.status();
      if (parts->empty()) continue;
      if (topic.has_value() && parts->begin()->second.spec.topic != *topic) continue;
      page.operations.push_back(*std::move(parts));
    }
  }
}

}  // namespace duetime::query
