// Fork-join over a fixed set of threads. The caller takes part. Workers spin for a short while after work
// ends (a cross-core wake-up costs up to 60 us on a virtual machine, a spin hand-off 0.3 us), then sleep.
//
// Results must never depend on how work is split: tasks write disjoint outputs. Where the machine refuses a
// thread, the others do its work, and the log says so.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

namespace anabranch {

// A reference to a callable that takes a range and outlives the call: nothing is copied or allocated.
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

class ThreadPool {
 public:
  // Number of threads, including the caller; 0 = the choice of choose_threads (base/cpu_info.h) for this
  // machine. Workers start with the first call that needs them.
  // all: bodies wait for each other, so that each needs a thread of its own. If one cannot start, the call
  // throws std::system_error, or std::bad_alloc.
  explicit ThreadPool(int threads = 0, bool all = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  // Changes the number of threads; see the constructor. Must not be called while the pool works.
  void resize(int threads);

  // Calls body(begin, end) for consecutive ranges that together cover [0, count), each of at least `grain`
  // items (grain >= 1; the last may be shorter), on the pool's threads, and returns when all are done. body
  // must not throw, and must not call parallel_for of the same pool. Concurrent callers take turns.
  //
  // Thread i of n (the caller is 0) processes its share, from grain share_begin(grains, i, n) on, front to
  // back; when its share is done it helps the others.
  void parallel_for(int64_t count, int64_t grain, RangeBody body);
  static int64_t share_begin(int64_t count, int64_t thread, int64_t threads) {
    return (thread * count + threads - 1) / threads;
  }

 private:
  class Workers;
  Workers& workers();
  int size_;
  const bool all_;
  std::mutex starting_;
  std::unique_ptr<Workers> workers_;  // created by the first call that needs them
};

// A pool for work that does not belong to a device, such as the conversion of files.
ThreadPool& shared_threads();

}  // namespace anabranch
