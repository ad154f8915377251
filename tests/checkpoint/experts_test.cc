// Mixtures of experts as their checkpoints hold them: one matrix each, or fused.
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/checkpoint.h"
#include "checkpoint/dense.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

using testing::raw_bytes;
using testing::SafetensorsWriter;
using testing::TempDir;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::unique_ptr<Checkpoint> open(const SafetensorsWriter& writer, const std::string& config = "{}") {
  TempDir dir;  // maps outlive it
  dir.write("config.json", config);
  dir.write("model.safetensors", writer.bytes());
  auto checkpoint = Checkpoint::open(dir.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
}

std::vector<float> values_of(Checkpoint& c, const std::string& name, const std::vector<int64_t>& shape) {
  auto value = c.take(name, shape);
  EXPECT_TRUE(value.ok()) << value.error().message;
  return value.ok() ? std::vector<float>(value->data<float>(), value->data<float>() + value->size())
                    : std::vector<float>();
}

TEST(Experts, separate_ones_become_one_tensor) {
  SafetensorsWriter w;
  for (int e : {10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9}) {  // by number, not as text
    const float v = static_cast<float>(10 * e);
    w.f32("model.language_model.layers.3.mlp.experts." + std::to_string(e) + ".up_proj.weight", {2, 3},
          {v, v + 1, v + 2, v + 3, v + 4, v + 5});
  }
  w.f32("model.layers.3.mlp.experts.01.up_proj.weight", {1}, {1})
      .f32("model.layers.3.mlp.experts.0.bias", {1}, {1});
  auto c = open(w);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->tensors().size(), 3u);
  const std::string name = "model.layers.3.mlp.switch_mlp.up_proj.weight";
  EXPECT_EQ(c->find(name)->bytes, 11u * 24);
  const auto values = values_of(*c, name, {11, 2, 3});
  ASSERT_EQ(values.size(), 66u);
  for (size_t i = 0; i < values.size(); i++) EXPECT_EQ(values[i], static_cast<float>(10 * (i / 6) + i % 6));
}

