// Runs CUDA kernels on the CPU: their text is compiled as C++ (emulated_device.h), and every thread of a
// block is a fiber. This tests arithmetic, indices, divergence and the use of memory before it is written. It
// does not test timing, the hardware's memory model, or how tensor cores round within one product.
//
// Blocks run one after the other, in every second launch the last one first. Shared memory is filled with NaN
// before each, and local variables begin with a pattern of bytes. Linked into the fake driver, which calls
// run(); not for several threads at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace anabranch::emulator {

// Where the running thread is.
struct Index {
  unsigned x, y, z;
};
extern Index thread_index, block_index, block_size, grid_size;

// What the kernels call. Each is called by all lanes of a warp, or by all threads of a block, together.

constexpr size_t kMostBytes = 48;
// The bytes that the 32 lanes give, kMostBytes apart; valid until the lane's call after the next. `what`: a
// literal, the same for all lanes.
const char* exchange(const char* what, const void* bytes, size_t count);
// Returns when so many threads (0: all that have not ended) have come to barrier `id`.
void barrier(int id, int threads);
// d += a b as PTX's mma.m16n8k16 has its fragments; products are exact and added in f32, in order of k.
void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bool f16);
// The block's dynamic shared memory.
char* dynamic_shared();
// Ends the launch with this error.
[[noreturn]] void fail(const std::string& error);

struct Launch {
  std::string kernel, source;  // as NVRTC is given it
  int capability = 80;         // 80: __CUDA_ARCH__ is 800
  Index grid = {1, 1, 1};
  unsigned threads = 0, shared_bytes = 0;
  const void* args = nullptr;
};
// Why nothing can be emulated here, or empty.
std::string unsupported();
// Compiles the source unless it is known, and runs the kernel. -> what went wrong, or empty.
std::string run(const Launch& launch);

}  // namespace anabranch::emulator
