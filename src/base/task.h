// Coroutines of one thread. A Task is a lazy coroutine: it runs when it is awaited or started. A Callback is
// an awaitable for a function that is called later.
//
// Destroying a Task ends it at the point where it waits: its locals are destroyed, and the event that it
// waited for has no effect any more. So code that may end early needs no flags, and no checks after each
// wait. A Task must not be destroyed while it runs.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace anabranch {

template <class T = void>
class Task;

namespace task_detail {

struct PromiseBase {
  std::coroutine_handle<> awaiter;  // resumed at the end; null: this is the outermost task
  std::exception_ptr failure;

  // Resumes the awaiter.
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> task) noexcept {
      const std::coroutine_handle<> awaiter = task.promise().awaiter;
      return awaiter ? awaiter : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { failure = std::current_exception(); }
  void rethrow() const {
    if (failure) std::rethrow_exception(failure);
  }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& returned) {
    value.emplace(std::forward<U>(returned));
  }
  T take() {
    rethrow();
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() noexcept {}
  void take() const { rethrow(); }
};

}  // namespace task_detail

// The value of co_return; co_await throws the coroutine's exception. May be awaited once.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = task_detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // Runs an outermost task until it waits for the first time. Its exceptions are lost.
  void start() { handle_.resume(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().awaiter = awaiter;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  Handle handle_;
};

namespace task_detail {

template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace task_detail

// The value of a Callback that carries no data.
using Nothing = std::monostate;

// co_await Callback<T>(begin) calls begin(done), and resumes when done(value) is called: on the task's
// thread, perhaps immediately. Later calls of done are ignored, and so is a call after the task was
// destroyed.
template <class T>
class [[nodiscard]] Callback {
 public:
  using Done = std::function<void(T)>;
  explicit Callback(std::function<void(Done)> begin) : begin_(std::move(begin)) {}

  bool await_ready() const noexcept { return false; }
  // Returns false if the value has already arrived.
  bool await_suspend(std::coroutine_handle<> waiting) {
    const auto state = state_ = std::make_shared<State>();
    begin_([weak = std::weak_ptr(state)](T value) {
      const auto state = weak.lock();
      if (!state || state->value) return;
      state->value.emplace(std::move(value));
      if (state->waiting) state->waiting.resume();
    });
    if (state->value) return false;
    state->waiting = waiting;
    return true;
  }
  T await_resume() { return std::move(*state_->value); }

 private:
  struct State {
    std::coroutine_handle<> waiting;  // null while `begin` runs
    std::optional<T> value;
  };
  std::function<void(Done)> begin_;
  std::shared_ptr<State> state_;
};

}  // namespace anabranch
