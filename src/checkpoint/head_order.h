// Orders of rows and heads that differ between Hugging Face and GGUF or Mistral's own files.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace anabranch {

// GGUF (of llama) and Mistral's own files store query and key rows for interleaved rotary pairs: row (head,
// i, p) of the file is row (head, p, i) of Hugging Face, p in {0, 1}, i in [0, dim / 2). result[i] is the
// file's row for row i of Hugging Face.
inline std::vector<int64_t> rotary_order(int64_t heads, int64_t dim) {
  std::vector<int64_t> order;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t p = 0; p < 2; p++)
      for (int64_t i = 0; i < dim / 2; i++) order.push_back(h * dim + 2 * i + p);
  return order;
}

// The value heads of qwen35: Hugging Face has them by key head, (key head, j); GGUF has (j, key head).
// result[i] is the file's row for row i of Hugging Face. Heads have `width` rows; the `before` rows in front
// of them stay.
inline std::vector<int64_t> value_head_order(int64_t key_heads, int64_t value_heads, int64_t width,
                                             int64_t before) {
  std::vector<int64_t> order(static_cast<size_t>(before));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t k = 0; k < key_heads; k++)
    for (int64_t j = 0; j < value_heads / key_heads; j++)
      for (int64_t d = 0; d < width; d++) order.push_back(before + (j * key_heads + k) * width + d);
  return order;
}

// order[result[i]] == i.
inline std::vector<int64_t> inverse_order(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); i++) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

}  // namespace anabranch
