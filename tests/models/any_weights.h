// A checkpoint that has any tensor it is asked for, of random numbers.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/testing.h"

namespace anabranch {

// Weights for whatever a config asks for, within limits.
class AnyWeights final : public Checkpoint {
 public:
  AnyWeights(Json config, uint64_t seed) : config_(std::move(config)), seed_(seed) {}

  std::string without;  // a tensor that it does not have

  const Json& config() const override { return config_; }
  std::string name() const override { return "any"; }
  std::string path() const override { return "any"; }
  std::vector<TensorInfo> tensors() const override { return {}; }
  size_t left_out() const override { return 0; }
  bool has(std::string_view name) const override {
    return name != without && name.find("qkvz") == std::string_view::npos &&
           name.find("in_proj_ba") == std::string_view::npos &&
           name.find("mtp.layers.1") == std::string_view::npos;
  }
  std::optional<TensorInfo> find(std::string_view name) const override {
    if (name.find("conv1d") != std::string_view::npos) return std::nullopt;
    return TensorInfo{std::string(name), "F32", {}, 0, "any", NormConvention::offset};
  }
  Result<Tensor> take(std::string_view name, const std::vector<int64_t>& shape) override {
    const std::vector<int> dims(shape.begin(), shape.end());
    Tensor out = host_device().empty(Shape(dims), Dtype::f32);
    ops::Random random(seed_ + std::hash<std::string_view>()(name));
    for (int64_t i = 0; i < out.size(); i++) out.data<float>()[i] = random.uniform();
    return out;
  }
  void reopen(std::string_view) override {}
  // Quantised where the width allows it, every second time.
  Result<WeightSource> take_matrix(std::string_view name, int64_t rows, int64_t cols) override {
    constexpr int64_t kMost = 1 << 20;
    if (rows > kMost / std::max<int64_t>(cols, 1))
      return make_error(ErrorKind::invalid, "{}: too large for a test", name);
    const uint64_t seed = seed_ + std::hash<std::string_view>()(name);
    WeightSource source;
    source.rows = rows, source.cols = cols;
    if (cols % 32 == 0 && seed % 2 == 0) {
      source.kind = WeightKind::affine, source.bits = 4, source.group = 32;
      source.read_codes = [=](int64_t first, int64_t count, uint8_t* codes, float* scales, float* biases) {
        for (int64_t i = 0; i < count * cols; i++)
          codes[i] =
              static_cast<uint8_t>(ops::Random(seed + static_cast<uint64_t>(first * cols + i)).below(16));
        std::fill_n(scales, count * cols / 32, 0.0625f), std::fill_n(biases, count * cols / 32, -0.5f);
      };
      return source;
    }
    source.read_dense = [=](int64_t first, int64_t count, float* values) {
      for (int64_t i = 0; i < count * cols; i++)
        values[i] = ops::Random(seed + static_cast<uint64_t>(first * cols + i)).uniform();
    };
    return source;
  }
  Result<WeightSource> take_matrices(std::string_view name, int64_t count, int64_t rows,
                                     int64_t cols) override {
    return take_matrix(name, count * rows, cols);
  }
  int ignore(std::string_view) override { return 0; }
  Result<void> finish() const override { return {}; }
  void release_pages() const override {}
  std::optional<std::string> side_file(std::string_view) const override { return std::nullopt; }
  const Json& gguf_metadata() const override { return none_; }
  const GgufTexts& gguf_texts() const override { return no_texts_; }

 private:
  Json config_, none_;
  GgufTexts no_texts_;
  uint64_t seed_;
};

}  // namespace anabranch
