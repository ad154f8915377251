// Runs the text of Metal kernels as C++: every thread of a threadgroup has a stack of its own here. This
// tests arithmetic, indices and races between barriers, but not Metal's own compiler.
#pragma once

#include <mlx/ops.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/metal/kernel.h"
#include "ops/reference/device.h"

namespace anabranch::ops::metal {

struct Position {
  int x, y, z;
};

// The threads of a group, in turns: each runs until it waits for the others. Real threads with a barrier
// would take a time slice for each turn where other programs are busy. The order changes, so that a missing
// barrier shows.
class Group {
 public:
  Group(int threads, std::function<void(int)> body)
      : body_(std::move(body)), threads_(static_cast<size_t>(threads)) {}
  void run() {
    running_ = this;
    for (Thread& thread : threads_) {
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.data();
      thread.context.uc_stack.ss_size = thread.stack.size();
      thread.context.uc_link = &others_;
      makecontext(
          &thread.context, [] { running_->begin(); }, 0);
    }
    for (bool backwards = false; left_ > 0; backwards = !backwards)
      for (size_t i = 0; i < threads_.size(); i++) {
        current_ = backwards ? threads_.size() - 1 - i : i;
        if (!threads_[current_].ended) swapcontext(&others_, &threads_[current_].context);
        if (i + 1 == threads_.size() && left_ > 0 && left_ < threads_.size())
          throw std::logic_error("a thread ended while others wait for it");
      }
  }
  void wait() { swapcontext(&threads_[current_].context, &others_); }

 private:
  struct Thread {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(64 << 10);
    bool ended = false;
  };
  void begin() {
    const size_t mine = current_;
    body_(static_cast<int>(mine));
    threads_[mine].ended = true;
    left_--;
  }
  inline static thread_local Group* running_ = nullptr;
  const std::function<void(int)> body_;
  std::vector<Thread> threads_;
  ucontext_t others_{};
  size_t current_ = 0, left_ = threads_.size();
};

// One thread: its position, operands, results and constants.
class EmulatedThread {
 public:
  EmulatedThread(const Launch& launch, const std::vector<mx::array>& outputs, Group& group,
                 std::vector<float>& lanes)
      : launch_(launch), outputs_(outputs), group_(group), lanes_(lanes) {}

  Position group_position{}, grid_position{};
  int index = 0;  // in the threadgroup

  template <typename T>
  const T* input(const std::string& name) const {
    return find(name).data<T>();
  }
  const int* shape(const std::string& name) const { return find(name).shape().begin(); }
  float* output(size_t i) const { return const_cast<float*>(outputs_[i].data<float>()); }
  int constant(const std::string& name) const {
    for (const auto& [known, value] : launch_.constants)
      if (known == name) return value;
    throw std::invalid_argument("no constant " + name);
  }
  void wait() { group_.wait(); }
  // All threads of the group call it together.
  float simd_sum(float value) {
    lanes_[static_cast<size_t>(index)] = value;
    wait();
    float sum = 0;
    const int first = index / 32 * 32;
    for (int i = first; i < first + 32; i++) sum += lanes_[static_cast<size_t>(i)];
    wait();
    return sum;
  }

 private:
  const mx::array& find(const std::string& name) const {
    for (const auto& [known, array] : launch_.inputs)
      if (known == name) return array;
    throw std::invalid_argument("no operand " + name);
  }
  const Launch& launch_;
  const std::vector<mx::array>& outputs_;
  Group& group_;
  std::vector<float>& lanes_;
};

namespace emulated {

using uint = uint32_t;
enum class mem_flags { mem_threadgroup };
using std::min;

#define threadgroup static
#define threadgroup_barrier(flags) (static_cast<void>(flags), self.wait())
#define simd_sum(value) self.simd_sum(value)
#define thread_position_in_grid self.grid_position
#define thread_position_in_threadgroup self.group_position

inline void gemv(EmulatedThread& self) {
  const auto *x = self.input<float>("x"), *scales = self.input<float>("scales"),
             *biases = self.input<float>("biases");
  const auto* codes = self.input<uint32_t>("codes");
  const int* x_shape = self.shape("x");
  float* y = self.output(0);
  const int BITS = self.constant("BITS"), GROUP = self.constant("GROUP"), K = self.constant("K"),
            N = self.constant("N"), ROWS = self.constant("ROWS");
#include "ops/metal/kernels/gemv.metal"
}

inline void delta_scan(EmulatedThread& self) {
  const auto *q = self.input<float>("q"), *k = self.input<float>("k"), *v = self.input<float>("v"),
             *qk = self.input<float>("qk"), *decay = self.input<float>("decay"),
             *beta = self.input<float>("beta"), *s = self.input<float>("s"),
             *entry_k = self.input<float>("entry_k"), *entry_delta = self.input<float>("entry_delta"),
             *entry_decay = self.input<float>("entry_decay");
  const int* q_shape = self.shape("q");
  float *y = self.output(0), *delta = self.output(1), *s_out = self.output(2);
  const int HK = self.constant("HK"), HV = self.constant("HV"), DK = self.constant("DK"),
            DV = self.constant("DV"), FOLDS = self.constant("FOLDS"), OPEN = self.constant("OPEN"),
            ADVANCE = self.constant("ADVANCE");
#include "ops/metal/kernels/delta_scan.metal"
}

#undef threadgroup
#undef threadgroup_barrier
#undef simd_sum
#undef thread_position_in_grid
#undef thread_position_in_threadgroup

}  // namespace emulated

inline std::vector<mx::array> emulate(const Launch& given) {
  Launch launch = given;
  for (auto& [name, array] : launch.inputs) {
    array = mx::contiguous(array);
    array.eval();
  }
  std::vector<mx::array> outputs;
  for (const auto& [name, shape] : launch.outputs) {
    outputs.push_back(reference::make_array(shape, mx::float32));
    std::fill_n(outputs.back().data<float>(), outputs.back().size(), std::nanf(""));  // unwritten places show
  }
  const auto [gx, gy, gz] = launch.grid;
  const auto [tx, ty, tz] = launch.group;
  if (gx % tx != 0 || gy % ty != 0 || gz % tz != 0) throw std::invalid_argument("a threadgroup is cut off");
  const int threads = tx * ty * tz;
  std::vector<float> lanes(static_cast<size_t>(threads));
  Group group(threads, [&](int index) {
    EmulatedThread self(launch, outputs, group, lanes);
    self.index = index;
    self.group_position = {index % tx, index / tx % ty, index / (tx * ty)};
    const Position& at = self.group_position;
    for (int z = at.z; z < gz; z += tz)
      for (int y = at.y; y < gy; y += ty)
        for (int x = at.x; x < gx; x += tx) {
          self.grid_position = {x, y, z};
          launch.kernel == "gemv" ? emulated::gemv(self) : emulated::delta_scan(self);
          self.wait();  // memory of the group is the next one's from here on
        }
  });
  group.run();
  return outputs;
}

}  // namespace anabranch::ops::metal
