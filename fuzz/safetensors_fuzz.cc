// A safetensors file, and the index beside it, from memory: header, quantised modules of every layout, names;
// then every value is read.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "checkpoint/dense.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_model.h"

using namespace anabranch;

static void read_all(const Json& config, const std::shared_ptr<std::vector<uint8_t>>& bytes) {
  auto entries =
      read_safetensors(config, "config.json", {{"x.safetensors", std::as_bytes(std::span(*bytes)), bytes}});
  if (!entries.ok()) return;
  for (Entry& entry : *entries) {
    if (entry.unreadable) continue;
    std::vector<float> row(entry.source.cols);
    for (int64_t r = 0; entry.source.cols > 0 && r < entry.source.rows; r++)
      read_values(entry.source, r, 1, row.data());
  }
  (void)make_store({"x", "", config, Json(), std::move(*entries)});
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Json kConfigs[] = {
      {{"quantization", {{"group_size", 32}, {"bits", 4}, {"m", {{"bits", 3}}}, {"n", {{"mode", "mxfp4"}}}}}},
      {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}}},
      {{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}}};
  // A copy of its own, so that a read past the end is caught.
  const auto copy = std::make_shared<std::vector<uint8_t>>(data, data + size);
  for (const Json& config : kConfigs) read_all(config, copy);
  (void)parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "index.json");
  return 0;
}
