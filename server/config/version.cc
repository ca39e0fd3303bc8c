// SPDX-License-Identifier: Apache-2.0
#include "server/config/version.h"

namespace duetime::config {

const char* Version() { return DUETIME_VERSION; }

}  // namespace duetime::config
