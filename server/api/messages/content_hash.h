// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"

#include "storage/locator.h"

namespace duetime::api {

// XXH3-128. Kept on disk: never another hash.
storage::Fingerprint ContentHash(absl::string_view bytes);

}  // namespace duetime::api
