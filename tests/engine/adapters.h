// Random LoRA adapters for tiny models, and models into which they are merged.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"
#include "checkpoint/checkpoint.h"
#include "engine/tiny_model.h"

namespace anabranch::testing {

// The modules that adapters may change: projections of attention, of linear recurrences and of dense MLPs.
inline bool adapts(const std::string& tensor) {
  if (!tensor.ends_with("proj.weight") && tensor.find("linear_attn.in_proj_") == std::string::npos)
    return false;
  if (!tensor.ends_with(".weight") || tensor.find("layers.") == std::string::npos) return false;
  for (const char* other : {"mtp.", "visual.", "expert", "switch_mlp", "per_layer", "router", "kv_b_proj"})
    if (tensor.find(other) != std::string::npos) return false;
  return true;
}

struct LowRankValues {
  int64_t out = 0, in = 0;
  std::vector<float> down, up;  // [rank, in], [out, rank]
};

// An adapter of random values.
class RandomAdapter {
 public:
  // strength: about how large the changes are, compared with the model's weights. without: parts of the names
  // of modules that it leaves out.
  RandomAdapter(const TinyModel& model, unsigned seed, int rank, float strength = 0.3f,
                const std::vector<std::string>& without = {})
      : rank_(rank) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto checkpoint = Checkpoint::open(model.path());
    for (const TensorInfo& tensor : (*checkpoint)->tensors()) {
      const auto is_part = [&](const std::string& part) { return tensor.name.find(part) != part.npos; };
      if (!adapts(tensor.name) || std::ranges::any_of(without, is_part)) continue;
      LowRankValues values{tensor.shape.at(0), tensor.shape.at(1), {}, {}};
      for (int64_t i = 0; i < rank * values.in; i++)
        values.down.push_back(normal(random) / std::sqrt(static_cast<float>(values.in)));
      for (int64_t i = 0; i < values.out * rank; i++)
        values.up.push_back(strength * normal(random) / std::sqrt(static_cast<float>(rank)));
      modules_.emplace(tensor.name, std::move(values));
    }
    const auto bytes = [](const std::vector<float>& values) {
      return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    };
    SafetensorsWriter out;
    for (const auto& [name, values] : modules_) {
      const std::string module = "base_model.model." + name.substr(0, name.size() - std::strlen(".weight"));
      out.add(module + ".lora_A.weight", "F32", {rank, values.in}, bytes(values.down));
      out.add(module + ".lora_B.weight", "F32", {values.out, rank}, bytes(values.up));
    }
    dir_.write("adapter_model.safetensors", out.bytes());
    const Json config = {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", kScale * rank}, {"bias", "none"}};
    dir_.write("adapter_config.json", config.dump());
  }
  std::string path() const { return dir_.path(); }
  size_t modules() const { return modules_.size(); }

  // Adds it to the model's weights, which become f32.
  void merge_into(const TinyModel& model, float scale = 1) const {
    model.edit_types([&](const std::string& name, std::string& dtype, std::vector<int64_t>&,
                         std::string& bytes) {
      const size_t layers = name.find("layers.");  // names in files may have a longer beginning
      const auto at = layers == name.npos ? modules_.end() : modules_.find("model." + name.substr(layers));
      if (at == modules_.end()) return;
      const LowRankValues& values = at->second;
      std::vector<float> weights(static_cast<size_t>(values.out * values.in));
      for (size_t i = 0; i < weights.size(); i++) {
        uint16_t half = 0;
        if (dtype == "F32")
          std::memcpy(&weights[i], bytes.data() + 4 * i, 4);
        else
          std::memcpy(&half, bytes.data() + 2 * i, 2);
        if (dtype != "F32") weights[i] = dtype == "BF16" ? bf16_to_float(half) : f16_to_float(half);
      }
      for (int64_t o = 0; o < values.out; o++)
        for (int64_t i = 0; i < values.in; i++) {
          double sum = 0;
          for (int64_t r = 0; r < rank_; r++)
            sum += double{values.up[static_cast<size_t>(o * rank_ + r)]} *
                   values.down[static_cast<size_t>(r * values.in + i)];
          weights[static_cast<size_t>(o * values.in + i)] += static_cast<float>(scale * kScale * sum);
        }
      dtype = "F32";
      bytes.assign(reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float));
    });
  }

 private:
  static constexpr float kScale = 2;  // alpha / rank
  int rank_;
  std::map<std::string, LowRankValues> modules_;  // by the weight's name
  TempDir dir_;
};

inline AppliedAdapter load(Engine& engine, const RandomAdapter& adapter, float scale = 1) {
  auto loaded = engine.load_adapter(adapter.path());
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return {loaded.ok() ? *loaded : nullptr, scale};
}

inline Request with(Request request, std::vector<AppliedAdapter> adapters) {
  request.cache_salt = adapter_salt(adapters) + request.cache_salt;
  request.adapters = std::move(adapters);
  return request;
}

}  // namespace anabranch::testing
