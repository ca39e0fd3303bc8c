// SPDX-License-Identifier: Apache-2.0
#include "server/shard/shard.h"

#include <span>
#include <utility>

#include "gtest/gtest.h"

#include "storage/memory_store.h"

namespace duetime::shard {
namespace {

class ShardTest : public testing::Test {
 protected:
  ShardTest() { EXPECT_TRUE(shard_.Recover(now_).ok()); }

  // One turn of the engine.
  void Turn() {
    shard_.Step(now_);
    while (auto batch = shard_.TakeBatch()) {
      EXPECT_EQ(store_.Append(std::span(&batch->records, 1), batch->durability),
                storage::AppendOutcome::kAccepted);
      shard_.OnCommitted(now_, batch->sequence, storage::AppendOutcome::kAccepted);
    }
    told_ = shard_.TakeEffects().failed || told_;
  }
  // Runs until the shard is closed, or for long enough.
  void Rest() {
    for (int i = 0; i < 100 && !shard_.closed(); ++i) Turn();
  }
  // A call meets a read error. The next step decides what follows.
  void FailARead() {
    store_.FailReads(absl::InternalError("disk"));
    protocol::CancelCommand command;
    command.target.id = storage::MessageId::Make(store_.epoch(), 1, 0, now_.wall_ms);
    shard_.Handle(now_, std::move(command));
    store_.FailReads(absl::OkStatus());
  }

  const base::Now now_{.wall_ms = 1'800'000'000'000, .mono_ms = 1'000'000};
  storage::MemoryDisk disk_{1};
  storage::MemoryStore store_{&disk_};
  Shard shard_{0, delivery::ShardLimits{}, &store_};
  // The runtime was told of a failure.
  bool told_ = false;
};

TEST_F(ShardTest, ACleanStopIsNoFailure) {
  Turn();
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.closed());
  EXPECT_FALSE(shard_.failed());
  EXPECT_FALSE(told_);
}

TEST_F(ShardTest, AReadErrorBeforeTheCleanStopIsAFailure) {
  Turn();
  FailARead();
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.failed());
  EXPECT_TRUE(told_);
}

TEST_F(ShardTest, AReadErrorAfterTheCleanStopIsAFailure) {
  Turn();
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.closed());
  FailARead();
  EXPECT_FALSE(shard_.closed());
  Rest();
  EXPECT_TRUE(shard_.failed());
  EXPECT_TRUE(told_);
}

}  // namespace
}  // namespace duetime::shard
