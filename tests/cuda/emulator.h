// Runs CUDA kernels on the CPU: their text is compiled as C++ (emulated_device.h), and every thread of a
// block is a fiber. This tests arithmetic, indices, divergence and the use of memory before it is written. It
// does not test timing, the hardware's memory model, or how tensor cores round within one product.
//
// Blocks run one after the other, in every second launch the last one first. Shared memory is filled with NaN
// before each, and local variables begin with a pattern of bytes. Linked into the fake driver, which calls
// run(); not for several threads at a time.
#pragma once

#include <string>

#include "cuda/emulated_thread.h"

namespace anabranch::emulator {

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
