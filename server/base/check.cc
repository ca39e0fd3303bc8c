// SPDX-License-Identifier: Apache-2.0
#include "server/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace duetime::base {

void CheckFailed(const char* file, int line, const std::string& text) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace duetime::base
