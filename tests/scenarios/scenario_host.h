// SPDX-License-Identifier: Apache-2.0
//
// The machines on which a scenario runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/simulation/cell_host.h"
#include "tests/support/from_environment.h"
#include "tests/support/paths.h"
#include "tests/support/rocksdb_disk.h"

namespace duetime::delivery {

// The members of the cell; 0 for one machine.
inline uint64_t CellMembers() { return test::FromEnvironment("DUETIME_SCENARIO_MEMBERS", 0); }

// In a cell, each crash and stop is a chance for another member to lead, and the log fails, delays,
// damages and repeats entries.
inline std::unique_ptr<simulation::Host> MakeHost() {
  using simulation::PlantedFault;
  if (test::FromEnvironment("DUETIME_SCENARIO_ROCKSDB", 0) == 1) {
    return std::make_unique<simulation::SingleHost>(1, PlantedFault::kNone,
                                                    std::make_unique<test::RocksDbDisk>());
  }
  if (CellMembers() == 0) return std::make_unique<simulation::SingleHost>(1, PlantedFault::kNone);
  return std::make_unique<simulation::CellHost>(
      simulation::CellSetup{.seed = test::FromEnvironment("DUETIME_SEED", 1),
                            .members = CellMembers(),
                            .violate = [](const std::string& what) { ADD_FAILURE() << what; }});
}

inline std::filesystem::path ScenarioFile(const std::string& name) {
  return std::filesystem::path(test::kSourceRoot) / "tests/scenarios" / (name + ".txt");
}

// Returns the names of all scenario files, sorted.
inline std::vector<std::string> ScenarioNames() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(ScenarioFile("").parent_path())) {
    const std::string stem = file.path().stem().string();
    // In a cell, the next leader has no damage, and a power cut takes nothing that was accepted.
    if (CellMembers() > 0 && (stem == "damage" || stem == "power")) continue;
    if (file.path().extension() == ".txt" && stem != "CMakeLists") names.push_back(stem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace duetime::delivery
