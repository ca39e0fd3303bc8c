// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"

#include "storage/locator.h"

namespace duetime::api {

// XXH3-128. The hash is on disk, so the algorithm must never change.
storage::Fingerprint ContentHash(absl::string_view bytes);

}  // namespace duetime::api
