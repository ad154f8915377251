// A safetensors file, and the index beside it, from memory: header, MLX triples, names; then every value is
// read.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "checkpoint/dense.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_model.h"

using namespace anabranch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Json config{{"quantization", {{"group_size", 32}, {"bits", 4}, {"m", {{"bits", 3}}}}}};
  // A copy of its own, so that a read past the end is caught.
  const auto copy = std::make_shared<std::vector<uint8_t>>(data, data + size);
  auto entries =
      read_safetensors(config, "config.json", {{"x.safetensors", std::as_bytes(std::span(*copy)), copy}});
  if (entries.ok()) {
    for (Entry& entry : *entries) {
      if (entry.unreadable) continue;
      std::vector<float> row(entry.source.cols);
      for (int64_t r = 0; entry.source.cols > 0 && r < entry.source.rows; r++)
        read_values(entry.source, r, 1, row.data());
    }
    (void)make_store({"x", "", config, Json(), std::move(*entries)});
  }
  (void)parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "index.json");
  return 0;
}
