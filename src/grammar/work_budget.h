// Limits the work of making one request's grammar, over all its schemas and patterns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anabranch {

class WorkBudget {
 public:
  // A step takes 3 to 10 ns, so all of them together take about a second at most.
  explicit WorkBudget(int64_t steps = 100'000'000) : left_(steps) {}
  // False once more steps were requested than were left, and from then on.
  bool spend(size_t steps) {
    left_ -= static_cast<int64_t>(steps < kMost ? steps : kMost);
    if (left_ < -1) left_ = -1;
    return left_ >= 0;
  }
  bool used_up() const { return left_ < 0; }

 private:
  static constexpr size_t kMost = size_t{1} << 40;
  int64_t left_;
};

}  // namespace anabranch
