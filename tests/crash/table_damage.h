// SPDX-License-Identifier: Apache-2.0
//
// Damage to the tables of a store.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <rocksdb/db.h>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::test {

// Changes one bit of a file.
inline void FlipBit(const std::filesystem::path& path, uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  ASSERT_NE(byte, EOF) << path;
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

// The table of a family with the most bytes in its blocks of records, and these bytes. The store is
// closed.
inline std::pair<std::filesystem::path, uint64_t> LargestTable(const std::string& data_dir,
                                                               const std::string& family) {
  const std::string dir = data_dir + "/db";
  std::vector<std::string> names;
  EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, dir, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.push_back({name, {}});
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  EXPECT_TRUE(rocksdb::DB::OpenForReadOnly({}, dir, families, &handles, &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::pair<std::filesystem::path, uint64_t> largest;
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    rocksdb::TablePropertiesCollection tables;
    if (handle->GetName() == family) {
      EXPECT_TRUE(db->GetPropertiesOfAllTables(handle, &tables).ok());
    }
    for (const auto& [path, table] : tables) {
      if (table->data_size >= largest.second) largest = {path, table->data_size};
    }
    EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  return largest;
}

}  // namespace duetime::test
