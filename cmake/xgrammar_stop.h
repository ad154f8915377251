// Lets a compilation by xgrammar be stopped, counts the processor time of its threads, and bounds its memory.
// cmake/FindXgrammar.cmake puts calls of check() and take() into four of its functions.
#pragma once

#include <time.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>

namespace xgrammar_stop {

struct Switch {
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> words = 0;  // of 4 bytes, that were taken
  std::size_t most_words = 64u << 20;
  std::atomic<long long> processor_ns = 0;  // that its threads used; counted now and then
};
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

// Of the compilation that the thread works for; null: none.
inline thread_local Switch* current = nullptr;
inline thread_local long long counted_ns = 0;  // of the thread's time, up to which it is counted
inline thread_local unsigned checks = 0;

inline long long thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}
inline void count_time() {
  const long long now = thread_ns();
  if (current) current->processor_ns.fetch_add(now - counted_ns, std::memory_order_relaxed);
  counted_ns = now;
}

// What the thread does belongs to the switch until the scope ends.
class Scope {
 public:
  explicit Scope(Switch* of) : before_(current) {
    count_time();
    current = of;
  }
  ~Scope() {
    count_time();
    current = before_;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Switch* before_;
};

inline void check() {
  if (!current) return;
  constexpr unsigned kOften = 64;  // asking for the time costs more than a check
  if (++checks % kOften == 0) count_time();
  if (current->stop.load(std::memory_order_relaxed)) throw Stopped();
}
inline void take(std::size_t words) {
  if (!current) return;
  if (current->words.fetch_add(words, std::memory_order_relaxed) + words > current->most_words) throw Stopped();
  check();
}
// The words are more than they may be.
inline bool is_too_large(const Switch& of) { return of.words > of.most_words; }

}  // namespace xgrammar_stop
