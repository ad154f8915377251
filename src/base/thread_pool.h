// Fork-join over a fixed set of threads. The caller takes part. Workers spin for a short while after work
// ends (a cross-core wake-up costs up to 60 us on a virtual machine, a spin hand-off 0.3 us), then sleep.
//
// Results must never depend on how work is split: tasks write disjoint outputs.
#pragma once

#include <cstdint>

namespace anabranch {

// A reference to something that is called with a range and outlives the call: nothing is copied or allocated.
class RangeBody {
 public:
  template <class Body>
  RangeBody(const Body& body)
      : body_(&body), call_([](const void* to, int64_t begin, int64_t end) {
          (*static_cast<const Body*>(to))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const { call_(body_, begin, end); }

 private:
  const void* body_;
  void (*call_)(const void*, int64_t, int64_t);
};

// Threads that parallel_for uses, the caller included. Set before the first parallel_for; 0 = as many as
// choose_threads (base/cpu_info.h) finds good for this machine.
void set_thread_count(int threads);
int thread_count();

// Calls body(begin, end) for consecutive ranges that together cover [0, count), each of at least `grain`
// items (grain >= 1; the last may be shorter), on the pool's threads, and returns when all are done. body
// must not throw, and must not call parallel_for. Concurrent callers take turns.
void parallel_for(int64_t count, int64_t grain, RangeBody body);

}  // namespace anabranch
