// The limits on one template, and the errors when they are exceeded. Templates come from model files and
// values from requests, so neither is trusted.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace anabranch::jinja {

constexpr size_t kMaxTemplateBytes = 1u << 20;
constexpr size_t kMaxTextBytes = 64u << 20;  // of the output, and of every string that is made
constexpr int kMaxSyntaxDepth = 100;         // nested statements, brackets and prefix operators
constexpr int kMaxExprHeight = 200;          // levels of an expression's tree; "a + b + c" has three
constexpr int kMaxRunDepth = 400;            // levels of nested syntax that run at once, macro calls included
constexpr int kMaxValueDepth = 150;          // lists and dicts inside one another
constexpr size_t kMaxRange = 100'000;        // items of a range(), as in Jinja's sandbox
constexpr size_t kMaxSteps = 20'000'000;     // evaluated nodes, list items touched, 64 bytes of text copied

// Thrown inside src/jinja only; ChatTemplate turns it into an Error.
struct Failure {
  Error error;
  bool located = false;  // whether the message has its line and column, or needs none
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{make_error(ErrorKind::invalid, format, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{make_error(ErrorKind::exhausted, format, std::forward<Args>(args)...)};
}

// The steps that one run of a template has left.
class Budget {
 public:
  explicit Budget(size_t steps) : left_(steps) {}
  void spend(size_t steps) {
    if (steps > left_) fail_limit("the template takes too many steps");
    left_ -= steps;
  }
  // Call it before making a text of `bytes` bytes.
  void spend_text(size_t bytes) {
    if (bytes > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
    spend(1 + bytes / 64);
  }

 private:
  size_t left_;
};

}  // namespace anabranch::jinja
