// What one template may cost, and how the engine stops: templates come from model files, values from
// requests.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace anabranch::jinja {

constexpr size_t kMaxTemplateBytes = 1u << 20;
constexpr size_t kMaxTextBytes = 64u << 20;  // of the output, and of any one string on the way
constexpr int kMaxSyntaxDepth = 100;         // nested statements, brackets and prefix operators
constexpr int kMaxExprHeight = 200;          // levels of an expression's tree; "a + b + c" has three
constexpr int kMaxRunDepth = 400;            // syntax levels at once, macro calls included
constexpr int kMaxValueDepth = 150;          // lists in lists
constexpr size_t kMaxRange = 100'000;        // as Jinja's sandbox has it
constexpr size_t kMaxSteps = 20'000'000;     // evaluated nodes, list items touched, 64 bytes of text copied

// Thrown inside the engine only; parse and render turn it into an Error with line and column.
struct Failure {
  Error error;
  bool located = false;  // the message needs no line and column, or has them
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{make_error(ErrorKind::invalid, format, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{make_error(ErrorKind::exhausted, format, std::forward<Args>(args)...)};
}

// Work left to one render.
class Budget {
 public:
  explicit Budget(size_t steps) : left_(steps) {}
  void spend(size_t steps) {
    if (steps > left_) fail_limit("the template takes too many steps");
    left_ -= steps;
  }
  // For a text of `bytes` about to be made.
  void spend_text(size_t bytes) {
    if (bytes > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
    spend(1 + bytes / 64);
  }

 private:
  size_t left_;
};

}  // namespace anabranch::jinja
