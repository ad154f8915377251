// A CUDA driver with eight cards and a run-time compiler that do nothing: libcuda.so.1 and libnvrtc.so.13 as
// the program opens them where the tests of dispatch are linked with them. They take what the real ones take
// and note it.
//
// Each card has a context and addresses of its own. A call that mixes those of two cards, or that uses memory
// which is not allocated, fails and is noted in fake_faults. What is asked for on a stream is done as late as
// it can be (late_work.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace anabranch {

struct FakeLaunch {
  std::string kernel;
  std::string source;  // the kernel's text
  unsigned grid = 0;   // blocks
  // The kernel's specialisation, of a type of ops/cuda/kernels/variants.h. Throws if the text has another
  // number of values.
  template <class Variant>
  Variant variant() const {
    const std::vector<int> values = variant_values();
    Variant out;
    if (values.size() * sizeof(int) != sizeof(out)) throw std::runtime_error(kernel + " has another variant");
    std::memcpy(&out, values.data(), sizeof(out));
    return out;
  }

 private:
  std::vector<int> variant_values() const;
};

struct FakeCard {
  int capability = 90, multiprocessors = 132, shared_bytes = 232448;
  uint64_t free_bytes = uint64_t{4} << 30;  // reported as free at all times; not more can be allocated in all
  bool emulated = false;                    // kernels run (emulator.h), and memory is full of NaN at first

  std::vector<FakeLaunch> launches;
  // What is open or allocated now.
  int contexts = 0, streams = 0, modules = 0, events = 0;
  std::map<uint64_t, size_t> memory, pinned;  // bytes, by address

  bool owns(uint64_t address) const;
  bool is_closed() const;  // nothing is open or allocated
};
constexpr int kFakeCards = 8;
extern FakeCard fake_cards[kFakeCards];
extern std::vector<std::string> fake_faults;

}  // namespace anabranch
