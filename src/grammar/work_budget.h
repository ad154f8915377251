// What the making of one request's grammar may cost, whatever it consists of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anabranch {

class WorkBudget {
 public:
  // A step takes 3 to 10 ns, and so all of them less than a second.
  explicit WorkBudget(int64_t steps = 100'000'000) : left_(steps) {}
  // False once more was asked for than there was.
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
