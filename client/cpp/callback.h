// SPDX-License-Identifier: Apache-2.0
//
// Calls functions of the user. Internal to the client library.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <type_traits>

namespace duetime::client {

// Returns call(). If it throws an exception, returns on_exception(text).
template <typename Call, typename OnException>
std::invoke_result_t<Call> CatchAll(const Call& call, const OnException& on_exception) {
  try {
    return call();
  } catch (const std::exception& error) {
    return on_exception(error.what());
  } catch (...) {
    return on_exception("an exception of an unknown type");
  }
}

// Calls `callback`, unless it is empty. An exception is logged to standard error, and nothing of
// the library has failed. `name` is the callback's name.
template <typename... Args>
void RunCallback(const char* name, const std::function<void(Args...)>& callback,
                 const std::decay_t<Args>&... args) {
  if (!callback) return;
  CatchAll([&] { callback(args...); },
           [&](const char* text) {
             std::fprintf(stderr, "duetime: %s threw an exception: %s\n", name, text);
           });
}

}  // namespace duetime::client
