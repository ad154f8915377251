#include "base/thread_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "base/thread_name.h"

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

// How long a worker spins before it sleeps: longer than the gap between two stages of a forward pass.
constexpr double kSpinSeconds = 200e-6;
// Pause instructions between checks of the clock and yields: some microseconds, because a yield costs half a
// microsecond during which new work is not seen.
constexpr uint32_t kPauses = 256;

}  // namespace

// The caller does all the work that nobody else takes, and waits only for workers that are inside the job: a
// worker that the operating system has not scheduled (because other programs use the cores) costs nothing.
// `state_` is the whole state: bits 0-10: number of workers inside, bit 11: open, bits 12-31: the job's
// number. Workers do not enter a closed job, and the caller closes a job only when no worker is inside.
class ThreadPool::Workers {
 public:
  Workers(int threads, bool all) : shares_(static_cast<size_t>(threads)) {
    for (int i = 1; i < threads; i++) try {
        workers_.emplace_back([this, i] {
          name_thread(fmt::format("kernels {}", i).c_str());
          work(i);
        });
      } catch (const std::exception& error) {  // the memory or the number of threads is limited
        if (all) {
          stop();
          throw;
        }
        log_warning("only {} of {} threads could be started, which do the work of all: {}", i, threads,
                    error.what());
        break;
      }
  }

  ~Workers() { stop(); }

  void run(int64_t count, int64_t grain, RangeBody body) {
    std::lock_guard lock(turn_);
    body_ = &body;
    count_ = count;
    grain_ = std::max(grain, (count + Share::kMost - 1) / Share::kMost);
    const int64_t pieces = (count + grain_ - 1) / grain_, threads = size();
    for (int64_t i = 0; i < threads; i++)
      shares_[static_cast<size_t>(i)].set(share_begin(pieces, i, threads),
                                          share_begin(pieces, i + 1, threads));
    const uint32_t open = (state_.load(std::memory_order_relaxed) + kJob) | kOpen;
    state_.store(open, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) state_.notify_all();
    take_work(0);
    close(open);
  }

 private:
  static constexpr uint32_t kOpen = 1u << 11, kJob = 1u << 12;

  // A thread's share of a job: pieces [begin, end) of `grain` items, with both bounds in one word. Its own
  // thread takes pieces from the front, in memory order; threads that have finished their own share take from
  // the back.
  class alignas(64) Share {
   public:
    static constexpr int64_t kMost = int64_t{1} << 31;

    void set(int64_t begin, int64_t end) { bounds_.store(pack(begin, end), std::memory_order_relaxed); }

    // Runs the body on all pieces, a quarter of those left at a time: others can take what a delayed thread
    // leaves.
    template <class Body>
    void take_all(bool own, const Body& body) {
      uint64_t bounds = bounds_.load(std::memory_order_relaxed);
      for (;;) {
        const int64_t begin = static_cast<int64_t>(bounds & 0xFFFFFFFF),
                      end = static_cast<int64_t>(bounds >> 32);
        if (begin >= end) return;
        const int64_t n = std::max<int64_t>(1, (end - begin) / 4);
        const uint64_t left = own ? pack(begin + n, end) : pack(begin, end - n);
        if (!bounds_.compare_exchange_weak(bounds, left, std::memory_order_relaxed)) continue;
        own ? body(begin, begin + n) : body(end - n, end);
        bounds = bounds_.load(std::memory_order_relaxed);
      }
    }

   private:
    static uint64_t pack(int64_t begin, int64_t end) {
      return static_cast<uint64_t>(begin) | static_cast<uint64_t>(end) << 32;
    }
    std::atomic<uint64_t> bounds_{0};
  };

  int64_t size() const { return static_cast<int64_t>(shares_.size()); }

  void stop() {
    stop_ = true;
    state_.fetch_add(kJob);
    state_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void take_work(int64_t self) {
    const auto run = [&](int64_t begin, int64_t end) {
      (*body_)(begin * grain_, std::min(count_, end * grain_));
    };
    for (int64_t i = self; i < self + size(); i++)
      shares_[static_cast<size_t>(i % size())].take_all(i == self, run);
  }

  // Waits until no worker is inside.
  void close(uint32_t open) {
    for (uint32_t i = 1;; i++) {
      uint32_t idle = open;
      if (state_.load(std::memory_order_relaxed) == open && state_.compare_exchange_weak(idle, open & ~kOpen))
        return;
      cpu_relax();
      if (i % kPauses == 0) std::this_thread::yield();  // a worker inside may be waiting for this core
    }
  }

  // Whether there is an open job that this worker has not entered yet.
  static bool is_new(uint32_t state, uint32_t last) { return (state & kOpen) != 0 && state / kJob != last; }

  void wait_for_work(uint32_t last) {
    double until = now_seconds() + kSpinSeconds;
    for (uint32_t i = 1; !stop_ && !is_new(state_.load(std::memory_order_acquire), last); i++) {
      cpu_relax();
      if (i % kPauses != 0) continue;
      std::this_thread::yield();
      if (now_seconds() < until) continue;
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      const uint32_t seen = state_.load(std::memory_order_seq_cst);
      if (!stop_ && !is_new(seen, last)) state_.wait(seen, std::memory_order_seq_cst);
      sleeping_.fetch_sub(1, std::memory_order_relaxed);
      until = now_seconds() + kSpinSeconds;
    }
  }

  void work(int64_t self) {
    uint32_t last = 0;
    for (;;) {
      wait_for_work(last);
      if (stop_) return;
      uint32_t state = state_.load(std::memory_order_relaxed);
      if (!is_new(state, last) || !state_.compare_exchange_weak(state, state + 1)) continue;
      last = state / kJob;
      take_work(self);
      state_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex turn_;
  const RangeBody* body_ = nullptr;
  int64_t count_ = 0, grain_ = 1;
  std::vector<Share> shares_;
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
};

ThreadPool::ThreadPool(int threads, bool all) : all_(all) {
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
  if (!workers_) workers_ = std::make_unique<Workers>(size_, all_);
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
