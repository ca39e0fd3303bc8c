// SPDX-License-Identifier: Apache-2.0
//
// Owned: a pointer to what a function of librdkafka has made.
#pragma once

#include <memory>

namespace duetime::kafka {

// Frees an object with the function that librdkafka has for its type.
template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* value) const {
    kDestroy(value);
  }
};
template <typename T, auto kDestroy>
using Owned = std::unique_ptr<T, Destroy<kDestroy>>;

}  // namespace duetime::kafka
