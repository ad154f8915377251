#include "checkpoint/affine.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "checkpoint/dense.h"

namespace anabranch {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

bool affine_bits_ok(int64_t bits) {
  return (bits >= 2 && bits <= 6) || bits == 8;
}

bool affine_group_ok(int64_t group) {
  return group == 16 || group == 32 || group == 64 || group == 128;
}

namespace {

// 8 codes take exactly `kBits` bytes whatever the width.
template <int kBits>
void unpack(const std::byte* packed, int64_t count, uint8_t* codes) {
  constexpr uint64_t kMask = (1u << kBits) - 1;
  for (int64_t i = 0; i < count; i += 8, packed += kBits) {
    uint64_t word = 0;
    std::memcpy(&word, packed, kBits);
    for (int j = 0; j < 8; j++) codes[i + j] = static_cast<uint8_t>((word >> (j * kBits)) & kMask);
  }
}

// The two widths that models have most: loops that compilers turn into vector code.
template <>
void unpack<4>(const std::byte* packed, int64_t count, uint8_t* codes) {
  for (int64_t i = 0; i < count / 2; i++) {
    const auto byte = static_cast<uint8_t>(packed[i]);
    codes[2 * i] = byte & 15;
    codes[2 * i + 1] = byte >> 4;
  }
}
template <>
void unpack<2>(const std::byte* packed, int64_t count, uint8_t* codes) {
  for (int64_t i = 0; i < count / 4; i++) {
    const auto byte = static_cast<uint8_t>(packed[i]);
    for (int j = 0; j < 4; j++) codes[4 * i + j] = (byte >> (2 * j)) & 3;
  }
}

template <int kBits>
void pack(const uint8_t* codes, int64_t count, std::byte* packed) {
  for (int64_t i = 0; i < count; i += 8, packed += kBits) {
    uint64_t word = 0;
    for (int j = 0; j < 8; j++) word |= uint64_t{codes[i + j]} << (j * kBits);
    std::memcpy(packed, &word, kBits);
  }
}

ScaleType scale_type(WeightKind kind) {
  if (kind == WeightKind::f16) return ScaleType::f16;
  return kind == WeightKind::bf16 ? ScaleType::bf16 : ScaleType::f32;
}

}  // namespace

void unpack_codes(int bits, const std::byte* packed, int64_t count, uint8_t* codes) {
  CHECK(count % 8 == 0, "{} codes", count);
  switch (bits) {
    case 2:
      return unpack<2>(packed, count, codes);
    case 3:
      return unpack<3>(packed, count, codes);
    case 4:
      return unpack<4>(packed, count, codes);
    case 5:
      return unpack<5>(packed, count, codes);
    case 6:
      return unpack<6>(packed, count, codes);
    case 8:
      if (count > 0) std::memcpy(codes, packed, static_cast<size_t>(count));
      return;
  }
  CHECK(false, "{} bits", bits);
}

void pack_codes(int bits, const uint8_t* codes, int64_t count, std::byte* packed) {
  CHECK(count % 8 == 0, "{} codes", count);
  switch (bits) {
    case 2:
      return pack<2>(codes, count, packed);
    case 3:
      return pack<3>(codes, count, packed);
    case 4:
      return pack<4>(codes, count, packed);
    case 5:
      return pack<5>(codes, count, packed);
    case 6:
      return pack<6>(codes, count, packed);
    case 8:
      if (count > 0) std::memcpy(packed, codes, static_cast<size_t>(count));
      return;
  }
  CHECK(false, "{} bits", bits);
}

WeightSource affine_source(const AffineTensor& t, std::shared_ptr<const void> keep) {
  CHECK(affine_bits_ok(t.bits) && affine_group_ok(t.group) && t.cols % t.group == 0,
        "{} bits, group {}, {} columns", t.bits, t.group, t.cols);
  WeightSource source;
  source.rows = t.rows;
  source.cols = t.cols;
  source.kind = WeightKind::affine;
  source.bits = t.bits;
  source.group = t.group;
  source.scale_type = scale_type(t.scale_kind);
  source.read_codes = [t, keep = std::move(keep)](int64_t first, int64_t count, uint8_t* codes, float* scales,
                                                  float* biases) {
    const int64_t row_bytes = t.cols * t.bits / 8, groups = t.cols / t.group;
    const int64_t group_bytes = groups * dense_size(t.scale_kind);
    unpack_codes(t.bits, t.codes + first * row_bytes, count * t.cols, codes);
    dense_to_float(t.scale_kind, t.scales + first * group_bytes, count * groups, scales);
    dense_to_float(t.scale_kind, t.biases + first * group_bytes, count * groups, biases);
  };
  return source;
}

}  // namespace anabranch
