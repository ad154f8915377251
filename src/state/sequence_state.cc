#include "state/sequence_state.h"

#include "base/check.h"

namespace anabranch {

uint64_t kv_bytes_per_token(const StateLayout& layout) {
  const uint64_t element = ops::precise() ? 4 : 2;
  uint64_t bytes = 0;
  for (const auto& layer : layout) {
    if (const auto* kv = std::get_if<KvLayout>(&layer)) bytes += 2ull * kv->kv_heads * kv->head_dim * element;
  }
  return bytes;
}

uint64_t fixed_bytes(const StateLayout& layout) {
  uint64_t bytes = 0;
  for (const auto& layer : layout) {
    const auto* d = std::get_if<ops::GatedDeltaShape>(&layer);
    if (!d) continue;
    bytes += 4ull * d->value_heads * d->key_dim * d->value_dim;
    bytes += 4ull * (d->conv_kernel - 1) * d->conv_channels();
  }
  return bytes;
}

SequenceState::SequenceState(const StateLayout& layout) {
  layers_.reserve(layout.size());
  for (const auto& layer : layout) {
    if (const auto* kv = std::get_if<KvLayout>(&layer)) {
      ops::PagedKv pages;
      pages.kv_heads = kv->kv_heads;
      pages.head_dim = kv->head_dim;
      layers_.emplace_back(std::move(pages));
    } else {
      layers_.emplace_back(ops::make_gated_delta_state(std::get<ops::GatedDeltaShape>(layer)));
    }
  }
}

ops::PagedKv& SequenceState::kv(int layer) {
  auto* kv = std::get_if<ops::PagedKv>(&layers_.at(layer));
  CHECK(kv, "layer {} keeps no keys and values", layer);
  return *kv;
}

ops::GatedDeltaState& SequenceState::delta(int layer) {
  auto* delta = std::get_if<ops::GatedDeltaState>(&layers_.at(layer));
  CHECK(delta, "layer {} keeps no recurrent state", layer);
  return *delta;
}

}  // namespace anabranch
