// Which implementation of the ops runs. `cpu` runs our own kernels at once on the arrays' storage; `cuda`
// queues our own kernels on an NVIDIA device, whose memory the arrays' storage then is (to_host(),
// to_device()); `reference` states each op in plain MLX ops (lazy, any MLX device): the specification, the
// test oracle, and with some kernels of ours (ops/metal/) the path for Metal. Every op in this folder
// dispatches on it and has the same meaning on all.
#pragma once

#include <mlx/array.h>

#include <string>

#include "base/result.h"

namespace anabranch::ops {

namespace mx = mlx::core;

enum class Backend { cpu, reference, cuda };

// Set once before any weight is made: a Weight holds the layout of the backend that made it.
void set_backend(Backend backend);
Backend backend();

// Why Backend::cuda cannot run here (no driver, no device, ...), or empty. Opens the driver when first asked.
std::string cuda_obstacle();
// Why `--device metal` cannot run here, or empty.
std::string metal_obstacle();
// What `--device`, `--reference` and `--precise` ask for. Errors: unsupported (the device cannot be used
// here), invalid (a pairing that there is not).
Result<void> choose_backend(const std::string& device, bool reference, bool precise);
// Why the backend cannot run attention with such heads, or a gated-delta layer, or empty.
std::string attention_obstacle(int head_dim);
std::string gated_delta_obstacle(int key_dim, int value_dim, int conv_kernel);
// "NVIDIA H200"; the memory that the backend's device has: the machine's own but on CUDA.
std::string device_name();
uint64_t device_memory_bytes();
uint64_t device_free_bytes();  // 0: not known
// The device failed, and every later op of this process will. From any thread.
bool device_lost();

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

// MLX keeps freed buffers of the host for later arrays. Called before each pass of a model: from then on they
// may take as many bytes as the largest pass so far needed beyond what it left behind.
void fit_buffer_cache();

// An uninitialised, row-contiguous array of the host whose data is 64-byte aligned and available at once (no
// graph).
mx::array empty(mx::Shape shape, mx::Dtype dtype);

// The array evaluated, where data<T>() can be read. The same storage unless it is on another device. Any
// thread.
mx::array to_host(mx::array x);
// The array where the backend's ops read their operands.
mx::array to_device(mx::array x);
// Zeros there.
mx::array zeros(mx::Shape shape, mx::Dtype dtype);

}  // namespace anabranch::ops
