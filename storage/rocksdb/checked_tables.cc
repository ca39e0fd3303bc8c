// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/checked_tables.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

// Otherwise its calls name the library's symbols.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "storage/byte_order.h"
#include "storage/varint.h"

namespace duetime::storage {
namespace {

// The layout of a footer (table/format.cc of RocksDB): the type of the checksums, the places of the
// metaindex and the index, padding, the format version, and the magic number. It has no checksum.
constexpr uint64_t kFooterBytes = 53;
constexpr uint64_t kPlacesAt = 1;
constexpr uint64_t kTableVersionAt = 41;
constexpr uint64_t kMagicAt = 45;
constexpr uint64_t kTableMagic = 0x88e241b785f4cff7;
// The values of every table that this program wrote. Another version has another layout of
// compressed blocks, which RocksDB would follow.
constexpr uint32_t kTableVersion = 5;
constexpr char kXxh3 = 4;

// The compression type and the checksum behind a block.
constexpr uint64_t kTrailerBytes = 5;
// A sound metaindex or properties block has less than 2 KB. The limit bounds what a damaged place
// makes the check allocate.
constexpr uint64_t kBlockBytesMax = 1 << 20;

constexpr absl::string_view kPropertiesName = "rocksdb.properties";

struct BlockPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// False if `bytes` does not begin with a place.
bool TakePlace(absl::string_view* bytes, BlockPlace* place) {
  const auto offset = TakeVarint(bytes);
  const auto size = TakeVarint(bytes);
  if (!offset.has_value() || !size.has_value()) return false;
  *place = {*offset, *size};
  return true;
}

// ComputeBuiltinChecksumWithLastByte() of rocksdb/table/format.cc.
uint32_t ChecksumOf(absl::string_view block, char compression_type) {
  const auto last = static_cast<uint8_t>(compression_type);
  return static_cast<uint32_t>(XXH3_64bits(block.data(), block.size())) ^ (last * 0x6b9083d9u);
}

class TableCheck {
 public:
  TableCheck(const std::string& path, uint64_t bytes, rocksdb::FSRandomAccessFile* file)
      : path_(path), bytes_(bytes), file_(file) {}

  rocksdb::IOStatus Run() {
    if (bytes_ < kFooterBytes) return Damaged("it is too short", 0);
    const BlockPlace end = {bytes_ - kFooterBytes, kFooterBytes};
    std::string footer;
    if (rocksdb::IOStatus status = Read(end, &footer); !status.ok()) return status;
    absl::string_view places = absl::string_view(footer).substr(kPlacesAt);
    BlockPlace metaindex;
    BlockPlace index;
    if (LoadLittleEndian<uint64_t>(&footer[kMagicAt]) != kTableMagic) {
      return Damaged("bad footer", end.offset);
    }
    const auto version = LoadLittleEndian<uint32_t>(&footer[kTableVersionAt]);
    if (version != kTableVersion) {
      return Damaged(absl::StrCat("table format ", version, " in place of ", kTableVersion,
                                  " (another RocksDB wrote the table, or it is damaged)"),
                     end.offset);
    }
    if (footer[0] != kXxh3 || !TakePlace(&places, &metaindex) || !TakePlace(&places, &index) ||
        !Within(index)) {
      return Damaged("bad footer", end.offset);
    }
    std::string block;
    if (rocksdb::IOStatus status = ReadChecked(metaindex, &block); !status.ok()) return status;
    // Keys of the metaindex are whole, and the value follows its key.
    absl::string_view value = block;
    value.remove_prefix(std::min(value.find(kPropertiesName), value.size()));
    value.remove_prefix(std::min(kPropertiesName.size(), value.size()));
    BlockPlace properties;
    if (!TakePlace(&value, &properties)) return Damaged("no properties", metaindex.offset);
    return ReadChecked(properties, &block);
  }

 private:
  bool Within(const BlockPlace& place) const {
    const uint64_t blocks = bytes_ - kFooterBytes;
    return place.offset <= blocks && place.bytes <= blocks - place.offset;
  }

  rocksdb::IOStatus Damaged(absl::string_view what, uint64_t offset) const {
    // TablePlaceIn() reads this form.
    return rocksdb::IOStatus::Corruption(absl::StrCat(what, " in ", path_, " offset ", offset));
  }

  rocksdb::IOStatus Read(const BlockPlace& place, std::string* bytes) const {
    bytes->resize(place.bytes);
    rocksdb::Slice read;
    rocksdb::IOStatus status =
        file_->Read(place.offset, place.bytes, {}, &read, bytes->data(), nullptr);
    if (!status.ok()) return status;
    if (read.size() != place.bytes) return Damaged("truncated block", place.offset);
    if (read.data() != bytes->data()) bytes->assign(read.data(), read.size());
    return status;
  }

  // Reads a block with its trailer, and leaves the block.
  rocksdb::IOStatus ReadChecked(const BlockPlace& place, std::string* block) const {
    if (place.bytes > kBlockBytesMax || !Within(place)) {
      return Damaged("bad place of a block", bytes_ - kFooterBytes);
    }
    rocksdb::IOStatus status = Read({place.offset, place.bytes + kTrailerBytes}, block);
    if (!status.ok()) return status;
    const char compression_type = (*block)[place.bytes];
    const auto stored = LoadLittleEndian<uint32_t>(&(*block)[place.bytes + 1]);
    block->resize(place.bytes);
    if (ChecksumOf(*block, compression_type) == stored) return status;
    return Damaged("block checksum mismatch", place.offset);
  }

  const std::string& path_;
  const uint64_t bytes_;
  rocksdb::FSRandomAccessFile* const file_;
};

class CheckedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "CheckedFileSystem"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = target()->NewRandomAccessFile(path, options, file, debug);
    if (!status.ok() || !absl::EndsWith(path, ".sst")) return status;
    uint64_t bytes = 0;
    status = target()->GetFileSize(path, options.io_options, &bytes, debug);
    if (status.ok()) status = TableCheck(path, bytes, file->get()).Run();
    if (!status.ok()) file->reset();
    return status;
  }
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> CheckedTables(std::shared_ptr<rocksdb::FileSystem> base) {
  if (base == nullptr) base = rocksdb::FileSystem::Default();
  return std::make_shared<CheckedFileSystem>(std::move(base));
}

rocksdb::Env* CheckedEnv() {
  static rocksdb::Env* const env = rocksdb::NewCompositeEnv(CheckedTables(nullptr)).release();
  return env;
}

}  // namespace duetime::storage
