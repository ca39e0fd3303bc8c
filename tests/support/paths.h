// SPDX-License-Identifier: Apache-2.0
//
// Absolute paths that depend on the machine. CMake writes their definitions into files of their
// own, because the compiler cache serves other clones only with sources that name no path.
#pragma once

namespace duetime::test {

// The programs duetimed and duetime of this build, or those that DUETIME_TEST_DAEMON and
// DUETIME_TEST_TOOL name in the environment. In the library test_daemon.
extern const char* const kDaemon;
extern const char* const kTool;
// The shared object of machine_preload.cc. In soak_test.
extern const char* const kMachinePreload;

// The folder that holds the top CMakeLists.txt. In the library test_source.
extern const char* const kSourceRoot;

}  // namespace duetime::test
