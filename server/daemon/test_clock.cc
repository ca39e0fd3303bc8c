// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/test_clock.h"

#include <span>
#include <spdlog/spdlog.h>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "server/base/check.h"
#include "storage/repair_note.h"
#include "storage/types.h"

namespace duetime {
namespace {

// An object of ObjectKind::kCatalog in the catalog's partition, for ever. A backup and a repair
// keep it.
constexpr absl::string_view kTestClockNote = "test-clock";

absl::Status MarkTestStore(storage::RocksDbStore* store) {
  storage::Record record;
  record.type = storage::RecordType::kObject;
  record.shard = storage::kRepairNotePartition;
  record.kind = static_cast<uint8_t>(storage::ObjectKind::kCatalog);
  record.name = std::string(kTestClockNote);
  record.value = "1";
  const storage::RecordBatch batch{std::move(record)};
  const storage::AppendOutcome outcome =
      store->Append(std::span(&batch, 1), storage::Durability::kSynced);
  if (outcome == storage::AppendOutcome::kAccepted) return absl::OkStatus();
  return absl::UnavailableError("the mark of the test clock could not be written");
}

}  // namespace

std::unique_ptr<runtime::TestClock> MakeTestClock(config::Config* config) {
  if (config->clock.test_clock.empty()) return nullptr;
  runtime::FitTestClock(&config->node);
  const std::optional<uint64_t> start_ms = runtime::TestClockStart(config->clock);
  DT_CHECK(start_ms.has_value());
  return std::make_unique<runtime::TestClock>(
      *start_ms, runtime::ClockPace{.frozen = config->clock.test_clock_frozen});
}

void FitTestStore(storage::RocksDbStoreOptions* options) {
  options->shards_if_new = 1;
  options->unsafe_no_sync = true;
  // The open must not judge a copy by the time of this clock: the store may turn out to be a real
  // one.
  options->now_ms = 0;
}

absl::StatusOr<bool> IsTestStore(storage::RocksDbStore* store) {
  const auto note = store->GetObject(storage::ObjectKind::kCatalog, storage::kRepairNotePartition,
                                     kTestClockNote);
  if (!note.ok()) return note.status();
  return note->has_value();
}

absl::Status CheckTestStore(const config::Config& config, storage::RocksDbStore* store,
                            runtime::TestClock* clock) {
  const absl::StatusOr<bool> is_test = IsTestStore(store);
  if (!is_test.ok()) return is_test.status();
  if (clock == nullptr) {
    if (!*is_test) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        config.store.data_dir, " was made with a test clock; only --test-clock opens it"));
  }
  if (!*is_test) {
    // The first start of a store has epoch 1.
    if (store->epoch() != 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          config.store.data_dir,
          " was made without a test clock, so its messages are real: use another directory"));
    }
    if (absl::Status status = MarkTestStore(store); !status.ok()) return status;
  }
  absl::Status status = clock->KeepIn(config.store.data_dir + "/test-clock");
  if (!status.ok()) return status;
  // A copy or a restored backup has no such file.
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    const auto marks = store->Marks(shard);
    if (!marks.ok()) return marks.status();
    clock->MoveTo(marks->low_watermark_ms);
  }
  spdlog::warn("TEST CLOCK: server time is {} and moves when a client says so; nothing is synced",
               absl::FormatTime(absl::RFC3339_sec,
                                absl::FromUnixMillis(static_cast<int64_t>(clock->Read().wall_ms)),
                                absl::UTCTimeZone()));
  return absl::OkStatus();
}

}  // namespace duetime
