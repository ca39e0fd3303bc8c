// SPDX-License-Identifier: Apache-2.0
//
// Tools of storage_mutation_test: makes data directories, opens damaged copies of them in child
// processes, and judges what happens.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <rocksdb/file_system.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "storage/rocksdb/manifest.h"
#include "storage/rocksdb/witness.h"
#include "storage/varint.h"
#include "tests/crash/store_driver.h"
#include "tests/support/from_environment.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace fs = std::filesystem;
using storage::AppendOutcome;
using storage::Durability;
using storage::Record;
using storage::RecordType;
using storage::RocksDbStore;
using storage::TopicId;

constexpr uint64_t kNever = ~uint64_t{0};

inline std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::vector<fs::path> DbFiles(const fs::path& data_dir, absl::string_view part) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir / "db")) {
    if (absl::StrContains(entry.path().filename().string(), part)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The first byte of a table's properties, and the byte behind the last.
inline std::pair<size_t, size_t> PropertiesIn(const std::string& table) {
  const std::string name = "rocksdb.properties";
  absl::string_view place = absl::string_view(table).substr(table.rfind(name) + name.size());
  const size_t begin = storage::TakeVarint(&place).value();
  return {begin, begin + storage::TakeVarint(&place).value()};
}

inline void FlipBitOf(std::string* bytes, size_t at, int bit) {
  (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << bit));
}

// RocksDB then looks for a hash index behind the properties.
inline void FlipLastBitOfProperties(std::string* table) {
  FlipBitOf(table, PropertiesIn(*table).second - 1, 7);
}

// After Arm(n), the n-th new table and all later ones are never created: the thread that flushes
// hangs until the process ends.
class HangingFlushes final : public rocksdb::FileSystemWrapper {
 public:
  HangingFlushes() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  static const char* kClassName() { return "HangingFlushes"; }
  const char* Name() const override { return kClassName(); }

  void Arm(uint64_t n) {
    left_ = static_cast<int64_t>(n);
    armed_ = true;
  }
  bool hangs() const { return hangs_; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    if (path.ends_with(".sst") && armed_ && left_.fetch_sub(1) <= 0) {
      hangs_ = true;
      while (true) ::pause();
    }
    return target()->NewWritableFile(path, options, result, debug);
  }

 private:
  std::atomic<int64_t> left_{0};
  std::atomic<bool> armed_{false};
  std::atomic<bool> hangs_{false};
};

// One append that touches several column families.
inline AppendOutcome Append(RocksDbStore* store, uint64_t number) {
  std::vector<storage::RecordBatch> group = {NumberedMessage(number)};
  group[0][0].topic = TopicId{1};
  Record index;
  index.type = RecordType::kIndex;
  index.topic = TopicId{1};
  index.kind = static_cast<uint8_t>(storage::IndexKind::kUserKey);
  index.name = absl::StrCat("key-", number);
  index.value = storage::EncodeIndexEntry({.id = group[0][0].key.id, .content = {}});
  group[0].push_back(std::move(index));
  if (number % 5 == 4) {
    Record erase = NumberedMessage(number - 2)[0];
    erase.type = RecordType::kErase;
    erase.topic = TopicId{1};
    erase.bytes = static_cast<uint32_t>(erase.value.size());
    erase.value.clear();
    group[0].push_back(std::move(erase));
  }
  return store->Append(group, Durability::kSynced);
}

inline void Require(bool condition) {
  if (!condition) ::_exit(99);
}

inline void AppendRange(RocksDbStore* store, uint64_t begin, uint64_t end) {
  for (uint64_t number = begin; number < end; ++number) {
    Require(Append(store, number) == AppendOutcome::kAccepted);
  }
}

// What a reader of the store can see, as text: messages, index entries and a counter.
inline absl::StatusOr<std::string> ContentsOf(RocksDbStore* store) {
  std::string contents;
  storage::Page<storage::MessageRef> page;
  page.next = storage::MessageKey{};
  while (page.next.has_value()) {
    const storage::MessageKey from = *page.next;
    const absl::Status status =
        store->Scan(0, from, storage::MessageKey::FirstAt(uint64_t{1} << 43), {}, &page);
    if (!status.ok()) return status;
    std::vector<storage::MessageKey> keys;
    for (const storage::MessageRef& ref : page.items) keys.push_back(ref.key);
    std::vector<std::optional<std::string>> values;
    if (absl::Status read = store->MultiGet(0, keys, &values); !read.ok()) return read;
    for (size_t i = 0; i < keys.size(); ++i) {
      absl::StrAppend(&contents, keys[i].due_ms, values[i].value_or("absent"), "\n");
    }
  }
  std::vector<storage::IndexRef> entries;
  absl::Status status =
      store->ScanIndex(0, TopicId{1}, storage::IndexKind::kUserKey, {"", ""}, 100'000, &entries);
  if (!status.ok()) return status;
  for (const storage::IndexRef& entry : entries) absl::StrAppend(&contents, entry.name, "\n");
  std::vector<storage::BucketCount> counts;
  status = store->ScanCounts(0, TopicId{1}, storage::CountLevel::kTopic, {0, kNever}, 10, &counts);
  if (!status.ok()) return status;
  for (const storage::BucketCount& count : counts) {
    absl::StrAppend(&contents, count.messages, " messages\n");
  }
  return contents;
}

// How a child process ended. Values of an exit code.
enum Verdict : int {
  kIntact = 0,
  kRefused = 10,
  // A read answered DATA_LOSS, or left records out and listed a damaged block.
  kDetected = 11,
  // From here on, the store did wrong.
  kNamesNoFile = 20,
  kSilentLoss = 21,
  kWrongError = 22,
};

struct Outcome {
  int exit_code = -1;
  int signal = 0;
  // What the child wrote to stderr.
  std::string text;

  bool right() const {
    return signal == 0 && (exit_code == kIntact || exit_code == kRefused || exit_code == kDetected);
  }
};

// Runs `body` in a child process, which ends with the returned code.
inline Outcome InChild(const std::string& stderr_path, const std::function<int()>& body) {
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(stderr_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, STDERR_FILENO);
    ::alarm(60);
    ::_exit(body());
  }
  Outcome outcome;
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  outcome.text = ReadFile(stderr_path);
  return outcome;
}

inline bool NamesAFile(absl::string_view message, const std::string& data_dir) {
  return absl::StrContains(message, data_dir + "/db/0") ||
         absl::StrContains(message, data_dir + "/db/MANIFEST-") ||
         absl::StrContains(message, data_dir + "/db/CURRENT") ||
         absl::StrContains(message, data_dir + "/witness");
}

// Opens the store twice and compares its contents. The second time shows that the first one neither
// hid nor made a loss.
inline int OpenAndJudge(const std::string& data_dir,
                        const std::function<bool(const std::string&)>& complete) {
  Verdict verdict = kIntact;
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto store = RocksDbStore::Open(SmallStoreOptions(data_dir));
    if (!store.ok()) {
      std::cerr << store.status() << "\n";
      if (!absl::IsDataLoss(store.status())) return kWrongError;
      if (!NamesAFile(store.status().message(), data_dir)) return kNamesNoFile;
      verdict = kRefused;
      continue;
    }
    const absl::StatusOr<std::string> contents = ContentsOf(store->get());
    if (!contents.ok()) {
      std::cerr << contents.status() << "\n";
      if (!absl::IsDataLoss(contents.status())) return kWrongError;
      verdict = kDetected;
    } else if (!complete(*contents)) {
      if ((*store)->Damage().blocks.empty()) return kSilentLoss;
      verdict = kDetected;
    }
  }
  return verdict;
}

