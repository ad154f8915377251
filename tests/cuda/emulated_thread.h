// What emulated_device.h calls of the emulator (emulator.h). It is compiled with each of some two hundred
// kernels, so both include only what takes a moment.
#pragma once

#include <cstddef>
#include <cstdint>

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
[[noreturn]] void fail(const char* error);

}  // namespace anabranch::emulator
