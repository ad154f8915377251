// Keys and values in 8 bits: the error's bound, what comes back exactly, the bytes.
#include "state/kv_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/float16.h"
#include "tensor/device.h"

namespace anabranch {
namespace {

// A value of a block in f16.
float half_at(const Tensor& x, size_t i) {
  return f16_to_float(x.data<uint16_t>()[i]);
}

ThreadPool threads(2);

// A block's tensor, and where it has what (written apart from the codec's own view of it).
struct Layout {
  KvPart part;
  bool tiled;  // the CPU's, else the reference's
  int heads, dims;

  Shape shape() const {
    const int tiles = (dims + 15) / 16;
    if (part == KvPart::keys) return tiled ? Shape{heads, 16, dims, 16} : Shape{heads, dims, ops::kKvBlock};
    return tiled ? Shape{heads, tiles, ops::kKvBlock, 16} : Shape{heads, ops::kKvBlock, dims};
  }
  size_t at(int head, int position, int dim) const {
    const int tiles = (dims + 15) / 16;
    if (part == KvPart::keys)
      return tiled ? ((head * 16 + position / 16) * dims + dim) * 16 + position % 16
                   : (head * dims + dim) * ops::kKvBlock + position;
    return tiled ? ((head * tiles + dim / 16) * ops::kKvBlock + position) * 16 + dim % 16
                 : (head * ops::kKvBlock + position) * dims + dim;
  }
};

class Block {
 public:
  Block(const Layout& layout, Dtype type)
      : layout_(layout), tensor_(host_device().zeros(layout.shape(), type)) {}
  float get(int head, int position, int dim) const {
    const size_t i = layout_.at(head, position, dim);
    return half() ? half_at(tensor_, i) : tensor_.data<float>()[i];
  }
  void set(int head, int position, int dim, float x) {
    const size_t i = layout_.at(head, position, dim);
    if (half())
      tensor_.data<uint16_t>()[i] = float_to_f16(x);
    else
      tensor_.data<float>()[i] = x;
  }
  Tensor packed() const { return to_q8(tensor_, layout_.part, threads); }
  Block decoded(const Tensor& packed) const {
    Block out(layout_, tensor_.dtype());
    from_q8(packed, layout_.part, out.tensor_, threads);
    return out;
  }
  Block there_and_back() const { return decoded(packed()); }
  bool half() const { return tensor_.dtype() == Dtype::f16; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Layout layout_;
  Tensor tensor_;
};

std::vector<Layout> layouts(int heads, int dims) {
  std::vector<Layout> out;
  for (const KvPart part : {KvPart::keys, KvPart::values})
    for (const bool tiled : {true, false}) out.push_back({part, tiled, heads, dims});
  return out;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data<char>(), b.data<char>(), a.nbytes()) == 0;
}

// Rows of many kinds: zeros, sizes from the smallest to the largest, some with a value that dwarfs the rest.
void fill(Block& block, const Layout& layout, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const float least = block.half() ? -24 : -140, most = block.half() ? 13 : 124;
  std::uniform_real_distribution<float> exponent(least, most);
  for (int h = 0; h < layout.heads; h++)
    for (int p = 0; p < ops::kKvBlock; p++) {
      const auto kind = random() % 8;
      const float size = kind == 0 ? 0 : kind < 5 ? 1 : std::exp2(exponent(random));
      for (int d = 0; d < layout.dims; d++)
        block.set(h, p, d, size * std::clamp(normal(random), -4.0f, 4.0f));
      if (kind == 4) block.set(h, p, static_cast<int>(random() % layout.dims), -300);
    }
}

void expect_within_bound(const Block& x, const Block& y, const Layout& layout) {
  // Half a unit in the last place of the type: relative, and of its subnormals.
  const double relative = x.half() ? 0x1p-11 : 0x1p-24, absolute = x.half() ? 0x1p-25 : 0x1p-150;
  for (int h = 0; h < layout.heads; h++)
    for (int p = 0; p < ops::kKvBlock; p++) {
      double scale = 0;
      for (int d = 0; d < layout.dims; d++) scale = std::max<double>(scale, std::fabs(x.get(h, p, d)));
      for (int d = 0; d < layout.dims; d++) {
        const double a = x.get(h, p, d), b = y.get(h, p, d);
        const double bound = scale / 254 + std::max(std::fabs(b) * relative, absolute);
        ASSERT_LE(std::fabs(a - b), bound * 1.001) << a << " of at most " << scale;
        if (std::fabs(a) == scale || a == 0) {
          ASSERT_EQ(a, b);
        }
      }
    }
}

TEST(KvCodec, TheErrorIsBoundedAndNothingIsLostTwice) {
  std::mt19937 random(7);
  for (const int dims : {1, 8, 20, 64, 128, 256})
    for (const Dtype type : {Dtype::f16, Dtype::f32})
      for (const Layout& layout : layouts(1 + static_cast<int>(random() % 3), dims)) {
        SCOPED_TRACE(::testing::Message() << (type == Dtype::f16 ? "f16" : "f32") << " of " << dims
                                          << (layout.part == KvPart::keys ? ", keys" : ", values")
                                          << (layout.tiled ? ", tiled" : ""));
        Block x(layout, type);
        fill(x, layout, random);
        const auto packed = x.packed();
        ASSERT_EQ(packed.nbytes(), q8_bytes(x.tensor().shape(), x.tensor().dtype(), layout.part));
        ASSERT_EQ(packed.nbytes(), static_cast<size_t>(x.tensor().size()) +
                                       layout.heads * ops::kKvBlock * bytes_of(x.tensor().dtype()));
        const Block y = x.decoded(packed);
        expect_within_bound(x, y, layout);
        EXPECT_TRUE(same_bytes(y.packed(), packed));
      }
}

// What lies behind a sequence's end must not show in its rows.
TEST(KvCodec, ARowDoesNotDependOnOthers) {
  for (const Layout& layout : layouts(2, 24)) {
    std::mt19937 random(3);
    Block x(layout, Dtype::f16);
    fill(x, layout, random);
    const Block before = x.there_and_back();
    for (int p = 100; p < ops::kKvBlock; p++) x.set(1, p, p % 24, 60000);
    const Block after = x.there_and_back();
    for (int h = 0; h < 2; h++)
      for (int p = 0; p < (h == 0 ? ops::kKvBlock : 100); p++)
        for (int d = 0; d < 24; d++) ASSERT_EQ(before.get(h, p, d), after.get(h, p, d));
  }
}

TEST(KvCodec, NonFiniteValuesBecomeFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Dtype type : {Dtype::f16, Dtype::f32})
    for (const Layout& layout : layouts(1, 4)) {
      Block x(layout, type);
      const float row[] = {2, -kInfinity, kInfinity, std::nanf("")}, want[] = {2, -2, 2, 0};
      for (int d = 0; d < 4; d++) x.set(0, 9, d, row[d]);
      for (int d = 0; d < 4; d++) x.set(0, 10, d, d % 2 ? kInfinity : std::nanf(""));
      const Block y = x.there_and_back();
      for (int d = 0; d < 4; d++) EXPECT_EQ(y.get(0, 9, d), want[d]);
      for (int d = 0; d < 4; d++) EXPECT_EQ(y.get(0, 10, d), 0);
    }
}

TEST(KvCodec, AnyBytesDecode) {
  std::mt19937 random(5);
  for (const Dtype type : {Dtype::f16, Dtype::f32})
    for (const Layout& layout : layouts(2, 16)) {
      const Block x(layout, type);
      Tensor bytes = x.packed();
      for (size_t i = 0; i < bytes.nbytes(); i++) bytes.data<uint8_t>()[i] = static_cast<uint8_t>(random());
      const Block y = x.decoded(bytes);
      for (int p = 0; p < ops::kKvBlock; p++) {
        const auto* scales = bytes.data<char>() + x.tensor().size();
        uint16_t half = 0;
        float scale = 0;
        std::memcpy(&half, scales + 2 * p, 2);
        std::memcpy(&scale, scales + 4 * p, 4);
        if (type == Dtype::f16) scale = f16_to_float(half);
        for (int d = 0; d < 16 && std::isfinite(scale); d++)
          ASSERT_LE(std::fabs(y.get(0, p, d)), std::fabs(scale));
      }
    }
}

// docs/cache-format.md: codes in the tensor's order, then a scale for each head and position.
TEST(KvCodec, BytesArePinned) {
  for (const Layout& layout : layouts(2, 16)) {
    Block x(layout, Dtype::f16);
    for (int d = 0; d < 16; d++) x.set(1, 17, d, d == 3 ? -1.5f : 0.25f);
    const auto packed = x.packed();
    ASSERT_EQ(packed.nbytes(), 2u * 256 * 16 + 2 * 256 * 2);
    for (int d = 0; d < 16; d++)
      EXPECT_EQ(packed.data<int8_t>()[layout.at(1, 17, d)], d == 3 ? -127 : 21);  // 127 / 6 = 21.2
    const auto* scale = packed.data<uint8_t>() + 2 * 256 * 16 + (256 + 17) * 2;
    EXPECT_EQ(scale[0], 0x00);
    EXPECT_EQ(scale[1], 0x3e);  // 1.5 in f16, little-endian
    size_t other = 0;
    for (size_t i = 0; i < packed.nbytes(); i++) other += packed.data<uint8_t>()[i] != 0;
    EXPECT_EQ(other, 17u);
  }
}

}  // namespace
}  // namespace anabranch
