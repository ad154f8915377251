// Lets a compilation by xgrammar be stopped, and bounds its memory. cmake/FindXgrammar.cmake puts calls of
// check() and take() into four of its functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <stdexcept>

namespace xgrammar_stop {

struct Switch {
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> words = 0;  // of 4 bytes, that were taken
  std::size_t most_words = 64u << 20;
};
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

// Of the compilation that the thread works for; null: none.
inline thread_local Switch* current = nullptr;

// Its compilation belongs to the switch until the scope ends.
class Scope {
 public:
  explicit Scope(Switch* of) : before_(current) { current = of; }
  ~Scope() { current = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Switch* before_;
};

inline void check() {
  if (current && current->stop.load(std::memory_order_relaxed)) throw Stopped();
}
inline void take(std::size_t words) {
  if (!current) return;
  if (current->words.fetch_add(words, std::memory_order_relaxed) + words > current->most_words) throw Stopped();
  check();
}
// The words are more than they may be.
inline bool is_too_large(const Switch& of) { return of.words > of.most_words; }

}  // namespace xgrammar_stop
