// SPDX-License-Identifier: Apache-2.0
//
// A file system that forgets: the machine's own, with a power switch and with failures on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <rocksdb/file_system.h>
#include <string>

namespace duetime::test {

// Knows of each file how much was written and how much of that was synced, and of each new file
// whether its directory was. After CutPower() the caller's program goes on as in a dream:
// everything still succeeds, so that it can be taken down in the ordinary way, but LoseUnsynced()
// then brings the files to a state that a disk may have been left in by the cut.
//
// A cut leaves the synced part of a file, and of the rest a prefix of any length (a torn write). Of
// a log's rest it may also leave some pages and not others, which read as zeros: a disk stores the
// pages of a large write in any order. A file whose directory was not synced since it was created
// may be missing. Deletions and renames are durable at once.
//
// Thread-safe.
class UnsyncedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // Where a scripted failure strikes.
  enum class Operation : uint8_t { kAppend, kSync };

  // `on_cut` is called at the moment of each cut, so that the caller can note what else was on
  // disk.
  explicit UnsyncedFileSystem(std::function<void()> on_cut = [] {});

  static const char* kClassName() { return "UnsyncedFileSystem"; }
  const char* Name() const override { return kClassName(); }

  // The power fails now ...
  void CutPower();
  // ... or just before the n-th write or sync from now, n >= 1.
  void CutPowerAt(uint64_t n);
  bool power_is_cut() const;

  // Applies the cut to the files. Nothing may be open. Writes and syncs count again afterwards.
  void LoseUnsynced(std::mt19937_64* random);

  // The n-th write, or sync, of a write-ahead log from now fails, n >= 1, and so do all that follow
  // it if `for_good`. A failing write may leave part of its bytes, a failing sync may leave all of
  // them.
  void FailLog(Operation operation, uint64_t n, bool for_good);

  // Pages that were left out in the middle of the kept part.
  uint64_t holes() const;

  // The writes and syncs so far. A test chooses n below this number.
  uint64_t operations() const;

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

 private:
  class File;
  class Directory;

  struct FileState {
    uint64_t written = 0;
    uint64_t synced = 0;
    bool entry_synced = false;
  };

  // What the files report. BeforeAppend and BeforeSync give the error to return instead, if any.
  rocksdb::IOStatus BeforeAppend(const std::string& path);
  rocksdb::IOStatus BeforeSync(const std::string& path);
  void Appended(const std::string& path, uint64_t bytes);
  void Truncated(const std::string& path, uint64_t bytes);
  void Synced(const std::string& path);
  void DirectorySynced(const std::string& path);
  void Created(const std::string& path);
  // A file that is opened again may be older than this object: then it is whole and synced.
  void Known(const std::string& path);

  void MakeHolesLocked(const std::string& path, uint64_t begin, uint64_t end,
                       std::mt19937_64* random);
  void CountLocked();
  void CutLocked();
  rocksdb::IOStatus FailureLocked(Operation operation, const std::string& path);

  const std::function<void()> on_cut_;

  mutable std::mutex mutex_;
  // All below is guarded by mutex_.
  std::map<std::string, FileState> files_;
  // The files as they were at the cut.
  std::map<std::string, FileState> files_at_cut_;
  bool cut_ = false;
  uint64_t operations_ = 0;
  uint64_t cut_at_ = 0;
  uint64_t holes_ = 0;
  Operation fail_operation_ = Operation::kAppend;
  uint64_t fail_in_ = 0;
  bool fail_for_good_ = false;
};

}  // namespace duetime::test
