#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/cpu_info.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anabranch {
namespace {

inline void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long a worker spins before it sleeps. Longer than the gap between two stages of a forward pass.
constexpr double kSpinSeconds = 200e-6;

}  // namespace

// The caller does all the work that nobody else takes, and waits only for workers that are inside the job:
// one that the operating system has not scheduled (other programs want the cores too) costs nothing. `state_`
// says it all: bits 0-10 workers inside, bit 11 open, bits 12-31 the job's number. Nobody enters a closed
// job, and the caller closes a job only when nobody is inside.
class ThreadPool::Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
  }

  ~Workers() {
    stop_ = true;
    state_.fetch_add(kJob);
    state_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  void run(int64_t count, int64_t grain, RangeBody body) {
    std::lock_guard lock(turn_);
    body_ = &body;
    count_ = count;
    grain_ = grain;
    next_.store(0, std::memory_order_relaxed);
    const uint32_t open = (state_.load(std::memory_order_relaxed) + kJob) | kOpen;
    state_.store(open, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) state_.notify_all();
    take_work();
    for (uint32_t i = 1, idle = open; !state_.compare_exchange_weak(idle, open & ~kOpen); i++, idle = open) {
      cpu_relax();
      if (i % 64 == 0) std::this_thread::yield();  // a worker inside may be waiting for this core
    }
  }

 private:
  static constexpr uint32_t kOpen = 1u << 11, kJob = 1u << 12;

  // Long ranges first (memory is best read in long runs, and taking one costs a trip between cores), short
  // ones at the end (nobody waits long for the last): a quarter of a thread's share of what is left.
  void take_work() {
    int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < count_) {
      const int64_t left = count_ - begin;
      const int64_t n = std::min(left, std::max<int64_t>(grain_, left / (4 * size())));
      if (!next_.compare_exchange_weak(begin, begin + n, std::memory_order_relaxed)) continue;
      (*body_)(begin, begin + n);
      begin = next_.load(std::memory_order_relaxed);
    }
  }

  // An open job that this worker has not been in.
  static bool is_new(uint32_t state, uint32_t last) { return (state & kOpen) != 0 && state / kJob != last; }

  void wait_for_work(uint32_t last) {
    double until = now_seconds() + kSpinSeconds;
    for (uint32_t i = 1; !stop_ && !is_new(state_.load(std::memory_order_acquire), last); i++) {
      cpu_relax();
      if (i % 64 != 0) continue;
      std::this_thread::yield();
      if (now_seconds() < until) continue;
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      const uint32_t seen = state_.load(std::memory_order_seq_cst);
      if (!stop_ && !is_new(seen, last)) state_.wait(seen, std::memory_order_seq_cst);
      sleeping_.fetch_sub(1, std::memory_order_relaxed);
      until = now_seconds() + kSpinSeconds;
    }
  }

  void work() {
    uint32_t last = 0;
    for (;;) {
      wait_for_work(last);
      if (stop_) return;
      uint32_t state = state_.load(std::memory_order_relaxed);
      if (!is_new(state, last) || !state_.compare_exchange_weak(state, state + 1)) continue;
      last = state / kJob;
      take_work();
      state_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex turn_;
  const RangeBody* body_ = nullptr;
  int64_t count_ = 0, grain_ = 1;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
};

ThreadPool::ThreadPool(int threads) {
  resize(threads);
}
ThreadPool::~ThreadPool() = default;

void ThreadPool::resize(int threads) {
  CHECK(threads >= 0, "threads = {}", threads);
  workers_.reset();
  size_ = threads > 0 ? threads : choose_threads(cpu_info()).threads;
}

ThreadPool::Workers& ThreadPool::workers() {
  std::lock_guard lock(starting_);
  if (!workers_) workers_ = std::make_unique<Workers>(size_);
  return *workers_;
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, RangeBody body) {
  CHECK(grain >= 1, "grain = {}", grain);
  if (count <= 0) return;
  if (count <= grain) return body(0, count);
  if (size_ > 1) return workers().run(count, grain, body);
  for (int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
}

ThreadPool& shared_threads() {
  static ThreadPool pool;
  return pool;
}

}  // namespace anabranch
