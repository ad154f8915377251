// The order of rows that rotary positions ask for.
#pragma once

#include <cstdint>
#include <vector>

namespace anabranch {

// GGUF (of llama) and Mistral's own files store query and key rows for interleaved rotary pairs: row (head,
// i, p) of the file is row (head, p, i) of Hugging Face, p in {0, 1}, i in [0, dim / 2). The result has the
// file's row of each of Hugging Face's.
inline std::vector<int64_t> rotary_order(int64_t heads, int64_t dim) {
  std::vector<int64_t> order;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t p = 0; p < 2; p++)
      for (int64_t i = 0; i < dim / 2; i++) order.push_back(h * dim + 2 * i + p);
  return order;
}

}  // namespace anabranch
