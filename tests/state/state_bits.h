// Shared by tests that compare sequences' states bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "state/sequence_state.h"
#include "tensor/device.h"

namespace anabranch::testing {

inline std::string bytes_of(const Tensor& on_device) {
  const Tensor x = to_host(on_device);
  return std::string(x.data<char>(), x.nbytes());
}

// Keys and values of the positions filled, whatever lies beyond them (CPU layout, ops/cpu/attention.h).
inline std::string bytes_of(const ops::PagedKv& kv) {
  constexpr int kTile = 16;
  std::string out;
  if (kv.k.empty()) return out;
  const int size = static_cast<int>(anabranch::bytes_of(kv.k.back().dtype())), d = kv.head_dim,
            tiles = (d + kTile - 1) / kTile;
  for (int p = 0; p < kv.length; p++) {
    if (kv.k.at(p / ops::kKvBlock).empty()) {  // dropped
      out += '-';
      continue;
    }
    const char* k = kv.k.at(p / ops::kKvBlock).data<char>();
    const Tensor& values = kv.v.at(p / ops::kKvBlock);
    const char* v = values.empty() ? nullptr : values.data<char>();  // those of latents are in the keys
    const int at = p % ops::kKvBlock;
    for (int h = 0; h < kv.kv_heads; h++)
      for (int i = 0; i < d; i++) {
        const int k_at = (h * ops::kKvBlock / kTile + at / kTile) * d * kTile + i * kTile + at % kTile;
        const int v_at = ((h * tiles + i / kTile) * ops::kKvBlock + at) * kTile + i % kTile;
        out.append(k + k_at * size, size);
        if (v) out.append(v + v_at * size, size);
      }
  }
  return out;
}

// Everything that the next token depends on.
using StateBytes = std::vector<std::string>;
inline StateBytes bytes_of(const Snapshot& snapshot) {
  StateBytes out = {std::to_string(snapshot.length)};
  for (const auto& layer : snapshot.layers) {
    if (const auto* kv = std::get_if<ops::PagedKv>(&layer)) {
      EXPECT_EQ(kv->length, snapshot.length);
      EXPECT_EQ(kv->k.size(), static_cast<size_t>((kv->length + ops::kKvBlock - 1) / ops::kKvBlock));
      out.push_back(bytes_of(*kv));
      continue;
    }
    const auto& delta = std::get<ops::RecurrenceState>(layer);
    EXPECT_FALSE(delta.window.has_value()) << "a snapshot holds no window";
    out.push_back(bytes_of(delta.s));
    out.push_back(bytes_of(delta.conv));
  }
  return out;
}

// Not ASSERT_EQ: the bytes say nothing in print.
inline ::testing::AssertionResult same_state(const StateBytes& x, const StateBytes& y) {
  if (x.size() != y.size()) return ::testing::AssertionFailure() << "other layers";
  if (x[0] != y[0]) return ::testing::AssertionFailure() << "lengths " << x[0] << " and " << y[0];
  for (size_t i = 1; i < x.size(); i++)
    if (x[i] != y[i])
      return ::testing::AssertionFailure() << "part " << i << " of " << x.size() << " differs";
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult same_state(const Snapshot& a, const Snapshot& b) {
  return same_state(bytes_of(a), bytes_of(b));
}

}  // namespace anabranch::testing
