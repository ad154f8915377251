// What a CPU makes of the weights of each file format: the very bytes, which are the same on every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/hash.h"
#include "checkpoint/affine.h"
#include "checkpoint/dense.h"
#include "checkpoint/gguf_blocks.h"
#include "ops/cpu/packed.h"
#include "ops/open.h"

namespace anabranch {
namespace {

using Bytes = std::shared_ptr<std::vector<std::byte>>;

// Numbers of which no 16 bits are an infinity or NaN in f16 or bf16, nor 32 in f32.
Bytes random_bytes(size_t count, uint64_t seed) {
  auto bytes = std::make_shared<std::vector<std::byte>>(count);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto byte = static_cast<uint8_t>(seed >> 56);
    (*bytes)[i] = static_cast<std::byte>((byte & 0x7C) == 0x7C ? byte ^ 0x44 : byte);
  }
  return bytes;
}

std::unique_ptr<Device> cpu() {
  auto device = ops::open_device({.name = "cpu", .threads = 2});
  EXPECT_TRUE(device.ok());
  return std::move(*device);
}

void add_packed(Fnv1a& hash, const WeightSource& source) {
  const auto device = cpu();
  const auto weight = ops::Weight::make(*device, source);
  const auto& m = ops::cpu::packed(weight);
  for (uint64_t i = 0; i < weight.bytes(); i++) hash.add(m.data[i]);
}

WeightSource gguf(uint32_t id, int64_t rows, int64_t cols) {
  const GgufType& type = *find_gguf_type(id);
  const Bytes bytes = random_bytes(static_cast<size_t>(rows * cols / type.block * type.bytes), id + 1);
  return gguf_source(type, bytes->data(), rows, cols, bytes);
}

WeightSource mlx(int bits, int group, WeightKind scales, int64_t rows, int64_t cols) {
  const auto codes = static_cast<size_t>(rows * cols * bits / 8);
  const auto size = static_cast<size_t>(rows * cols / group * dense_size(scales));
  const Bytes bytes = random_bytes(codes + 2 * size, static_cast<uint64_t>(100 + bits));
  return affine_source(
      {rows, cols, bits, group, scales, bytes->data(), bytes->data() + codes, bytes->data() + codes + size},
      bytes);
}

// A matrix of each kind of source that is made of this one: rows moved, rows of zeros put in.
uint64_t packed_hash(const std::vector<WeightSource>& sources) {
  Fnv1a hash;
  for (const WeightSource& source : sources) {
    add_packed(hash, source);
    std::vector<int64_t> rows(static_cast<size_t>(source.rows));
    std::iota(rows.begin(), rows.end(), 0);
    std::rotate(rows.begin(), rows.begin() + 5, rows.end());
    add_packed(hash, select_rows(source, rows));
    add_packed(hash, pad_blocks(source, source.rows / 5, 9));
  }
  return hash.value();
}

TEST(PackedWeights, OfGguf) {
  const std::pair<uint32_t, uint64_t> types[] = {
      {0, 0x6994932526006e42},  {1, 0xd2bf8eea86eef750},  {30, 0x7e5187571a6dc642}, {2, 0x9ac331654f510b34},
      {3, 0x798f5f35e97a32d2},  {6, 0x1cee12689339976c},  {7, 0xdb2aca1b0f0b61cb},  {8, 0xda0231141473a07f},
      {10, 0x51133f8a06282062}, {11, 0x61742c8ea196eab9}, {12, 0xa0a68952a97c7e15}, {13, 0x92d0eebcf3849899},
      {14, 0x535a5ba79c9deb51}};
  for (const auto& [id, hash] : types)
    EXPECT_EQ(packed_hash({gguf(id, 35, 512), gguf(id, 10, 768)}), hash) << find_gguf_type(id)->name;
}

TEST(PackedWeights, OfMlx) {
  const std::pair<int, uint64_t> widths[] = {{2, 0x3277b92188b13fb4}, {3, 0x84d0908514fc41b8},
                                             {4, 0x10478e773c079922}, {5, 0x1fc432271a2a5d18},
                                             {6, 0x813c4d622326d9e5}, {8, 0xe7a6bc0199b0e5d0}};
  for (const auto& [bits, hash] : widths) {
    std::vector<WeightSource> sources;
    for (const WeightKind kind : {WeightKind::f32, WeightKind::f16, WeightKind::bf16})
      for (const int group : {16, 32, 64, 128}) sources.push_back(mlx(bits, group, kind, 35, 384));
    sources.push_back(mlx(bits, 16, WeightKind::bf16, 20, 336));  // a last record that is half empty
    EXPECT_EQ(packed_hash(sources), hash) << bits << " bits";
  }
}

}  // namespace
}  // namespace anabranch
