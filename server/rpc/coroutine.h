// SPDX-License-Identifier: Apache-2.0
//
// Coroutines of calls. A handler that waits for something or for another handler reads from top to
// bottom; it is resumed on its worker's thread.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "server/rpc/call.h"

namespace duetime::rpc {

// The return type of the outermost coroutine of a call. It starts at once and destroys itself at
// its end. While it waits, the call owns it: Call::Abandon destroys it with all coroutines
// that it waits for. REQUIRES: its first parameters are the worker and the call.
struct CallTask {
  class promise_type {
   public:
    template <typename Worker, typename... Rest>
    explicit promise_type(Worker&, Call& call, const Rest&...) : call_(&call) {}

    CallTask get_return_object() {
      call_->task = std::coroutine_handle<promise_type>::from_promise(*this);
      return {};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept {
      call_->task = nullptr;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }

   private:
    Call* const call_;
  };
};

// A coroutine that another coroutine awaits. It starts when it is awaited. The Co object owns the
// coroutine, so destroying the awaiting coroutine destroys both.
template <typename T>
class [[nodiscard]] Co {
 public:
  class promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  class promise_type {
   public:
    struct ResumeCaller {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle ended) noexcept {
        return ended.promise().caller;
      }
      void await_resume() noexcept {}
    };

    Co get_return_object() { return Co(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    ResumeCaller final_suspend() noexcept { return {}; }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() { std::terminate(); }

    std::optional<T> value;
    std::coroutine_handle<> caller;
  };

  Co(Co&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Co& operator=(Co&&) = delete;
  ~Co() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().caller = caller;
    return handle_;
  }
  T await_resume() { return *std::move(handle_.promise().value); }

 private:
  explicit Co(Handle handle) : handle_(handle) {}

  Handle handle_;
};

}  // namespace duetime::rpc
