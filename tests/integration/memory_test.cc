// SPDX-License-Identifier: Apache-2.0
//
// The daemon's memory stays under the bound of deploy/RUNBOOK.md for any number of pending or due
// messages. The test samples the resident memory in three cases: a topic without a subscriber, a
// subscriber that settles nothing, and messages that are not due yet.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/test_scale.h"

namespace duetime::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// The limits that make up the bound. They are small, so that memory that grows with the messages
// stands out.
struct Limits {
  uint64_t shards = 2;
  uint64_t block_cache_bytes = 16 * kMiB;
  uint64_t write_buffer_bytes = 8 * kMiB;
  uint64_t mailbox_bytes_max = 4 * kMiB;
  uint64_t due_max = 20'000;
  uint64_t due_idle_max = 1'000;
  uint64_t loaded_max = 50'000;
  uint64_t recent_messages_max = 50'000;
  uint64_t streams = 1;

  std::vector<std::string> Flags() const {
    const auto flag = [](const std::string& name, uint64_t value) {
      return "--" + name + "=" + std::to_string(value);
    };
    return {flag("shards", shards),
            flag("block-cache-bytes", block_cache_bytes),
            flag("write-buffer-bytes", write_buffer_bytes),
            flag("mailbox-bytes-max", mailbox_bytes_max),
            flag("batch-bytes-max", mailbox_bytes_max),
            flag("due-max", due_max),
            flag("due-idle-max", due_idle_max),
            flag("loaded-max", loaded_max),
            flag("recent-messages-max", recent_messages_max),
            "--wal-bytes-max=" + std::to_string(8 * write_buffer_bytes),
            "--spill-age-ms=2000",
            "--low-watermark-period-ms=100",
            "--log-level=warn"};
  }

  // The terms of "Memory" in deploy/RUNBOOK.md, in the same order.
  uint64_t Bytes() const {
    return block_cache_bytes + 4 * write_buffer_bytes + shards * loaded_max * 48 +
           shards * recent_messages_max * 40 + shards * 2 * due_max * 375 +
           streams * (20 * 1024 + 2 * 256 * 1024) + shards * 2 * mailbox_bytes_max;
  }
};

// Samples a process's resident memory every 20 ms and keeps the highest value, in bytes.
class Sampler {
 public:
  explicit Sampler(pid_t pid) : thread_([this, pid] { Run(pid); }) {}
  ~Sampler() { Stop(); }
  // Waits for this many more samples.
  void Wait(int samples) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, last = samples_ + samples] { return samples_ >= last; });
  }
  uint64_t Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    return most_;
  }

 private:
  void Run(pid_t pid) {
    std::unique_lock lock(mutex_);
    do {
      most_ = std::max(most_, ResidentBytes(pid));
      ++samples_;
      changed_.notify_all();
    } while (!changed_.wait_for(lock, Millis(20), [this] { return stopping_; }));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool stopping_ = false;
  int samples_ = 0;
  uint64_t most_ = 0;
  std::thread thread_;
};

class MemoryTest : public DaemonTest {
 protected:
  void ScheduleMany(const std::string& topic, int64_t messages, Millis delay) {
    constexpr int64_t kBatch = 2'000;
    for (int64_t sent = 0; sent < messages;) {
      v1::ScheduleBatchRequest batch;
      for (; sent < messages && batch.messages_size() < kBatch; ++sent) {
        *batch.add_messages() = Request(topic, delay, std::string(128, 'x'));
      }
      grpc::ClientContext context;
      SetDeadline(&context);
      v1::ScheduleBatchResponse response;
      const grpc::Status status = messages_->ScheduleBatch(&context, batch, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      for (const v1::ScheduleResult& result : response.results()) {
        ASSERT_TRUE(result.has_message()) << result.error().message();
      }
    }
  }

  int64_t Due(const std::string& topic) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetTopicRequest request;
    request.set_name(topic);
    v1::GetTopicResponse response;
    const grpc::Status status = admin_->GetTopic(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.topic().counts().due();
  }
};

TEST_F(MemoryTest, StaysUnderItsBoundWhateverIsDue) {
  const Limits limits;
  const int64_t messages = Scaled(500'000);
  StartDaemon(limits.Flags());
  const uint64_t empty = ResidentBytes(server_->pid());
  Sampler sampler(server_->pid());

  // Topic "unread" has no subscriber. The subscriber of "held" takes all its credit allows and
  // settles nothing. The messages of "soon" are due soon, and are more than the wheel may hold.
  Subscription hoarder(channel_, {.topic = "held", .messages = 100'000, .lease = Millis(600'000)});
  ASSERT_TRUE(hoarder.WaitStarted());
  ScheduleMany("unread", messages, Millis(0));
  ScheduleMany("held", messages, Millis(0));
  ScheduleMany("soon", messages / 4, Millis(45'000));
  EXPECT_EQ(Due("unread"), messages);
  EXPECT_EQ(Due("held"), messages);
  // Meanwhile old due messages go to the backlog on disk, too.
  sampler.Wait(200);
  const v1::Counts counts = Info().counts();
  const uint64_t most = sampler.Stop();
  std::printf(
      "%lld messages due, %lld in flight: %.1f MiB, %.1f MiB when empty; "
      "the bound is %.1f MiB more than that\n",
      static_cast<long long>(2 * messages), static_cast<long long>(counts.in_flight()),
      static_cast<double>(most) / kMiB, static_cast<double>(empty) / kMiB,
      static_cast<double>(limits.Bytes()) / kMiB);
  EXPECT_LE(most, empty + limits.Bytes());
  // The test must have filled the memory, because otherwise it proves nothing.
  if (messages > 200'000) {
    EXPECT_GT(counts.in_flight(), static_cast<int64_t>(limits.due_max));
  }
}

}  // namespace
}  // namespace duetime::test
