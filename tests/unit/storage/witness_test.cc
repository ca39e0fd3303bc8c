// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/witness.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>

#include "gtest/gtest.h"

#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

WitnessRecord Saying(uint64_t durable_sequence) {
  return {WitnessRecord::State::kCreated, 1, StoreId{0x1122, 0x3344}, 7, durable_sequence};
}

class WitnessTest : public testing::Test {
 protected:
  std::unique_ptr<Witness> Open() {
    auto witness = Witness::Open(path_);
    EXPECT_TRUE(witness.ok()) << witness.status();
    return *std::move(witness);
  }

  // Opens the witness and reads it.
  absl::StatusOr<std::optional<WitnessRecord>> Read() { return Open()->Read(); }

  // Opens the witness, reads it as is required, and writes the record.
  void Write(const WitnessRecord& record) {
    const std::unique_ptr<Witness> witness = Open();
    ASSERT_TRUE(witness->Read().ok());
    ASSERT_TRUE(witness->Write(record).ok());
  }

  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void SetBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  const test::TempDirectory directory_;
  const std::string path_ = directory_.Join("witness");
};

TEST_F(WitnessTest, ANewFileSaysNothingAndIsPrivate) {
  EXPECT_EQ(*Read(), std::nullopt);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(WitnessTest, AReaderChangesNothing) {
  EXPECT_TRUE(absl::IsInternal(Witness::OpenToRead(path_).status()));
  EXPECT_FALSE(std::filesystem::exists(path_));
  Write(Saying(1));
  const std::string bytes = Bytes();
  const auto reader = Witness::OpenToRead(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(*(*reader)->Read(), Saying(1));
  EXPECT_FALSE((*reader)->Write(Saying(2)).ok());
  EXPECT_EQ(Bytes(), bytes);
}

TEST_F(WitnessTest, TheLastWriteIsRead) {
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
    Write(Saying(sequence));
    EXPECT_EQ(*Read(), Saying(sequence));
  }
  const std::unique_ptr<Witness> witness = Open();
  ASSERT_TRUE(witness->Read().ok());
  for (uint64_t sequence = 6; sequence <= 9; ++sequence) {
    ASSERT_TRUE(witness->Write(Saying(sequence)).ok());
    EXPECT_EQ(*witness->Read(), Saying(sequence));
  }
  WitnessRecord creating;
  creating.format_version = 3;
  ASSERT_TRUE(witness->Write(creating).ok());
  EXPECT_EQ(*witness->Read(), creating);
}

TEST_F(WitnessTest, ATornFirstWriteSaysNothingAndAForeignFileIsDamaged) {
  Write(Saying(1));
  const std::string whole = Bytes();
  const size_t first_slot_ends = whole.size();
  for (size_t torn = 0; torn < first_slot_ends; torn += torn < 4'096 ? 512 : 1) {
    SetBytes(whole.substr(0, torn));
    EXPECT_EQ(*Read(), std::nullopt) << torn;
    SetBytes("x" + whole.substr(0, torn));
    EXPECT_TRUE(absl::IsDataLoss(Read().status())) << torn;
  }
}

TEST_F(WitnessTest, ATornWriteLeavesTheOneBefore) {
  Write(Saying(1));
  Write(Saying(2));
  const std::string before = Bytes();
  Write(Saying(3));
  const std::string after = Bytes();
  ASSERT_EQ(before.size(), after.size());
  // Any torn write, which leaves some new and some old bytes in the slot.
  for (size_t torn = 0; torn <= after.size(); ++torn) {
    SetBytes(after.substr(0, torn) + before.substr(torn));
    const auto read = Read();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == Saying(2) || *read == Saying(3)) << torn;
  }
}

TEST_F(WitnessTest, EveryFlippedBitIsNoticed) {
  Write(Saying(1));
  Write(Saying(2));
  const std::string bytes = Bytes();
  for (size_t slot = 0; slot < 2; ++slot) {
    const size_t begin = slot * static_cast<size_t>(Witness::kSlotDistance);
    for (size_t bit = 0; bit < 8 * Witness::kSlotBytes; ++bit) {
      std::string flipped = bytes;
      char& byte = flipped[begin + bit / 8];
      byte = static_cast<char>(byte ^ (1 << (bit % 8)));
      SetBytes(flipped);
      const auto read = Read();
      ASSERT_TRUE(read.ok());
      // Even writes go to the front slot. If one slot is damaged, the other one is read.
      EXPECT_EQ(*read, slot == 0 ? Saying(1) : Saying(2));
    }
  }
}

TEST_F(WitnessTest, TwoDamagedSlotsRefuse) {
  Write(Saying(1));
  Write(Saying(2));
  std::string bytes = Bytes();
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  bytes[static_cast<size_t>(Witness::kSlotDistance) + 20] ^= 1;
  SetBytes(bytes);
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace duetime::storage
