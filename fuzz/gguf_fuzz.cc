// A GGUF file from memory: metadata, directory, config, names, row orders; then every value is read.
#include <cstdlib>
#include <memory>

#include "checkpoint/dense.h"
#include "checkpoint/gguf_model.h"

using namespace anabranch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own, so that a read past the end is caught.
  const auto copy = std::make_shared<std::vector<uint8_t>>(data, data + size);
  auto parts = read_gguf({"x.gguf", std::as_bytes(std::span(*copy)), copy});
  if (!parts.ok()) return 0;
  for (const Entry& entry : parts->entries) {
    std::vector<float> row(entry.source.cols);
    for (int64_t r = 0; r < entry.source.rows; r++) read_values(entry.source, r, 1, row.data());
  }
  (void)make_store(std::move(*parts));
  return 0;
}
