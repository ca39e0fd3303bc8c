// SPDX-License-Identifier: Apache-2.0
//
// A temporary directory that is removed when the test ends.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace duetime::test {

// Makes an empty directory (mode 0700), and removes it with its contents. The directory is in
// /dev/shm if the machine has it, else in TMPDIR, because a test that syncs thousands of times
// should not wait for a disk. The tests in tests/crash cover a disk's unsynced bytes.
class TempDirectory {
 public:
  // kDisk: in TMPDIR, for a test in which syncs must take real time.
  enum class Where { kMemory, kDisk };

  explicit TempDirectory(Where where = Where::kMemory) {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = where == Where::kMemory && std::filesystem::is_directory(memory);
    std::string name =
        (in_memory ? memory : std::filesystem::temp_directory_path()) / "duetime-test-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string Join(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace duetime::test
