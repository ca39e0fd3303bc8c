// SPDX-License-Identifier: Apache-2.0
//
// DiskHistory: what of a directory tree a power cut keeps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace duetime::test {

// How a power cut treats what was not synced.
enum class PowerCut : uint8_t {
  // All of it is gone: bytes, new names, renames, deletions.
  kDropped,
  // Names and sizes are as the programs saw them, and every unsynced byte is zero.
  kZeroed,
  // The changes of names up to one of them, at random. Of each file the unsynced bytes up to one of
  // them, or some of the pages with the others zero; never all of its unsynced bytes.
  kTorn,
};
inline constexpr PowerCut kPowerCuts[] = {PowerCut::kDropped, PowerCut::kZeroed, PowerCut::kTorn};

// `live` is the directory as programs see it. `kept` holds the synced bytes of each file, and the
// list of events, so that another process can go on with the history after one that was killed.
struct DiskPaths {
  std::string live;
  std::string kept;
};

// The history of one directory tree since Begin(). A file's bytes are durable when the file is
// synced, and a name when its directory is synced. After a sync that failed, the bytes that it was
// to write stay unsynced for good, as in Linux: a later sync does not write them.
//
// Names are relative to the directory. Confined to one thread.
class DiskHistory {
 public:
  // Begins a history: what is in the directory is synced.
  static void Begin(const DiskPaths& paths);
  // Goes on with the history that another process wrote.
  explicit DiskHistory(DiskPaths paths);
  ~DiskHistory();
  DiskHistory(const DiskHistory&) = delete;
  DiskHistory& operator=(const DiskHistory&) = delete;

  // The number of the file with this name; 0 if there is none. Directories have numbers too.
  uint64_t FileOf(const std::string& name) const;
  uint64_t Create(const std::string& name);
  void Rename(const std::string& from, const std::string& to);
  void Unlink(const std::string& name);
  void Write(uint64_t file, uint64_t begin, uint64_t end);
  // `fd` reads the file.
  void Sync(uint64_t file, int fd);
  void SyncDirectory(const std::string& name);
  void FailSync(uint64_t file);

  // Writes the tree as it is after a power cut into the empty directory `target`.
  void Cut(PowerCut cut, uint64_t seed, const std::string& target) const;

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // A change of a name: a file gets it (`from` is empty), gets it instead of another name, or loses
  // it (`to` is empty).
  struct Change {
    std::string from;
    std::string to;
    uint64_t file = 0;
  };
  using Names = std::map<std::string, uint64_t>;

  // An event is a letter and its operands, one to a line.
  void Add(const std::string& event);
  void Apply(const std::string& event);
  static void Apply(const Change& change, Names* names);

  std::string KeptPath(uint64_t file) const;
  Names NamesAfter(PowerCut cut, uint64_t random) const;
  std::string BytesAfter(PowerCut cut, uint64_t file, uint64_t random) const;

  const DiskPaths paths_;
  // The list of events.
  int events_ = -1;
  Names live_;
  Names kept_;
  // Since their directories were synced.
  std::vector<Change> changes_;
  // The ranges of each file, in the order of the writes.
  std::map<uint64_t, std::vector<Range>> unsynced_;
  std::map<uint64_t, std::vector<Range>> lost_;
  uint64_t last_file_ = 0;
};

}  // namespace duetime::test
