// Rows of logits and ways to sample, for which a device chooses the tokens that the host samples.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "decode/sampler.h"
#include "tensor/device.h"

namespace anabranch::testing {

inline std::vector<SamplingParams> ways_to_sample() {
  std::vector<SamplingParams> ways = {
      {},
      {.temperature = 1.0f},
      {.temperature = 0.7f, .min_p = 0.05f},
      {.temperature = 2.5f, .top_k = 64, .top_p = 0.9f},
      {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f, .min_p = 0.02f},
      {.temperature = 1.0f, .top_k = 2},
      {.temperature = 9.0f, .top_k = 40},
      {.temperature = 30.0f},
      {.temperature = 0.01f, .top_k = 50, .top_p = 0.5f},
      {.temperature = 1.3f, .top_k = 1},
  };
  for (size_t i = 0; i < ways.size(); i++) ways[i].seed = 0x1234567890ull * (i + 1);
  return ways;
}

// Of several shapes; some have equal numbers, zeros of both signs, what masks leave, and no numbers.
inline std::vector<float> row_of_logits(int kind, int vocab, std::mt19937& random) {
  std::normal_distribution<float> normal(0, kind % 3 == 0 ? 0.3f : 3.0f);
  std::vector<float> row(static_cast<size_t>(vocab));
  for (float& x : row)
    x = kind == 1 ? std::round(normal(random)) : kind == 2 ? 0.0f * normal(random) : normal(random);
  if (kind == 4)
    for (size_t i = 0; i < row.size(); i++)
      if (i % 97 != 5) row[i] = -INFINITY;
  if (kind == 5) std::sort(row.begin(), row.end());
  if (kind == 6) row[row.size() / 3] = NAN;
  if (kind == 7) row.back() = INFINITY;
  return row;
}

inline void expect_choices_of_the_host(Device& device, int vocab, int kinds = 8) {
  std::mt19937 random(static_cast<unsigned>(vocab));
  std::vector<std::vector<float>> rows;
  std::vector<SamplingParams> params;
  std::vector<ops::RowSampling> choices;
  const auto ways = ways_to_sample();
  for (int kind = 0; kind < kinds; kind++)
    for (const SamplingParams& way : ways) {
      rows.push_back(row_of_logits(kind, vocab, random));
      params.push_back(way);
      choices.push_back(row_sampling(way, 17 + rows.size() * 1000));
    }
  choices[3].kind = ops::RowSampling::Kind::none;
  Tensor host = device.empty_host({static_cast<int>(rows.size()), vocab}, Dtype::f32);
  for (size_t i = 0; i < rows.size(); i++)
    std::copy(rows[i].begin(), rows[i].end(), host.data<float>() + i * static_cast<size_t>(vocab));
  const auto chosen = ops::choose_tokens(device.to_device(host), choices);
  ASSERT_TRUE(chosen);
  const std::vector<int> tokens = chosen->wait();
  for (size_t i = 0; i < rows.size(); i++) {
    SCOPED_TRACE(::testing::Message() << "vocab " << vocab << ", row " << i);
    const bool numbers = i / ways.size() < 6 && i != 3;
    EXPECT_EQ(tokens[i], numbers ? sample(rows[i], params[i], {}, choices[i].position) : -1);
  }
}

}  // namespace anabranch::testing