TEST(Experts, fused_ones_are_cut) {
  // 2 experts; gates of 2 rows, then ups of 2 rows
  SafetensorsWriter w;
  w.f32("mtp.layers.0.mlp.experts.gate_up_proj", {2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  w.f32("mtp.layers.0.mlp.experts.down_proj", {2, 1, 2}, {1, 2, 3, 4});
  auto c = open(w);
  ASSERT_TRUE(c);
  const std::string p = "mtp.layers.0.mlp.switch_mlp.";
  EXPECT_EQ(values_of(*c, p + "gate_proj.weight", {2, 2, 1}), (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(values_of(*c, p + "up_proj.weight", {2, 2, 1}), (std::vector<float>{3, 4, 7, 8}));
  EXPECT_EQ(values_of(*c, p + "down_proj.weight", {2, 1, 2}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_TRUE(c->finish().ok());
}

// The shapes of both matrices tell which way they are, also if one of them is square.
TEST(Experts, fused_ones_with_the_inputs_first_are_turned) {
  const auto counted = [](int count) {
    std::vector<float> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
  };
  struct Case {
    int64_t width, inner;
    bool turned;
  };
  for (const auto& [width, inner, turned] :
       {Case{3, 2, true}, {3, 2, false}, {4, 2, true}, {4, 2, false}, {3, 3, true}, {3, 3, false}}) {
    SafetensorsWriter w;
    const auto size = static_cast<int>(2 * width * 2 * inner);
    using Shape = std::vector<int64_t>;
    w.f32("model.layers.0.mlp.experts.down_proj", turned ? Shape{2, inner, width} : Shape{2, width, inner},
          counted(size / 2));
    w.f32("model.layers.0.mlp.experts.gate_up_proj",
          turned ? Shape{2, width, 2 * inner} : Shape{2, 2 * inner, width}, counted(size));
    auto c = open(w);
    ASSERT_TRUE(c);
    const std::string p = "model.layers.0.mlp.switch_mlp.";
    const auto up = values_of(*c, p + "up_proj.weight", {2, inner, width}),
               down = values_of(*c, p + "down_proj.weight", {2, width, inner});
    ASSERT_EQ(up.size(), static_cast<size_t>(size / 2));
    for (int64_t e = 0; e < 2; e++)
      for (int64_t i = 0; i < inner; i++)
        for (int64_t h = 0; h < width; h++) {
          const int64_t in_up =
              turned ? (e * width + h) * 2 * inner + inner + i : (e * 2 * inner + inner + i) * width + h;
          const int64_t in_down = turned ? (e * inner + i) * width + h : (e * width + h) * inner + i;
          EXPECT_EQ(up[static_cast<size_t>((e * inner + i) * width + h)], static_cast<float>(1 + in_up));
          EXPECT_EQ(down[static_cast<size_t>((e * width + h) * inner + i)], static_cast<float>(1 + in_down));
        }
  }
}

TEST(Experts, those_without_a_gate_are_renamed) {
  SafetensorsWriter w;
  w.f32("backbone.layers.1.mixer.experts.up_proj", {2, 1, 2}, {1, 2, 3, 4});
  w.f32("backbone.layers.1.mixer.experts.down_proj", {2, 2, 1}, {5, 6, 7, 8});
  auto c = open(w);
  ASSERT_TRUE(c);
  const std::string p = "model.layers.1.mlp.switch_mlp.";
  EXPECT_EQ(values_of(*c, p + "up_proj.weight", {2, 1, 2}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(values_of(*c, p + "down_proj.weight", {2, 2, 1}), (std::vector<float>{5, 6, 7, 8}));
}

TEST(Experts, without_data_cost_nothing) {
  SafetensorsWriter w;
  w.add("a.mlp.experts.gate_up_proj", "F32", {2147483647, 2147483646, 0}, "");
  w.add("a.mlp.experts.0.up_proj.weight", "F32", {2147483647, 0}, "");
  for (int i = 0; i < 100; i++)
    w.add(std::to_string(i) + ".mlp.experts.gate_up_proj", "F32", {2147483647, 0, 4}, "");
  EXPECT_TRUE(open(w));
}

TEST(Experts, a_second_one_under_the_other_name_is_left_over) {
  SafetensorsWriter w;
  w.f32("a.mlp.experts.0.up_proj.weight", {1, 1}, {1}).f32("a.mlp.experts.0.w3.weight", {1, 1}, {2});
  auto c = open(w);
  ASSERT_TRUE(c);
  EXPECT_EQ(values_of(*c, "a.mlp.switch_mlp.up_proj.weight", {1, 1, 1}), (std::vector<float>{1}));
  EXPECT_HAS(c->finish().error().message, "a.mlp.experts.0.w3.weight");
}

TEST(Experts, quantised_ones_too) {
  SafetensorsWriter w;
  for (uint32_t e = 0; e < 3; e++) {
    const std::string module = "model.layers.0.mlp.experts." + std::to_string(e) + ".up_proj";
    w.add(module + ".weight", "U32", {2, 4}, raw_bytes(std::vector<uint32_t>(8, 0x11111111u * (e + 1))));
    w.f32(module + ".scales", {2, 1}, {1, 2}).f32(module + ".biases", {2, 1}, {0, static_cast<float>(e)});
  }
  auto c = open(w, R"({"quantization":{"bits":4,"group_size":32}})");
  ASSERT_TRUE(c);
  const auto values = values_of(*c, "model.layers.0.mlp.switch_mlp.up_proj.weight", {3, 2, 32});
  ASSERT_EQ(values.size(), 192u);
  for (size_t i = 0; i < values.size(); i++) {
    const size_t e = i / 64, row = i / 32 % 2;
    EXPECT_EQ(values[i], static_cast<float>((row + 1) * (e + 1) + row * e)) << i;
  }
}

TEST(Experts, that_do_not_go_together_cannot_be_read) {
  const auto error_with = [](const char* second, const std::vector<int64_t>& shape, const char* dtype,
                             int bytes) {
    SafetensorsWriter w;
    w.f32("a.mlp.experts.0.up_proj.weight", {2, 2}, {1, 2, 3, 4});
    w.add(second, dtype, shape, std::string(bytes, 'x'));
    auto c = open(w);
    const auto info = c->find("a.mlp.switch_mlp.up_proj.weight");
    return c->take(info->name, info->shape).error().message;
  };
  const char* name = "a.mlp.experts.1.up_proj.weight";
  EXPECT_HAS(error_with("a.mlp.experts.2.up_proj.weight", {2, 2}, "F32", 16), "expert 1 of 3 is missing");
  EXPECT_HAS(error_with(name, {2, 3}, "F32", 24), "experts.1.up_proj.weight\" is F32 [2, 3], but");
  EXPECT_HAS(error_with(name, {2, 2}, "BF16", 8), "is BF16 [2, 2]");
  EXPECT_HAS(error_with(name, {2, 2}, "I64", 32), "type I64");
  EXPECT_HAS(error_with(name, {2, 2, 1}, "F32", 16), "a matrix was expected");
}

}  // namespace
}  // namespace anabranch