// How a directory came to be.
struct Origin {
  std::string name;
  // The last flush hangs after so many tables; kNever: there is only one log, and all flushes
  // ended.
  uint64_t tables_before_hang = kNever;
};
inline void PrintTo(const Origin& origin, std::ostream* out) { *out << origin.name; }

// One run of a store, which begins at message `number` and ends with a kill. Calls `moment` a few
// times meanwhile.
inline int ContinueDirectory(const std::string& data_dir, const Origin& origin, uint64_t number,
                             const std::function<void()>& moment) {
  const auto file_system = std::make_shared<HangingFlushes>();
  storage::RocksDbStoreOptions options = SmallStoreOptions(data_dir);
  options.file_system = file_system;
  auto store = RocksDbStore::Open(options);
  if (!store.ok()) std::cerr << store.status();
  Require(store.ok());
  moment();
  const uint64_t begin = number;
  number += 170;
  AppendRange(store->get(), begin, number);
  moment();
  const auto flushes_end = [&] {
    for (int i = 0; i < 5000 && DbFiles(data_dir, ".log").size() > 1; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  flushes_end();
  if (origin.tables_before_hang != kNever) {
    file_system->Arm(origin.tables_before_hang);
    // A flush may end with fewer tables than that, and a compaction may hang before a flush does.
    const auto two_logs = [&] { return DbFiles(data_dir, ".log").size() >= 2; };
    const auto flush_hangs = [&] {
      for (int i = 0; i < 1000 && two_logs() && !file_system->hangs(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      for (int i = 0; i < 200; ++i) {
        if (!two_logs() || !file_system->hangs()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return true;
    };
    do {
      Require(number < begin + 10'000);
      AppendRange(store->get(), number, number + 1);
      ++number;
    } while (!flush_hangs());
  }
  AppendRange(store->get(), number, number + 60);
  Require((*store)->WriteWitness().ok());
  if (origin.tables_before_hang == kNever) flushes_end();
  ::_exit(0);  // As a kill would.
}

// Fills a store in two runs. Copies the files as they were at a few moments to `older`.
inline int MakeDirectory(const std::string& data_dir, const fs::path& older, const Origin& origin) {
  uint64_t moments = 0;
  const auto save = [&] {
    fs::create_directories(older / std::to_string(moments));
    for (const fs::path& file : DbFiles(data_dir, "")) {
      std::error_code gone;  // RocksDB may delete a file meanwhile.
      fs::copy_file(file, older / std::to_string(moments) / file.filename(), gone);
    }
    ++moments;
  };
  {
    auto store = RocksDbStore::Open(SmallStoreOptions(data_dir));
    Require(store.ok());
    save();
    AppendRange(store->get(), 0, 250);
    save();
  }
  return ContinueDirectory(data_dir, origin, 250, save);
}

// A directory with its expected contents, and a copy for each mutation.
class Victim {
 public:
  // The directory is in `folder`, in a folder with the name of its origin, where another program
  // may have left it. If it is not there, this program makes it. An empty `folder`: in a temporary
  // one.
  explicit Victim(const Origin& origin,
                  const std::string& folder = TextFromEnvironment("DUETIME_STORES"))
      : origin_(origin), root_(folder.empty() ? made_.path() : folder + "/" + origin.name) {
    const bool exists = fs::exists(original());
    if (!exists) {
      fs::create_directories(original());
      const Outcome made = InChild(stderr_.Join("made"), [this] {
        return MakeDirectory(original().string(), older(), origin_);
      });
      EXPECT_EQ(made.exit_code, 0) << made.text;
    }
    Read();
    if (exists) {
      EXPECT_TRUE(ReadFile(root_ / "contents") == contents_) << "not what the last program left";
    }
    WriteFile(root_ / "contents", contents_);
  }

  // Writes to the untouched directory in another run.
  void Continue() {
    // Each message has an entry in the index, which stays.
    uint64_t number = 0;
    for (size_t at = 0; (at = contents_.find("\nkey-", at)) != std::string::npos; ++at) ++number;
    EXPECT_GE(number, 420u);
    const Outcome made = InChild(stderr_.Join("made"), [this, number] {
      return ContinueDirectory(original().string(), origin_, number, [] {});
    });
    EXPECT_EQ(made.exit_code, 0) << made.text;
    Read();
    WriteFile(root_ / "contents", contents_);
  }

  const std::string& name() const { return origin_.name; }
  // ContentsOf() the untouched directory.
  const std::string& contents() const { return contents_; }
  fs::path dir() const { return copy_.path(); }
  fs::path root() const { return root_; }
  fs::path original() const { return root_ / "store"; }
  fs::path older() const { return root_ / "older"; }
  // Paths of the untouched files; the same names exist in the copy.
  std::vector<fs::path> Files(absl::string_view part) const { return DbFiles(original(), part); }
  fs::path InCopy(const fs::path& file) const { return dir() / fs::relative(file, original()); }
  fs::path Manifest() const { return Files("MANIFEST").back(); }
  // The tables that the manifest names. If the kill cut a compaction short, the directory has other
  // tables, too. The database does not need them.
  std::vector<fs::path> LiveTables() const {
    const std::string bytes = ReadFile(Manifest());
    storage::ManifestReader reader;
    for (size_t at = 0; at < bytes.size(); at += storage::kLogBlockBytes) {
      reader.AddBlock(absl::string_view(bytes).substr(at, storage::kLogBlockBytes));
    }
    std::vector<fs::path> tables = Files(".sst");
    std::erase_if(tables, [&reader](const fs::path& file) {
      return !reader.state().tables.contains(std::stoull(file.stem().string()));
    });
    EXPECT_GT(tables.size(), 3u);
    return tables;
  }
  fs::path witness() const { return original() / "witness"; }

  void Restore() {
    fs::remove_all(dir());
    fs::copy(original(), dir(), fs::copy_options::recursive);
  }

  Outcome Judge() {
    return InChild(stderr_.Join("judge"), [this] {
      return OpenAndJudge(dir().string(),
                          [this](const std::string& contents) { return contents == contents_; });
    });
  }

 private:
  // Notes the contents of the untouched directory.
  void Read() {
    // Both slots know everything, so that the loss of one changes nothing.
    auto witness = storage::Witness::Open(this->witness().string());
    EXPECT_TRUE(witness.ok());
    const auto record = (*witness)->Read();
    EXPECT_TRUE(record.ok() && (*witness)->Write(**record).ok());
    Restore();
    contents_.clear();
    const std::string path = stderr_.Join("contents");
    const Outcome read = InChild(stderr_.Join("read"), [this, path] {
      auto store = RocksDbStore::Open(SmallStoreOptions(dir().string()));
      if (!store.ok()) std::cerr << store.status();
      Require(store.ok());
      const auto contents = ContentsOf(store->get());
      if (!contents.ok()) std::cerr << contents.status();
      Require(contents.ok());
      WriteFile(path, *contents);
      return 0;
    });
    EXPECT_EQ(read.exit_code, 0) << read.text;
    contents_ = ReadFile(path);
    EXPECT_GT(contents_.size(), 40'000u);
    const size_t logs = DbFiles(original(), ".log").size();
    EXPECT_EQ(logs, origin_.tables_before_hang == kNever ? 1u : 2u) << origin_.name;
  }

  const Origin origin_;
  const TempDirectory made_;
  const fs::path root_;
  const TempDirectory copy_;
  const TempDirectory stderr_;
  std::string contents_;
};

// Counts outcomes and reports the wrong ones.
class Tally {
 public:
  void Add(const std::string& what, const Outcome& outcome) {
    ++total_;
    ++by_result_[outcome.signal != 0 ? "killed" : std::to_string(outcome.exit_code)];
    if (outcome.right()) return;
    ADD_FAILURE() << what << ": exit code " << outcome.exit_code << ", signal " << outcome.signal
                  << "\n"
                  << outcome.text.substr(0, 2000);
  }

  uint64_t of(Verdict verdict) const {
    const auto it = by_result_.find(std::to_string(verdict));
    return it == by_result_.end() ? 0 : it->second;
  }

  void Print(const std::string& name) const {
    std::cout << name << ": " << total_ << " mutations, " << of(kIntact) << " intact, "
              << of(kRefused) << " refused, " << of(kDetected) << " detected by a read\n";
  }

 private:
  uint64_t total_ = 0;
  std::map<std::string, uint64_t> by_result_;
};

}  // namespace duetime::test
