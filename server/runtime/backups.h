// SPDX-License-Identifier: Apache-2.0
//
// Backups: the backup that a client reads now, and the thread that reads its files.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/runtime/reader.h"
#include "server/runtime/runtime_options.h"
#include "storage/checkpoint_file.h"

namespace duetime::runtime {

// The store's part of a backup.
struct CheckpointTasks {
  // Makes a data directory at a path on the same file system.
  std::function<absl::Status(const std::string& path)> write;
  std::function<absl::StatusOr<std::vector<storage::CheckpointFile>>(const std::string& path)> list;
};

struct BackupSnapshot {
  std::string name;
  uint64_t snapshot_ms = 0;
  std::vector<storage::CheckpointFile> files;
};

// Keeps at most one backup: a checkpoint of the store in `data_dir`/.checkpoint,
// a name that nobody uses for his own backups. It ends by End, after
// kIdleMs without a call, or when the disk is low. A start removes what a crash left.
//
// Reads are paced: the thread waits after a read until `bytes_per_second` allows the next one, so
// that a backup leaves the disk to messages. Thread safety: Post, Tend and the figures from any
// thread; Start, Read and End only in jobs of Post; Stop by one thread.
class Backups {
 public:
  static constexpr uint64_t kIdleMs = 30'000;
  static constexpr size_t kReadBytes = size_t{1} << 20;

  // Removes the remains of the last run, and starts the thread. REQUIRES: `clock`, and what `tasks`
  // uses, outlive the object.
  Backups(const BackupOptions& options, const std::string& data_dir, CheckpointTasks tasks,
          base::Clock* clock);
  ~Backups();
  Backups(const Backups&) = delete;
  Backups& operator=(const Backups&) = delete;

  // Ends the thread and the backup. Idempotent.
  void Stop();

  // Runs a job on the thread. Errors as Reader::Post.
  absl::Status Post(std::function<void()> job) { return reader_.Post(std::move(job)); }
  // Ends a backup that no call has used for kIdleMs, or any if `disk_low`. Call about once a
  // second.
  void Tend(bool disk_low);

  // FAILED_PRECONDITION BACKUP_RUNNING, INTERNAL.
  // `for_member`: it counts in no metric but running() and bytes_read().
  absl::StatusOr<BackupSnapshot> Start(bool for_member);
  // Returns at most kReadBytes. NOT_FOUND BACKUP_NOT_FOUND, INVALID_ARGUMENT INVALID_OFFSET,
  // INTERNAL.
  absl::StatusOr<std::string> Read(absl::string_view name, absl::string_view path, uint64_t offset);
  // NOT_FOUND BACKUP_NOT_FOUND.
  absl::Status End(absl::string_view name, bool complete);

  bool running() const { return running_.load(std::memory_order_relaxed); }
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  // The snapshot of the last complete backup of this run, Unix seconds. 0: none.
  uint64_t last_complete_s() const { return last_complete_s_.load(std::memory_order_relaxed); }
  // Backups that ended before they were complete.
  uint64_t broken_off() const { return broken_off_.load(std::memory_order_relaxed); }

 private:
  void Remove();
  void BreakOff(absl::string_view why);
  absl::Status Find(absl::string_view name) const;
  // Waits until the rate allows `bytes` more.
  void Pace(size_t bytes);

  const BackupOptions options_;
  const std::string directory_;
  const CheckpointTasks tasks_;
  base::Clock* const clock_;
  Reader reader_;

  // Confined to the thread.
  std::optional<BackupSnapshot> open_;
  bool for_member_ = false;
  uint64_t used_mono_ms_ = 0;
  uint64_t paced_until_us_ = 0;

  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<bool> running_{false};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> last_complete_s_{0};
  std::atomic<uint64_t> broken_off_{0};
};

// The moment whose state a stored backup holds, from its description backup.json. NOT_FOUND if
// there is none.
absl::StatusOr<uint64_t> ReadSnapshotMs(const std::string& backup_dir);

}  // namespace duetime::runtime
