// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/disk_history.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "tests/crash/disk_calls.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPageBytes = 4096;

std::string BytesOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The empty string for a name in the top directory.
std::string DirectoryOf(const std::string& name) { return fs::path(name).parent_path(); }

uint64_t NumberOf(absl::string_view text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

void CheckThat(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

void DiskHistory::Begin(const DiskPaths& paths) {
  DiskHistory history(paths);
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(paths.live)) {
    names.push_back(fs::relative(entry.path(), paths.live));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const uint64_t file = history.Create(name);
    const fs::path path = fs::path(paths.live) / name;
    if (fs::is_regular_file(path)) fs::copy_file(path, history.KeptPath(file));
  }
  history.SyncDirectory("");
  for (const std::string& name : names) {
    if (fs::is_directory(fs::path(paths.live) / name)) history.SyncDirectory(name);
  }
}

DiskHistory::DiskHistory(DiskPaths paths) : paths_(std::move(paths)) {
  const std::string path = paths_.kept + "/events";
  for (const absl::string_view event : absl::StrSplit(BytesOf(path), '\n', absl::SkipEmpty())) {
    Apply(std::string(event));
  }
  events_ = real::Open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
  CheckThat(events_ >= 0);
}

DiskHistory::~DiskHistory() { real::Close(events_); }

std::string DiskHistory::KeptPath(uint64_t file) const {
  return absl::StrCat(paths_.kept, "/", file);
}

void DiskHistory::Add(const std::string& event) {
  const std::string line = event + "\n";
  CheckThat(real::Write(events_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  Apply(event);
}

void DiskHistory::Apply(const Change& change, Names* names) {
  if (!change.from.empty()) names->erase(change.from);
  if (!change.to.empty()) (*names)[change.to] = change.file;
}

void DiskHistory::Apply(const std::string& event) {
  const std::vector<std::string> part = absl::StrSplit(event, ' ');
  const uint64_t file = NumberOf(part[1]);
  if (part[0] == "name") {  // file, from, to; "-" for an empty name
    const auto name = [](const std::string& text) { return text == "-" ? "" : text; };
    changes_.push_back({.from = name(part[2]), .to = name(part[3]), .file = file});
    Apply(changes_.back(), &live_);
    last_file_ = std::max(last_file_, file);
  } else if (part[0] == "write") {  // file, begin, end
    unsynced_[file].push_back({NumberOf(part[2]), NumberOf(part[3])});
  } else if (part[0] == "sync") {
    unsynced_.erase(file);
  } else if (part[0] == "fail") {
    std::vector<Range>& lost = lost_[file];
    lost.insert(lost.end(), unsynced_[file].begin(), unsynced_[file].end());
    unsynced_.erase(file);
  } else if (part[0] == "dirsync") {  // 0, name
    std::erase_if(changes_, [&](const Change& change) {
      if (DirectoryOf(change.to.empty() ? change.from : change.to) != part[2]) return false;
      Apply(change, &kept_);
      return true;
    });
  }
}

uint64_t DiskHistory::FileOf(const std::string& name) const {
  const auto it = live_.find(name);
  return it == live_.end() ? 0 : it->second;
}

uint64_t DiskHistory::Create(const std::string& name) {
  Add(absl::StrCat("name ", last_file_ + 1, " - ", name));
  return last_file_;
}

void DiskHistory::Rename(const std::string& from, const std::string& to) {
  Add(absl::StrCat("name ", FileOf(from), " ", from, " ", to));
}

void DiskHistory::Unlink(const std::string& name) {
  Add(absl::StrCat("name ", FileOf(name), " ", name, " -"));
}

void DiskHistory::Write(uint64_t file, uint64_t begin, uint64_t end) {
  Add(absl::StrCat("write ", file, " ", begin, " ", end));
}

void DiskHistory::Sync(uint64_t file, int fd) {
  const int kept =
      real::Open(KeptPath(file).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  CheckThat(kept >= 0);
  struct stat info = {};
  CheckThat(::fstat(fd, &info) == 0);
  const auto size = static_cast<uint64_t>(info.st_size);
  std::string bytes;
  for (const Range& range : unsynced_[file]) {
    const uint64_t end = std::min(range.end, size);
    if (range.begin >= end) continue;
    bytes.resize(end - range.begin);
    const auto length = static_cast<ssize_t>(bytes.size());
    const auto at = static_cast<off_t>(range.begin);
    CheckThat(::pread(fd, bytes.data(), bytes.size(), at) == length);
    CheckThat(real::WriteAt(kept, bytes.data(), bytes.size(), at) == length);
  }
  CheckThat(real::Truncate(kept, info.st_size) == 0);
  real::Close(kept);
  Add(absl::StrCat("sync ", file));
}

void DiskHistory::SyncDirectory(const std::string& name) { Add(absl::StrCat("dirsync 0 ", name)); }

void DiskHistory::FailSync(uint64_t file) { Add(absl::StrCat("fail ", file)); }

DiskHistory::Names DiskHistory::NamesAfter(PowerCut cut, uint64_t random) const {
  if (cut == PowerCut::kZeroed) return live_;
  Names names = kept_;
  if (cut == PowerCut::kTorn) {
    const uint64_t count = random % (changes_.size() + 1);
    for (uint64_t i = 0; i < count; ++i) Apply(changes_[i], &names);
  }
  return names;
}

std::string DiskHistory::BytesAfter(PowerCut cut, uint64_t file, uint64_t random) const {
  const std::string kept = BytesOf(KeptPath(file));
  const auto live = std::find_if(live_.begin(), live_.end(),
                                 [file](const auto& entry) { return entry.second == file; });
  // Nothing reads the unsynced bytes of a deleted file.
  if (cut == PowerCut::kDropped || live == live_.end()) return kept;
  std::vector<Range> ranges;
  for (const auto* of : {&lost_, &unsynced_}) {
    if (const auto it = of->find(file); it != of->end()) {
      ranges.insert(ranges.end(), it->second.begin(), it->second.end());
    }
  }
  const std::string seen = BytesOf(fs::path(paths_.live) / live->first);
  std::string bytes = seen;
  // The unsynced pieces, none longer than a page.
  std::vector<Range> pieces;
  for (const Range& range : ranges) {
    for (uint64_t at = range.begin; at < std::min<uint64_t>(range.end, seen.size());) {
      const uint64_t end =
          std::min({(at / kPageBytes + 1) * kPageBytes, range.end, uint64_t{seen.size()}});
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                bytes.begin() + static_cast<std::ptrdiff_t>(end), '\0');
      pieces.push_back({at, end});
      at = end;
    }
  }
  if (cut == PowerCut::kZeroed || pieces.empty()) return bytes;
  std::mt19937_64 choice(random);
  const size_t first_gone = choice() % pieces.size();
  const bool prefix = choice() % 2 == 0;
  if (prefix) bytes = kept;
  for (size_t i = 0; i < pieces.size(); ++i) {
    uint64_t end = pieces[i].end;
    if (i == first_gone) end = pieces[i].begin + choice() % (pieces[i].end - pieces[i].begin);
    if (i > first_gone && (prefix || choice() % 3 == 0)) continue;
    if (end > bytes.size()) bytes.resize(end, '\0');
    bytes.replace(pieces[i].begin, end - pieces[i].begin, seen, pieces[i].begin,
                  end - pieces[i].begin);
  }
  return bytes;
}

void DiskHistory::Cut(PowerCut cut, uint64_t seed, const std::string& target) const {
  std::mt19937_64 random(seed);
  // In the order of names, so that a directory comes before its files.
  for (const auto& [name, file] : NamesAfter(cut, random())) {
    const fs::path path = fs::path(target) / name;
    if (!fs::is_directory(path.parent_path())) continue;  // Its directory is gone.
    if (fs::is_directory(fs::path(paths_.live) / name)) {
      fs::create_directory(path);
      continue;
    }
    std::ofstream(path, std::ios::binary) << BytesAfter(cut, file, random());
  }
}

}  // namespace duetime::test
