// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/into_cell.h"

#include <filesystem>
#include <memory>
#include <spdlog/spdlog.h>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "server/cell/prepare_log.h"
#include "server/daemon/cell.h"
#include "server/daemon/options.h"
#include "server/daemon/test_clock.h"
#include "server/runtime/system_clock.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "storage/rocksdb/witness.h"

namespace duetime {
namespace {

// UNAVAILABLE would say that another process has the store open.
absl::Status OfBrokers(const absl::Status& status) {
  return absl::IsUnavailable(status) ? absl::DeadlineExceededError(status.message()) : status;
}

// NOT_FOUND also if Open would create a store, because the file `init` asks for one: a cell that
// goes on from an empty store is a mistake.
absl::StatusOr<std::unique_ptr<storage::RocksDbStore>> OpenStore(const config::Config& config) {
  storage::RocksDbStoreOptions options =
      StoreOptionsOf(config.store, /*init=*/false, /*in_cell=*/false);
  options.use = storage::RocksDbStoreOptions::Use::kAny;
  options.now_ms = runtime::SystemClock(config.clock).Read().wall_ms;
  std::error_code error;
  if (std::filesystem::exists(options.data_dir + "/init", error)) {
    return absl::NotFoundError(absl::StrCat("there is no store in ", options.data_dir,
                                            ", only the file init. Is the volume mounted?"));
  }
  return storage::RocksDbStore::Open(options);
}

absl::Status MoveIntoCell(config::Config config) {
  if (absl::Status status = FitProcessLimits(&config); !status.ok()) return status;
  const auto log = OpenCellLog(config);
  if (!log.ok()) return log.status();
  const auto store = OpenStore(config);
  if (!store.ok()) return store.status();
  const absl::StatusOr<bool> is_test = IsTestStore(store->get());
  if (!is_test.ok()) return is_test.status();
  if (*is_test) {
    return absl::FailedPreconditionError("the store was made with a test clock: not for a cell");
  }
  if (!(*store)->in_cell()) {
    if (absl::Status status = (*log)->CheckTopic(); !status.ok()) return OfBrokers(status);
    const absl::StatusOr<uint64_t> number = storage::RandomNumber();
    if (!number.ok()) return number.status();
    const auto place = cell::PrepareLog(log->get(), (*store)->epoch(), *number);
    if (!place.ok()) return OfBrokers(place.status());
    if (absl::Status status = (*store)->EnterCell(*place); !status.ok()) return status;
  }
  if (absl::Status closed = (*store)->Close(); !closed.ok()) {
    spdlog::warn("the store did not close cleanly: {}", closed.ToString());
  }
  return absl::OkStatus();
}

}  // namespace

config::ExitCode IntoCell(const config::Config& config) {
  const absl::Status status = MoveIntoCell(config);
  if (!status.ok()) {
    spdlog::critical("not moved into a cell: {}", status.ToString());
    return config::CodeOfFailedStart(status);
  }
  spdlog::info(
      "{} is the store of a member of a cell: start it as the first one, before the others",
      config.store.data_dir);
  return config::ExitCode::kStopped;
}

}  // namespace duetime
