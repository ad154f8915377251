// Which implementation of the ops runs. `cpu` runs our own kernels at once on the arrays' storage;
// `reference` states each op in plain MLX ops (lazy, any MLX device): the specification, the test oracle, and
// the path for devices without kernels of ours. Every op in this folder dispatches on it and has the same
// meaning on both.
#pragma once

#include <mlx/array.h>

#include <string>

namespace anabranch::ops {

namespace mx = mlx::core;

enum class Backend { cpu, reference };

// Set once before any weight is made: a Weight holds the layout of the backend that made it.
void set_backend(Backend backend);
Backend backend();

// CPU backend only. Activations of quantised matrices are rounded to int8 with one scale per row and group
// (default), or kept in fp32 (`--precise`). KV is f16 by default and fp32 when precise.
void set_precise(bool precise);
bool precise();

// The instruction set of the CPU kernels in use: "avx512-vnni", "avx512", "avx2", "neon", "portable". Chosen
// from the processor; all of them give the same bits (every output element is computed by the same operations
// in the same order, whatever the vector width).
std::string cpu_target();
// For tests: forces a target by name; false if this machine or build cannot run it.
bool set_cpu_target(const std::string& name);

// An uninitialised, row-contiguous array whose data is 64-byte aligned and available at once (no graph).
mx::array empty(mx::Shape shape, mx::Dtype dtype);

}  // namespace anabranch::ops
