// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/witness.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <xxhash.h>

#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"
#include "storage/rocksdb/file_system.h"

namespace duetime::storage {
namespace {

constexpr absl::string_view kMagic = "duetime\x01";
constexpr size_t kSlotChecksumAt = Witness::kSlotBytes - 8;
using Slot = std::array<char, Witness::kSlotBytes>;

struct SlotContent {
  uint64_t writes = 0;
  WitnessRecord record;
};

uint64_t SlotChecksum(const Slot& slot) { return XXH3_64bits(slot.data(), kSlotChecksumAt); }

Slot EncodeSlot(const SlotContent& content) {
  Slot slot{};
  const WitnessRecord& record = content.record;
  std::memcpy(&slot[0], kMagic.data(), kMagic.size());
  StoreLittleEndian(record.format_version, &slot[8]);
  StoreLittleEndian(static_cast<uint32_t>(record.state), &slot[12]);
  StoreLittleEndian(record.store_id.high, &slot[16]);
  StoreLittleEndian(record.store_id.low, &slot[24]);
  StoreLittleEndian(content.writes, &slot[32]);
  StoreLittleEndian(record.epoch, &slot[40]);
  StoreLittleEndian(record.durable_sequence, &slot[48]);
  StoreLittleEndian(SlotChecksum(slot), &slot[kSlotChecksumAt]);
  return slot;
}

std::optional<SlotContent> DecodeSlot(const Slot& slot) {
  if (std::memcmp(slot.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  if (LoadLittleEndian<uint64_t>(&slot[kSlotChecksumAt]) != SlotChecksum(slot)) return std::nullopt;
  SlotContent content;
  content.writes = LoadLittleEndian<uint64_t>(&slot[32]);
  content.record.format_version = LoadLittleEndian<uint32_t>(&slot[8]);
  content.record.state = WitnessRecord::State{LoadLittleEndian<uint32_t>(&slot[12])};
  content.record.store_id =
      StoreId{LoadLittleEndian<uint64_t>(&slot[16]), LoadLittleEndian<uint64_t>(&slot[24])};
  content.record.epoch = LoadLittleEndian<uint64_t>(&slot[40]);
  content.record.durable_sequence = LoadLittleEndian<uint64_t>(&slot[48]);
  return content;
}

}  // namespace

absl::StatusOr<StoreId> NewStoreId() {
  StoreId id;
  if (::getentropy(&id, sizeof(id)) != 0) return SystemError("read", "random bytes", errno);
  return id;
}

absl::StatusOr<uint64_t> RandomNumber() {
  uint64_t number = 0;
  if (::getentropy(&number, sizeof(number)) != 0) return SystemError("read", "random bytes", errno);
  return number;
}

absl::StatusOr<std::unique_ptr<Witness>> Witness::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return SystemError("open", path, errno);
  std::unique_ptr<Witness> witness(new Witness(path, fd));
  if (absl::Status status = SyncParentDirectory(path); !status.ok()) return status;
  return witness;
}

absl::StatusOr<std::unique_ptr<Witness>> Witness::OpenToRead(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  return std::unique_ptr<Witness>(new Witness(path, fd));
}

Witness::~Witness() { ::close(fd_); }

absl::StatusOr<std::optional<WitnessRecord>> Witness::Read() {
  const base::MutexLock lock(&mutex_);
  std::optional<SlotContent> newest;
  bool written = false;
  for (const int64_t at : {int64_t{0}, kSlotDistance}) {
    Slot slot{};
    const ssize_t got = ::pread(fd_, slot.data(), slot.size(), at);
    if (got < 0) return SystemError("read", path_, errno);
    // The second write is the first one to this slot. Until then no database exists.
    written = written || (at == 0 && slot != Slot{});
    const std::optional<SlotContent> content = DecodeSlot(slot);
    if (content.has_value() && (!newest.has_value() || content->writes > newest->writes)) {
      newest = content;
    }
  }
  if (newest.has_value()) {
    writes_ = newest->writes;
    return std::optional<WitnessRecord>(newest->record);
  }
  if (!written) return std::optional<WitnessRecord>();
  return absl::DataLossError(
      absl::StrCat("witness file ", path_, " is damaged: neither slot is valid"));
}

absl::Status Witness::Write(const WitnessRecord& record) {
  const base::MutexLock lock(&mutex_);
  const uint64_t writes = writes_ + 1;
  const Slot slot = EncodeSlot({writes, record});
  const int64_t at = writes % 2 == 0 ? 0 : kSlotDistance;
  const ssize_t put = ::pwrite(fd_, slot.data(), slot.size(), at);
  if (put < 0) return SystemError("write", path_, errno);
  if (put != static_cast<ssize_t>(slot.size())) return SystemError("write", path_, ENOSPC);
  if (::fdatasync(fd_) != 0) return SystemError("sync", path_, errno);
  writes_ = writes;
  return absl::OkStatus();
}

uint64_t Witness::WrittenMs() const {
  // A record is made some time before its write.
  constexpr int64_t kRecordAgeMs = 1'000;
  struct stat file = {};
  if (::fstat(fd_, &file) != 0) return 0;
  const int64_t written_ms = file.st_mtim.tv_sec * 1'000 + file.st_mtim.tv_nsec / 1'000'000;
  return static_cast<uint64_t>(std::max<int64_t>(0, written_ms - kRecordAgeMs));
}

std::string Witness::FileIdentity() const {
  struct statx file = {};
  if (::statx(fd_, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &file) != 0) return "";
  if ((file.stx_mask & STATX_INO) == 0) return "";
  // Not every file system keeps the time of birth; it is 0 then.
  const bool born = (file.stx_mask & STATX_BTIME) != 0;
  const uint64_t birth_ns =
      born ? static_cast<uint64_t>(file.stx_btime.tv_sec) * 1'000'000'000 + file.stx_btime.tv_nsec
           : 0;
  std::string identity(2 * sizeof(uint64_t), '\0');
  StoreLittleEndian(uint64_t{file.stx_ino}, identity.data());
  StoreLittleEndian(birth_ns, &identity[sizeof(uint64_t)]);
  return identity;
}

}  // namespace duetime::storage
