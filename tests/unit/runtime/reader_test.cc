// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/reader.h"

#include <vector>

#include "gtest/gtest.h"

#include "server/base/error.h"

namespace duetime::runtime {
namespace {

// Blocks the reader thread until the test opens the gate.
class Gate {
 public:
  void Wait() {
    base::MutexLock lock(&mutex_);
    while (!open_) changed_.Wait(&mutex_);
  }
  void Open() {
    base::MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(ReaderTest, RunsJobsInOrderAlsoThoseThatWaitAtTheStop) {
  Reader reader(100);
  Gate gate;
  std::vector<int> done;
  ASSERT_TRUE(reader.Post([&] { gate.Wait(); }).ok());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(reader.Post([&done, i] { done.push_back(i); }).ok());
  }
  EXPECT_EQ(reader.waiting(), 51u);
  reader.Start();
  gate.Open();
  reader.Stop();
  ASSERT_EQ(done.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_EQ(reader.waiting(), 0u);
}

TEST(ReaderTest, RefusesWhenFullAndWhenStopped) {
  Reader reader(2);
  EXPECT_TRUE(reader.Post([] {}).ok());
  EXPECT_TRUE(reader.Post([] {}).ok());
  const absl::Status full = reader.Post([] {});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::GetErrorDetail(full)->reason, "OVERLOADED");
  reader.Start();
  reader.Stop();
  const absl::Status stopped = reader.Post([] {});
  EXPECT_EQ(base::GetErrorDetail(stopped)->reason, "DRAINING");
  reader.Stop();
}

}  // namespace
}  // namespace duetime::runtime
