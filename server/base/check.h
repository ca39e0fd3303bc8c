// SPDX-License-Identifier: Apache-2.0
//
// Always-on checks for programmer errors. A failed check prints the place, the expression and both
// values, and aborts. Stopping is safe, because the daemon survives a kill at any point; continuing
// is not. Operating errors (bad input, a full disk, a lost peer) return an absl::Status instead.
#pragma once

#include <concepts>
#include <sstream>
#include <string>

namespace duetime::base {

// A failed check calls this before it aborts, so that the log can be written out. Null: nothing.
// The call may come from any thread, with any lock held.
void SetBeforeAbort(void (*hook)());

// Prints "file:line: check failed: text" and aborts. If nothing reads stderr, ends the process all
// the same, with SIGALRM after a few seconds.
[[noreturn]] void CheckFailed(const char* file, int line, const std::string& text);

template <typename A, typename B>
[[noreturn]] void CheckOpFailed(const char* file, int line, const char* expression, const A& a,
                                const B& b) {
  std::ostringstream out;
  out << expression;
  if constexpr (requires { out << a << b; }) out << " (" << a << " vs. " << b << ")";
  CheckFailed(file, line, out.str());
}

}  // namespace duetime::base

#define DT_CHECK(condition)                          \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::duetime::base::CheckFailed(__FILE__, __LINE__, #condition))

#define DT_CHECK_OP(op, a, b)                                                           \
  do {                                                                                  \
    const auto& dt_check_a = (a);                                                       \
    const auto& dt_check_b = (b);                                                       \
    if (__builtin_expect(!(dt_check_a op dt_check_b), 0)) {                             \
      ::duetime::base::CheckOpFailed(__FILE__, __LINE__, #a " " #op " " #b, dt_check_a, \
                                     dt_check_b);                                       \
    }                                                                                   \
  } while (false)

#define DT_CHECK_EQ(a, b) DT_CHECK_OP(==, a, b)
#define DT_CHECK_NE(a, b) DT_CHECK_OP(!=, a, b)
#define DT_CHECK_LT(a, b) DT_CHECK_OP(<, a, b)
#define DT_CHECK_LE(a, b) DT_CHECK_OP(<=, a, b)
#define DT_CHECK_GT(a, b) DT_CHECK_OP(>, a, b)
#define DT_CHECK_GE(a, b) DT_CHECK_OP(>=, a, b)
