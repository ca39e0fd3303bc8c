// SPDX-License-Identifier: Apache-2.0
//
// Calls functions of the user. Internal to the client library.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <type_traits>

#include "client/cpp/log_function.h"

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

// Writes a line to `log`, or to standard error if `log` is empty.
inline void WriteLog(const LogFunction& log, absl::LogSeverity severity, const std::string& line) {
  if (!log) {
    std::fprintf(stderr, "duetime: %s\n", line.c_str());
    return;
  }
  CatchAll([&] { log(severity, line); }, [](const char*) {});
}

// Calls `callback`, unless it is empty. An exception is logged, and nothing of the library has
// failed. `name` is the callback's name.
template <typename... Args>
void RunCallback(const LogFunction& log, const char* name,
                 const std::function<void(Args...)>& callback, const std::decay_t<Args>&... args) {
  if (!callback) return;
  CatchAll([&] { callback(args...); },
           [&](const char* text) {
             WriteLog(log, absl::LogSeverity::kError,
                      std::string(name) + " threw an exception: " + text);
           });
}

}  // namespace duetime::client
