// SPDX-License-Identifier: Apache-2.0
//
// A file system with a power switch, and with failures on demand, over the machine's own.
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

// Tracks the written and the synced bytes of each file, and whether a new file's directory was
// synced. After CutPower() every call still succeeds without an effect, so that the program can
// shut down in the ordinary way. LoseUnsynced() then puts the files into a state that a disk may
// have after the cut.
//
// A cut keeps the synced part of a file and a prefix of any length of the rest (a torn write). Of
// the rest of a log it may keep some pages and turn others into zeros, because a disk stores the
// pages of a large write in any order. A new file may be missing if its directory was not synced
// since. Deletions and renames are durable at once.
//
// Thread-safe.
class UnsyncedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // The operation that fails.
  enum class Operation : uint8_t { kAppend, kSync };

  // Calls `on_cut` at the moment of each cut, so that the caller can save other files.
  explicit UnsyncedFileSystem(std::function<void()> on_cut = [] {});

  static const char* kClassName() { return "UnsyncedFileSystem"; }
  const char* Name() const override { return kClassName(); }

  // Cuts the power now.
  void CutPower();
  // Cuts the power just before the n-th write or sync from now, n >= 1.
  void CutPowerAt(uint64_t n);
  bool power_is_cut() const;

  // Applies the cut to the files, and counts writes and syncs again afterwards. REQUIRES: no file
  // is open.
  void LoseUnsynced(std::mt19937_64* random);

  // Applies the cut, which keeps all files as they were but for the last `bytes` of the logs.
  // REQUIRES: no file is open; these bytes are not synced, and in one log.
  void LoseEndOfLog(uint64_t bytes);

  // The bytes that were ever written to logs, and those of them that are not synced.
  uint64_t log_bytes() const;
  uint64_t unsynced_log_bytes() const;

  // Makes the n-th write, or sync, of a write-ahead log from now fail, n >= 1; with `for_good` also
  // all later ones. A failed write may leave part of its bytes. A failed sync may leave all of
  // them.
  void FailLog(Operation operation, uint64_t n, bool for_good);

  // The number of pages that a cut turned into zeros in the middle of the kept part.
  uint64_t holes() const;

  // The number of writes and syncs so far. A test chooses n below it.
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

  // The files call these. BeforeAppend and BeforeSync return the error to report, or OK.
  rocksdb::IOStatus BeforeAppend(const std::string& path);
  rocksdb::IOStatus BeforeSync(const std::string& path);
  void Appended(const std::string& path, uint64_t bytes);
  void Truncated(const std::string& path, uint64_t bytes);
  void Synced(const std::string& path);
  void DirectorySynced(const std::string& path);
  void Created(const std::string& path);
  // Starts to track an opened file. A file that is older than this object is whole and synced.
  void Known(const std::string& path);

  // Removes the files that are newer than the cut.
  void RemoveNewFilesLocked();
  // The power is on again, and the files are as they were at the cut.
  void EndCutLocked();
  void MakeHolesLocked(const std::string& path, uint64_t begin, uint64_t end,
                       std::mt19937_64* random);
  void CountLocked();
  void CutLocked();
  rocksdb::IOStatus FailureLocked(Operation operation, const std::string& path);

  const std::function<void()> on_cut_;

  mutable std::mutex mutex_;
  // mutex_ guards all members below.
  std::map<std::string, FileState> files_;
  // The files as they were at the cut.
  std::map<std::string, FileState> files_at_cut_;
  bool cut_ = false;
  uint64_t log_bytes_ = 0;
  uint64_t operations_ = 0;
  uint64_t cut_at_ = 0;
  uint64_t holes_ = 0;
  Operation fail_operation_ = Operation::kAppend;
  uint64_t fail_in_ = 0;
  bool fail_for_good_ = false;
};

}  // namespace duetime::test
