// SPDX-License-Identifier: Apache-2.0
//
// A directory of a test's own, gone when the test is over.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace duetime::test {

// Makes an empty directory (mode 0700) in memory if the machine has /dev/shm, else where TMPDIR
// says, and removes it with everything in it. In memory because a test that syncs thousands of
// times should not wait for a disk; what a disk does with unsynced bytes is the business of
// tests/crash.
class TempDirectory {
 public:
  // kDisk: where TMPDIR says, for a test that wants syncs to take their time.
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
