#include "state/sequence_state.h"

#include <utility>

#include "base/check.h"

namespace anabranch {
namespace {

uint64_t sum_recurrent(const StateLayout& layout, uint64_t (*of)(const ops::RecurrenceShape&)) {
  uint64_t bytes = 0;
  for (const auto& layer : layout) {
    if (const auto* shape = std::get_if<ops::RecurrenceShape>(&layer)) bytes += of(*shape);
  }
  return bytes;
}

// Of one position.
uint64_t kv_bytes(const KvLayout& kv, const Device& device) {
  const uint64_t rows = kv.value_dim > 0 ? 1 : 2;
  return rows * kv.kv_heads * kv.head_dim * anabranch::bytes_of(device.kv_dtype());
}

}  // namespace

uint64_t kv_bytes_per_token(const StateLayout& layout, const Device& device) {
  uint64_t bytes = 0;
  for (const auto& layer : layout) {
    const auto* kv = std::get_if<KvLayout>(&layer);
    if (kv && !is_windowed(*kv)) bytes += kv_bytes(*kv, device);
  }
  return bytes;
}

uint64_t fixed_bytes(const StateLayout& layout, const Device& device) {
  uint64_t windows = 0;
  for (const auto& layer : layout) {
    const auto* kv = std::get_if<KvLayout>(&layer);
    if (!kv || !is_windowed(*kv)) continue;
    // The window, the rest of its first block, and the tokens of a pass.
    const uint64_t positions = static_cast<uint64_t>(kv->window + kKvBlock + device.prefill_chunk());
    windows += positions * kv_bytes(*kv, device);
  }
  return windows + recurrent_bytes(layout);
}

uint64_t recurrent_bytes(const StateLayout& layout) {
  return sum_recurrent(layout, [](const ops::RecurrenceShape& d) -> uint64_t {
    return 4ull * d.value_heads * d.key_dim * d.value_dim + 4ull * (d.conv_kernel - 1) * d.conv_channels();
  });
}

uint64_t window_bytes(const StateLayout& layout) {
  return sum_recurrent(layout, [](const ops::RecurrenceShape& d) -> uint64_t {
    return 4ull * kMaxDraftTokens *
           (d.key_heads * d.key_dim + d.value_heads * (d.value_dim + d.decay_dim()) + d.conv_channels());
  });
}

SequenceState::SequenceState(Device& device, const StateLayout& layout)
    : SequenceState(std::vector<Device*>(layout.size(), &device), layout) {}

SequenceState::SequenceState(std::span<Device* const> devices, const StateLayout& layout) {
  CHECK(devices.size() == layout.size(), "{} devices for {} parts", devices.size(), layout.size());
  layers_.reserve(layout.size());
  for (size_t i = 0; i < layout.size(); i++) {
    const auto& layer = layout[i];
    if (const auto* kv = std::get_if<KvLayout>(&layer)) {
      AttentionState attention;
      attention.kv.kv_heads = kv->kv_heads;
      attention.kv.head_dim = kv->head_dim;
      attention.kv.value_dim = kv->value_dim;
      attention.window = is_windowed(*kv) ? kv->window : 0;
      layers_.emplace_back(std::move(attention));
    } else {
      const auto& shape = std::get<ops::RecurrenceShape>(layer);
      layers_.emplace_back(Recurrent{shape, ops::make_recurrence_state(*devices[i], shape)});
    }
  }
}

void SequenceState::open() {
  CHECK(!has_draft_, "a draft is open already");
  forget();
  has_draft_ = true;
}

void SequenceState::commit(int tokens) {
  CHECK(has_draft_ && tokens >= 0 && tokens <= open_, "{} of {} tokens cannot stay", tokens, open_);
  for (auto& layer : layers_) {
    if (auto* delta = std::get_if<Recurrent>(&layer)) {
      ops::recurrence_commit(delta->state, tokens);
      continue;
    }
    auto& kv = std::get<AttentionState>(layer).kv;
    if (kv.length <= length_) continue;  // layers that were skipped in the draft
    kv.length = length_ + tokens;        // keep blocks that a draft began: the next tokens need them
  }
  length_ += tokens;
  open_ = 0;
  has_draft_ = false;
  drop_unseen();
}

void SequenceState::advance(int tokens) {
  (has_draft_ ? open_ : length_) += tokens;
  if (!has_draft_ && remembered_ < 0) drop_unseen();
}

void SequenceState::forget() {
  if (remembered_ < 0) return;
  remembered_ = -1;
  drop_unseen();
  for (auto& layer : layers_)
    if (auto* delta = std::get_if<Recurrent>(&layer)) delta->before.reset();
}

// Keeping references to the tensors is enough: shared tensors are not changed in place.
void SequenceState::remember() {
  CHECK(!has_draft_, "a draft is open");
  forget();
  remembered_ = length_;
  for (auto& layer : layers_)
    if (auto* delta = std::get_if<Recurrent>(&layer)) {
      const auto& now = delta->state;
      delta->before = {now.s, now.conv, {}};
      if (now.window) delta->before->window.emplace().accepted = now.window->accepted;
    }
}

void SequenceState::take_back() {
  CHECK(!has_draft_ && remembered_ >= 0, "nothing was remembered");
  for (auto& layer : layers_) {
    if (auto* delta = std::get_if<Recurrent>(&layer)) {
      auto& before = *delta->before;
      delta->state.s = std::move(before.s);
      delta->state.conv = std::move(before.conv);
      if (delta->state.window) delta->state.window->accepted = before.window ? before.window->accepted : 0;
      delta->before.reset();
    } else {
      auto& kv = std::get<AttentionState>(layer).kv;
      kv.length -= length_ - remembered_;  // keep blocks that these tokens began: the next tokens need them
    }
  }
  length_ = std::exchange(remembered_, -1);
}

// Drops the blocks that a query at position length_ does not see: no later token needs them, as drafts begin
// at length_.
void SequenceState::drop_unseen() {
  for (auto& layer : layers_)
    if (auto* attention = std::get_if<AttentionState>(&layer); attention && attention->window > 0)
      ops::kv_drop_unseen(attention->kv, attention->window);
}

Snapshot SequenceState::snapshot() {
  Snapshot out;
  out.length = length_;
  begin_snapshot(out);
  for (size_t i = 0; i < layers_.size(); i++) snapshot_layer(static_cast<int>(i), out);
  return out;
}

void SequenceState::snapshot_layer(int layer, Snapshot& out, int later) {
  CHECK(!has_draft_, "a snapshot during a draft");
  auto& from = layers_.at(static_cast<size_t>(layer));
  auto& to = out.layers.at(static_cast<size_t>(layer));
  if (auto* delta = std::get_if<Recurrent>(&from)) {
    ops::recurrence_fold(delta->shape, delta->state);
    to = ops::RecurrenceState{delta->state.s, delta->state.conv, {}};
  } else {
    ops::PagedKv kv = std::get<AttentionState>(from).kv;
    ops::kv_truncate(kv, kv.length - later);  // also drops blocks that only a draft reached
    ops::kv_drop_unseen(kv, std::get<AttentionState>(from).window);
    to = std::move(kv);
  }
}

ops::RecurrenceState& SequenceState::snapshot_recurrent(int layer, Snapshot& out) {
  CHECK(!has_draft_, "a snapshot during a draft");
  return out.layers.at(static_cast<size_t>(layer)).emplace<ops::RecurrenceState>();
}

void SequenceState::restore(const Snapshot& snapshot) {
  CHECK(!has_draft_ && snapshot.layers.size() == layers_.size(), "a snapshot of {} layers for {}",
        snapshot.layers.size(), layers_.size());
  for (size_t i = 0; i < layers_.size(); i++) {
    if (auto* delta = std::get_if<Recurrent>(&layers_[i])) {
      const auto& from = std::get<ops::RecurrenceState>(snapshot.layers[i]);
      delta->state.s = from.s;
      delta->state.conv = from.conv;
      if (delta->state.window) delta->state.window->accepted = 0;
    } else {
      std::get<AttentionState>(layers_[i]).kv = std::get<ops::PagedKv>(snapshot.layers[i]);
    }
  }
  length_ = snapshot.length;
  remembered_ = -1;
}

AttentionState& SequenceState::attention(int layer) {
  auto* attention = std::get_if<AttentionState>(&layers_.at(layer));
  CHECK(attention, "layer {} keeps no keys and values", layer);
  return *attention;
}

ops::RecurrenceState& SequenceState::recurrent(int layer) {
  auto* delta = std::get_if<Recurrent>(&layers_.at(layer));
  CHECK(delta, "layer {} keeps no recurrent state", layer);
  return delta->state;
}

}  // namespace anabranch
