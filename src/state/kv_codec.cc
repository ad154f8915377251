#include "state/kv_codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/float16.h"
#include "tensor/device.h"

namespace anabranch {
namespace {

constexpr double kLargestCode = 127;
constexpr int64_t kSerialValues = 32 << 10;

struct Half {
  uint16_t bits;
  explicit Half(float x) : bits(float_to_f16(x)) {}
  explicit operator float() const { return f16_to_float(bits); }
};

// A tensor seen as [groups, chunks, rows, width]: a row has `width` values in each chunk of its group.
struct Rows {
  int64_t groups, chunks, rows, width;
  int64_t group_values() const { return chunks * rows * width; }
  int64_t values() const { return groups * group_values(); }
  int64_t scales() const { return groups * rows; }
};

// Positions are the last axis of keys, and the second to last of values; on the CPU, both are divided into
// tiles.
Rows rows_of(const Shape& shape, KvPart part) {
  const int axes = static_cast<int>(shape.size());
  CHECK(axes == 3 || axes == 4, "a block of keys or values with {} axes", axes);
  const size_t last = shape.size() - 1;
  Rows r{shape[0], 1, shape[last - 1], shape[last]};
  if (part == KvPart::values) {
    if (axes == 4) r.chunks = shape[1];
  } else {
    if (axes == 4) r.groups *= shape[1];
    r = {r.groups, shape[last - 1], shape[last], 1};
  }
  CHECK(r.rows <= ops::kKvBlock && r.scales() == int64_t{shape[0]} * ops::kKvBlock,
        "a block of {} heads with {} rows", shape[0], r.scales());
  return r;
}

template <class T>
float finite_magnitude(T value) {
  const float x = std::fabs(static_cast<float>(value));
  return x <= std::numeric_limits<float>::max() ? x : 0;
}

// At 1.5 * 2^52, the last place of a double is 1: adding this rounds to nearest, without a function call.
constexpr double kRound = 6755399441055744.0;

int8_t code_of(float x, float scale, double codes_per_unit) {
  if (std::fabs(x) <= scale)
    return static_cast<int8_t>(static_cast<int>(x * codes_per_unit + kRound - kRound));
  return x > 0 ? 127 : x < 0 ? -127 : 0;
}

template <class T>
void encode(const Rows& r, const T* x, int8_t* codes, T* scales) {
  std::array<float, ops::kKvBlock> largest{};
  for (int64_t c = 0, at = 0; c < r.chunks; c++)
    for (int64_t row = 0; row < r.rows; row++)
      for (int64_t i = 0; i < r.width; i++) largest[row] = std::max(largest[row], finite_magnitude(x[at++]));
  std::array<double, ops::kKvBlock> codes_per_unit;
  for (int64_t row = 0; row < r.rows; row++) {
    scales[row] = T(largest[row]);
    codes_per_unit[row] = largest[row] > 0 ? kLargestCode / largest[row] : 0;
  }
  for (int64_t c = 0, at = 0; c < r.chunks; c++)
    for (int64_t row = 0; row < r.rows; row++)
      for (int64_t i = 0; i < r.width; i++, at++)
        codes[at] = code_of(static_cast<float>(x[at]), largest[row], codes_per_unit[row]);
}

// Decodes a group. A step is a double, so that 127 steps rounded to float are exactly the scale.
template <class T>
void decode(const Rows& r, const int8_t* codes, const T* scales, T* x) {
  std::array<double, ops::kKvBlock> step;
  for (int64_t row = 0; row < r.rows; row++) step[row] = static_cast<float>(scales[row]) / kLargestCode;
  for (int64_t c = 0, at = 0; c < r.chunks; c++)
    for (int64_t row = 0; row < r.rows; row++)
      for (int64_t i = 0; i < r.width; i++, at++)
        x[at] = T(static_cast<float>(step[row] * std::max<int>(codes[at], -127)));
}

// Calls group(number) for each group, on several threads.
template <class Body>
void each_group(const Rows& r, ThreadPool& threads, const Body& group) {
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; g++) group(g);
  };
  threads.parallel_for(r.groups, std::max<int64_t>(1, kSerialValues / r.group_values()), body);
}

template <class T>
void encode_block(const Rows& r, const Tensor& block, Tensor& packed, ThreadPool& threads) {
  auto* codes = packed.data<int8_t>();
  auto* scales = reinterpret_cast<T*>(codes + r.values());
  each_group(r, threads, [&](int64_t g) {
    encode(r, block.data<T>() + g * r.group_values(), codes + g * r.group_values(), scales + g * r.rows);
  });
}

template <class T>
void decode_block(const Rows& r, const Tensor& packed, Tensor& block, ThreadPool& threads) {
  const auto* codes = packed.data<int8_t>();
  const auto* scales = reinterpret_cast<const T*>(codes + r.values());
  each_group(r, threads, [&](int64_t g) {
    decode(r, codes + g * r.group_values(), scales + g * r.rows, block.data<T>() + g * r.group_values());
  });
}

void check_type(const Tensor& block) {
  CHECK(block.dtype() == Dtype::f16 || block.dtype() == Dtype::f32, "keys or values of another type");
}

}  // namespace

size_t q8_bytes(const Shape& shape, Dtype dtype, KvPart part) {
  const Rows r = rows_of(shape, part);
  return static_cast<size_t>(r.values()) + static_cast<size_t>(r.scales()) * bytes_of(dtype);
}

Tensor to_q8(const Tensor& block, KvPart part, ThreadPool& threads) {
  check_type(block);
  const Rows r = rows_of(block.shape(), part);
  Tensor packed =
      block.device().empty({static_cast<int>(q8_bytes(block.shape(), block.dtype(), part))}, Dtype::u8);
  block.dtype() == Dtype::f16 ? encode_block<Half>(r, block, packed, threads)
                              : encode_block<float>(r, block, packed, threads);
  return packed;
}

void from_q8(const Tensor& packed, KvPart part, Tensor& block, ThreadPool& threads) {
  check_type(block);
  const Rows r = rows_of(block.shape(), part);
  CHECK(packed.nbytes() == q8_bytes(block.shape(), block.dtype(), part), "{} bytes for a block of {}",
        packed.nbytes(), q8_bytes(block.shape(), block.dtype(), part));
  block.dtype() == Dtype::f16 ? decode_block<Half>(r, packed, block, threads)
                              : decode_block<float>(r, packed, block, threads);
}

}  // namespace anabranch
