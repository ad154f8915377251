// Result<T>: a value, or an Error that a person can act on. Used for everything that depends on input from
// outside (files, flags, requests). Broken invariants use CHECK (check.h) instead. E: another error type, to
// which every Error can be converted.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace anabranch {

enum class ErrorKind {
  invalid,      // the input is wrong (bad request, bad file, bad flag)
  not_found,    // a file, model or name that does not exist
  unsupported,  // valid, but not something this build can do
  exhausted,    // a limit was reached: memory, context length
  busy,         // not now: the same may be possible later
  io,           // the operating system refused
  internal,     // a fault of ours
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string
      message;  // what was wrong, where, and what to do about it; one line, no trailing full stop needed
  std::string field = {};  // of a request: the field at fault; empty: none
  std::string code = {};   // for programs, more specific than the kind; empty: none
  // For a limit that was exceeded, if both numbers are known; else 0.
  size_t needed = 0, limit = 0;
};

template <class... Args>
Error make_error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return Error{kind, fmt::format(format, std::forward<Args>(args)...)};
}

template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : v_(std::in_place_index<1>, std::move(error)) {}
  Result(const Error& error) requires(!std::same_as<E, Error>) : v_(std::in_place_index<1>, error) {}

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Aborts with the error's text when there is no value.
  T& value() & {
    CHECK(ok(), "Result holds an error: {}", error().message);
    return std::get<0>(v_);
  }
  const T& value() const& {
    CHECK(ok(), "Result holds an error: {}", error().message);
    return std::get<0>(v_);
  }
  T&& value() && {
    CHECK(ok(), "Result holds an error: {}", error().message);
    return std::move(std::get<0>(v_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const E& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, E> v_;
};

template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  Result(E error) : error_(std::move(error)) {}
  Result(const Error& error) requires(!std::same_as<E, Error>) : error_(std::in_place, error) {}
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const E& error() const { return *error_; }

 private:
  std::optional<E> error_;
};

// TRY(auto x, expr): x = the value of expr, or return its error from the enclosing function.
#define ANABRANCH_CONCAT_(a, b) a##b
#define ANABRANCH_CONCAT(a, b) ANABRANCH_CONCAT_(a, b)
#define TRY_IMPL_(tmp, decl, expr)   \
  auto tmp = (expr);                 \
  if (!tmp.ok()) return tmp.error(); \
  decl = std::move(tmp).value()
#define TRY(decl, expr) TRY_IMPL_(ANABRANCH_CONCAT(try_result_, __LINE__), decl, expr)
// TRY_VOID(expr): return the error of a Result<void>, if it has one.
#define TRY_VOID(expr)                                 \
  do {                                                 \
    auto try_result_ = (expr);                         \
    if (!try_result_.ok()) return try_result_.error(); \
  } while (0)

}  // namespace anabranch
