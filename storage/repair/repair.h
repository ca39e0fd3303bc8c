// SPDX-License-Identifier: Apache-2.0
//
// RepairDirectory: writes what can be read of a damaged data directory into a new one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/types.h"

namespace duetime::storage {

// The topics that an object names by their numbers.
using TopicsOfObject = std::function<std::vector<TopicId>(
    ObjectKind kind, uint16_t shard, absl::string_view name, absl::string_view value)>;

// Copies every record of `data_dir` that can be read into a new store in `into`, and changes
// nothing in `data_dir`. The new store has no damaged block and no contradictions: its counters
// count its messages, and each of its keys, locators, listings and progress rows has its message.
// Messages that have an end record, or that were moved away, are left out. README.md ("Repair") has
// the rules.
//
// The new store has an id of its own and later epochs, so that it gives no id of the old one.
// Messages due by `now_ms`, and by its first start, count as perhaps delivered. If anything was
// lost, the low watermarks are left out too, so that the first start looks at every message.
//
// A topic whose name is lost gets a new one if a record names it: recovered-topic-N, and if another
// topic or stored settings have that name, recovered-topic-N-2 and so on. So does a topic with an
// old name that is now the name of another topic. `topics_of`, which may be
// empty, tells the topics that objects name: a start refuses a subscription of a topic without a
// name. If anything was lost, a note (repair_note.h) tells the catalog which numbers of
// subscriptions are taken.
//
// Passes lines for people to `print`, while it runs: progress, each loss (file, key range), and the
// lost messages by topic and day.
//
// Returns
//   OK                   nothing was lost.
//   DATA_LOSS            with `*written`: something was lost, and `print` was told what. Without
//                        it: too little is left for a new store.
//   UNAVAILABLE          a daemon has `data_dir` open.
//   NOT_FOUND            there is no data directory at `data_dir`.
//   FAILED_PRECONDITION  `into` is not empty, lies within `data_dir`, or has too little free space;
//                        or the format is of another version.
//   INTERNAL             the operating system failed.
// Unless `*written`, `into` holds no store. A crash leaves a directory "unfinished" in it.
// Cost: reads the data about twice, and writes it once. Memory: as for a start.
absl::Status RepairDirectory(const std::string& data_dir, const std::string& into, uint64_t now_ms,
                             const TopicsOfObject& topics_of,
                             const std::function<void(absl::string_view)>& print, bool* written);

}  // namespace duetime::storage
