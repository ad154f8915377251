#pragma once
// States of small models, made of numbers that follow from their tokens, and caches in a directory of the
// test's own.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cache/disk_tools.h"
#include "cache/records.h"
#include "cache/state_cache.h"
#include "ops/testing.h"
#include "state/state_bits.h"

namespace anabranch::state_cache_tests {

using namespace anabranch::testing;
using Tokens = std::vector<int>;

constexpr int kHidden = 24;
const ops::RecurrenceShape kDelta{
    .key_heads = 1, .value_heads = 2, .key_dim = 8, .value_dim = 8, .conv_kernel = 4};

struct Layers {
  StateLayout model, mtp;
};
inline const Layers kHybrid{{kDelta, KvLayout{2, 24}, kDelta, KvLayout{1, 16}}, {KvLayout{1, 16}}};
inline const Layers kAttention{{KvLayout{2, 24}, KvLayout{1, 16}}, {}};
// Windows that are kept in the snapshots: beside full attention, and alone.
inline const Layers kWindows{{KvLayout{2, 24}, KvLayout{1, 16, 300}, KvLayout{1, 16, 1}}, {}};
inline const Layers kOnlyWindows{{KvLayout{1, 16, 40}}, {}};

inline Device& device() {
  return ops::cpu_device(1);
}

inline Tokens text(int seed, int count) {
  ops::Random random(static_cast<uint64_t>(seed) + 100);
  Tokens tokens(static_cast<size_t>(count));
  for (int& token : tokens) token = random.below(1000);
  return tokens;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Tokens first(const Tokens& tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

// A number for each prefix of `tokens`, from that of one token on.
inline std::vector<uint64_t> hashes(const Tokens& tokens) {
  std::vector<uint64_t> out;
  uint64_t hash = 1;
  for (const int token : tokens)
    out.push_back(hash = hash * 6364136223846793005u + static_cast<uint64_t>(token) + 1);
  return out;
}

inline Tensor random_array(uint64_t seed, const Shape& shape) {
  return device().to_device(ops::to_tensor(ops::Random(seed).vector(shape.count()), shape));
}

// Keys and values whose rows follow from the prefixes that end there.
inline ops::PagedKv kv_of(const KvLayout& layout, std::span<const uint64_t> prefixes, uint64_t layer) {
  ops::PagedKv kv{layout.kv_heads, layout.head_dim, 0, {}, {}};
  if (prefixes.empty()) return kv;
  const Shape shape{static_cast<int>(prefixes.size()), layout.kv_heads, layout.head_dim};
  std::vector<float> k, v;
  for (const uint64_t prefix : prefixes) {
    ops::Random random(prefix + layer);
    for (std::vector<float>* to : {&k, &v})
      for (const float x : random.vector(int64_t{layout.kv_heads} * layout.head_dim)) to->push_back(x);
  }
  ops::kv_append(kv, device().to_device(ops::to_tensor(k, shape)),
                 device().to_device(ops::to_tensor(v, shape)));
  ops::kv_drop_unseen(kv, is_windowed(layout) ? layout.window : 0);
  return kv;
}

// The state after `tokens`.
inline SavedState state_of(const Layers& layers, const Tokens& tokens, bool with_mtp = true) {
  const auto prefixes = hashes(tokens);
  SavedState state;
  state.model.length = static_cast<int>(tokens.size());
  for (uint64_t i = 0; i < layers.model.size(); i++) {
    if (const auto* kv = std::get_if<KvLayout>(&layers.model[i])) {
      state.model.layers.emplace_back(kv_of(*kv, prefixes, i));
      continue;
    }
    const auto& shape = std::get<ops::RecurrenceShape>(layers.model[i]);
    const uint64_t seed = prefixes.back() + i;
    state.model.layers.emplace_back(
        ops::RecurrenceState{random_array(seed, {shape.value_heads, shape.key_dim, shape.value_dim}),
                             random_array(seed + 50, {shape.conv_kernel - 1, shape.conv_channels()}),
                             {}});
  }
  if (layers.mtp.empty() || !with_mtp) return state;
  state.mtp = MtpSnapshot{{state.model.length - 1, {}}, random_array(prefixes.back(), {1, kHidden})};
  for (uint64_t i = 0; i < layers.mtp.size(); i++)
    state.mtp->state.layers.emplace_back(
        kv_of(std::get<KvLayout>(layers.mtp[i]), std::span(prefixes).subspan(1), 100 + i));
  return state;
}

inline ::testing::AssertionResult same(const SavedState& a, const SavedState& b) {
  if (const auto model = same_state(a.model, b.model); !model) return model;
  if (a.mtp.has_value() != b.mtp.has_value())
    return ::testing::AssertionFailure() << "only one of them has the MTP head's part";
  if (!a.mtp) return ::testing::AssertionSuccess();
  if (testing::bytes_of(a.mtp->hidden) != testing::bytes_of(b.mtp->hidden))
    return ::testing::AssertionFailure() << "the hidden state differs";
  return same_state(a.mtp->state, b.mtp->state);
}

class StateCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<StateCache> open(const Layers& layers, bool on_disk, KvFormat kv = KvFormat::exact) {
    StateCacheOptions options;
    options.device = &device();
    options.model = layers.model;
    options.mtp = layers.mtp;
    options.mtp_hidden = kHidden;
    options.fingerprint = kFingerprint;
    options.kv = kv;
    options.ram_bytes = 1ull << 30;
    if (on_disk) options.disk = open_store(directory_.path(), change_disk_);
    options.disk_worth_s = disk_worth_s_;
    return std::make_unique<StateCache>(std::move(options));
  }
  // Keeps the states after these prefixes of `tokens` on disk, and closes the cache.
  void keep_on_disk(const Layers& layers, const Tokens& tokens, const std::vector<int>& lengths) {
    const auto cache = open(layers, true);
    for (const int length : lengths)
      cache->keep(first(tokens, length), "", state_of(layers, first(tokens, length)));
    cache->disk()->drain();
  }
  // Writes the record of so many tokens anew, with other sections.
  void rewrite(uint32_t length, RecordKind kind, const std::function<void(std::vector<Section>&)>& change) {
    for (const DiskRecord& file : listed(directory_.path())) {
      if (file.length != length || file.kind != kind) continue;
      const std::string path = record_path(directory_.path(), file), bytes = read_bytes(path);
      const auto record = parse_record(std::as_bytes(std::span(bytes)), kFingerprint, nullptr);
      ASSERT_TRUE(record.ok());
      std::vector<Section> sections;
      for (const auto& [tag, data] : record->sections)
        sections.push_back({tag, data.data(), data.size(), nullptr});
      change(sections);
      write_bytes(path, record_bytes(kFingerprint, record->head, sections));
      return;
    }
    FAIL() << "no record of " << length << " tokens";
  }

  TemporaryDirectory directory_;
  double disk_worth_s_ = 0;
  std::function<void(DiskOptions&)> change_disk_;
};

}  // namespace anabranch::state_cache_tests
