// A GGUF file from memory, of a model or of a vision tower: metadata, directory, config, names, row orders;
// then every value is read.
#include <cstdlib>
#include <memory>

#include "checkpoint/dense.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/gguf_vision.h"

using namespace anabranch;

static void read_all(Result<StoreParts> parts) {
  if (!parts.ok()) return;
  for (const Entry& entry : parts->entries) {
    std::vector<float> row(entry.source.cols);
    for (int64_t r = 0; r < entry.source.rows; r++) read_values(entry.source, r, 1, row.data());
  }
  (void)make_store(std::move(*parts));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own, so that a read past the end is caught.
  const auto copy = std::make_shared<std::vector<uint8_t>>(data, data + size);
  const FileBytes file{"x.gguf", std::as_bytes(std::span(*copy)), copy};
  read_all(read_gguf({file}));
  read_all(read_mmproj(file));
  return 0;
}
