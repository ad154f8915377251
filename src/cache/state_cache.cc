#include "cache/state_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "state/kv_codec.h"

namespace anabranch {
namespace {

int whole_blocks(int tokens) {
  return tokens / kBlockTokens;
}

// The MTP head's first block that a point holds itself: the pairs of a block are complete one token later
// than the block, so each block's node holds those of the block before it.
int first_own_mtp_block(int length) {
  return std::max(0, whole_blocks(length) - 1);
}
int mtp_blocks(int length) {
  return (length - 1 + kBlockTokens - 1) / kBlockTokens;
}

ops::PagedKv empty_kv(const KvLayout& layout) {
  ops::PagedKv kv;
  kv.kv_heads = layout.kv_heads;
  kv.head_dim = layout.head_dim;
  return kv;
}

// Takes arrays one after the other, in the order they were put.
class Reader {
 public:
  Reader(Device& device, const std::vector<Tensor>& arrays, KvForm form)
      : device_(device), arrays_(arrays), form_(form) {}
  const Tensor& next() { return arrays_.at(at_++); }
  bool more() const { return at_ < arrays_.size(); }
  void block(ops::PagedKv& kv) {
    if (form_ == KvForm::q8) {
      ops::kv_add_block(device_, kv);
      kv.k.back() = decoded(KvPart::keys, kv.k.back());
      kv.v.back() = decoded(KvPart::values, kv.v.back());
    } else {
      kv.k.push_back(device_.to_device(next()));
      kv.v.push_back(device_.to_device(next()));
    }
  }

 private:
  // The next array, decoded to the form of `block`.
  Tensor decoded(KvPart part, const Tensor& block) {
    Tensor host = device_.empty_host(block.shape(), block.dtype());
    from_q8(next(), part, host, device_.threads());
    return device_.to_device(host);
  }

  Device& device_;
  const std::vector<Tensor>& arrays_;
  KvForm form_;
  size_t at_ = 0;
};

void put_block(std::vector<Tensor>& out, const ops::PagedKv& kv, int block, KvForm form) {
  const auto k = to_host(kv.k.at(block)), v = to_host(kv.v.at(block));
  ThreadPool& threads = kv.k.at(block).device().threads();
  out.push_back(form == KvForm::q8 ? to_q8(k, KvPart::keys, threads) : k);
  out.push_back(form == KvForm::q8 ? to_q8(v, KvPart::values, threads) : v);
}

void put_new_blocks(Device& device, std::vector<Tensor>& out, const std::vector<KvLayout>& layers, int count,
                    KvForm form) {
  for (const KvLayout& layer : layers) {
    ops::PagedKv kv = empty_kv(layer);
    for (int i = 0; i < count; i++) {
      ops::kv_add_block(device, kv);
      put_block(out, kv, i, form);
    }
  }
}

}  // namespace

// The arrays of a node's block, k and v in options_.kv's form, in this order: k and v of each attention
// layer, then of each MTP layer for the block before (none in the first block, nor when the MTP head did not
// follow). Of a checkpoint: S and conv of each gated-delta layer; k and v of the started block, if there is
// one, of each attention layer; if the MTP head followed, its hidden state and, of each of its layers, k and
// v of every block from first_own_mtp_block() on. docs/cache-format.md says the same.
struct StateCache::Piece {
  std::vector<Tensor> arrays;
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& array : arrays) sum += array.nbytes();
    return sum;
  }
};

// What a hit is made of.
struct StateCache::Plan {
  int length = 0;
  std::vector<PrefixTree::Node*> blocks;           // whole ones
  PrefixTree::Checkpoint* point = nullptr;         // null: the model needs none
  PrefixTree::Node* part_of = nullptr;             // what the rest of the last block is taken from, ...
  PrefixTree::Checkpoint* part_of_tail = nullptr;  // ... or this
};

// What a lookup found in the tree: of at most `most` tokens of a prompt, `shared` begin something that is
// kept (at_end: and end it there), and there is a state of `length`.
struct StateCache::Known {
  int most = 0, shared = 0, length = 0;
  bool at_end = false;
};

StateCache::StateCache(StateCacheOptions options) : options_(std::move(options)) {
  for (const auto& layer : options_.model) {
    if (const auto* kv = std::get_if<KvLayout>(&layer))
      attention_.push_back(*kv);
    else
      deltas_.push_back(std::get<ops::GatedDeltaShape>(layer));
  }
  for (const auto& layer : options_.mtp) mtp_attention_.push_back(std::get<KvLayout>(layer));
  any_token_ = deltas_.empty() && mtp_attention_.empty();
  stats_.kv = options_.kv;
  if (disk()) index(disk()->scan());
}

StateCache::~StateCache() = default;

void StateCache::index(const std::vector<RecordHead>& heads) {
  for (const RecordHead& head : heads) {
    PrefixTree::Node* parent =
        head.parent_length() == 0 ? &tree_.add_root(head.parent) : tree_.node(head.parent);
    if (!parent || parent->length != static_cast<int>(head.parent_length())) continue;
    if (head.kind == RecordKind::block)
      tree_.add_block(*parent, head.tokens, nullptr, 0).stored = true;
    else
      tree_.add_checkpoint(*parent, head.tokens, nullptr, 0).stored = true;
  }
}

// Without this the tree would grow by what every prompt leaves, long after the disk has evicted it. Not
// before a lookup, which counts what was lost.
void StateCache::forget_missing() {
  if (!disk()) return;
  for (const DiskRecord& record : disk()->take_missing()) {
    if (record.kind == RecordKind::block)
      tree_.not_stored(record.key);
    else
      tree_.not_stored(record.parent, record.key, static_cast<int>(record.length));
  }
}

// ---- arrays

std::vector<Tensor> StateCache::new_block(bool with_mtp) const {
  std::vector<Tensor> out;
  put_new_blocks(*options_.device, out, attention_, 1, options_.kv);
  if (with_mtp) put_new_blocks(*options_.device, out, mtp_attention_, 1, options_.kv);
  return out;
}

std::vector<Tensor> StateCache::new_point(int length, bool with_mtp) const {
  std::vector<Tensor> out;
  for (const auto& shape : deltas_) {
    auto state = ops::make_gated_delta_state(*options_.device, shape);
    out.push_back(to_host(state.s));
    out.push_back(to_host(state.conv));
  }
  if (length % kBlockTokens > 0) put_new_blocks(*options_.device, out, attention_, 1, options_.kv);
  if (!with_mtp) return out;
  out.push_back(host_device().empty({1, options_.mtp_hidden}, Dtype::f32));
  put_new_blocks(*options_.device, out, mtp_attention_, mtp_blocks(length) - first_own_mtp_block(length),
                 options_.kv);
  return out;
}

StateCache::PiecePtr StateCache::block_piece(const SavedState& state, int block) const {
  auto piece = std::make_shared<Piece>();
  for (const auto& layer : state.model.layers)
    if (const auto* kv = std::get_if<ops::PagedKv>(&layer)) put_block(piece->arrays, *kv, block, options_.kv);
  if (state.mtp && block > 0)
    for (const auto& layer : state.mtp->state.layers)
      put_block(piece->arrays, std::get<ops::PagedKv>(layer), block - 1, options_.kv);
  return piece;
}

StateCache::PiecePtr StateCache::point_piece(const SavedState& state) const {
  auto piece = std::make_shared<Piece>();
  const int length = state.model.length, blocks = whole_blocks(length);
  for (const auto& layer : state.model.layers)
    if (const auto* delta = std::get_if<ops::GatedDeltaState>(&layer)) {
      piece->arrays.push_back(to_host(delta->s));
      piece->arrays.push_back(to_host(delta->conv));
    }
  for (const auto& layer : state.model.layers) {
    const auto* kv = std::get_if<ops::PagedKv>(&layer);
    if (kv && length % kBlockTokens > 0) put_block(piece->arrays, *kv, blocks, options_.kv);
  }
  if (!state.mtp) return piece;
  piece->arrays.push_back(to_host(state.mtp->hidden));
  for (const auto& layer : state.mtp->state.layers)
    for (int b = first_own_mtp_block(length); b < mtp_blocks(length); b++)
      put_block(piece->arrays, std::get<ops::PagedKv>(layer), b, options_.kv);
  return piece;
}

// ---- disk

void StateCache::store(RecordHead head, const Piece& piece) {
  std::vector<Section> sections;
  for (const auto& array : piece.arrays) {
    auto owner = std::make_shared<Tensor>(array);
    sections.push_back({std::as_const(*owner).data<char>(), owner->nbytes(), owner});
  }
  disk()->put(std::move(head), std::move(sections));
}

RecordHead head_of(const PrefixTree::Node& node) {
  return {RecordKind::block, node.key, node.parent->key, static_cast<uint32_t>(node.length), node.tokens};
}
RecordHead head_of(const PrefixTree::Checkpoint& checkpoint) {
  return {RecordKind::checkpoint, next_key(checkpoint.node->key, checkpoint.tail), checkpoint.node->key,
          static_cast<uint32_t>(checkpoint.length()), checkpoint.tail};
}

// Fills `arrays` (of a record with the MTP head's part); null if it cannot be read.
StateCache::PiecePtr StateCache::read(const RecordHead& head, std::vector<Tensor> arrays) {
  const auto record = disk()->get(head);
  if (!record.ok()) {
    log_info("state cache: a record of {} tokens is lost: {}", head.length, record.error().message);
    return nullptr;
  }
  const auto& sections = record->sections;
  if (sections.size() > arrays.size()) return nullptr;
  auto piece = std::make_shared<Piece>();
  for (size_t i = 0; i < sections.size(); i++) {
    if (arrays[i].nbytes() != sections[i].size()) return nullptr;
    std::memcpy(arrays[i].data<char>(), sections[i].data(), sections[i].size());
    piece->arrays.push_back(std::move(arrays[i]));
  }
  return piece;
}

StateCache::PiecePtr StateCache::piece_of(PrefixTree::Node& node, Hit& hit) {
  if (node.data) return std::static_pointer_cast<const Piece>(node.data);
  hit.from_disk = true;
  auto piece = disk() ? read(head_of(node), new_block(node.length > kBlockTokens)) : nullptr;
  const size_t least = 2 * attention_.size();
  if (piece && piece->arrays.size() != least && piece->arrays.size() != least + 2 * mtp_attention_.size())
    piece = nullptr;
  if (piece)
    tree_.set_data(node, piece, piece->bytes());
  else
    tree_.remove(node);
  return piece;
}

StateCache::PiecePtr StateCache::piece_of(PrefixTree::Checkpoint& checkpoint, Hit& hit) {
  if (checkpoint.data) return std::static_pointer_cast<const Piece>(checkpoint.data);
  hit.from_disk = true;
  const int length = checkpoint.length();
  const bool mtp = !mtp_attention_.empty();
  auto piece = disk() ? read(head_of(checkpoint), new_point(length, mtp)) : nullptr;
  if (piece && piece->arrays.size() != new_point(length, false).size() &&
      piece->arrays.size() != new_point(length, mtp).size())
    piece = nullptr;
  if (piece)
    tree_.set_data(checkpoint, piece, piece->bytes());
  else
    tree_.remove(checkpoint);
  return piece;
}

// ---- finding

StateCache::Plan StateCache::plan(const PrefixTree::Found& found, int most) const {
  Plan plan;
  if (!found.node) return plan;
  for (PrefixTree::Node* at = found.node; at->parent; at = at->parent) plan.blocks.push_back(at);
  std::reverse(plan.blocks.begin(), plan.blocks.end());
  if (!any_token_) {
    plan.point = found.checkpoint;
    plan.length = found.checkpoint ? found.checkpoint->length() : 0;
    plan.blocks.resize(whole_blocks(plan.length));
    return plan;
  }
  plan.length = std::min(found.shared, most);
  plan.part_of = found.next;
  plan.part_of_tail = found.overhang;
  const size_t blocks = static_cast<size_t>(whole_blocks(plan.length));
  if (blocks < plan.blocks.size()) {  // all but the last token of a prompt that is known as a whole
    plan.part_of = plan.blocks[blocks];
    plan.blocks.resize(blocks);
  }
  return plan;
}

void StateCache::prefetch(const Plan& plan) const {
  if (!disk()) return;
  std::vector<RecordHead> heads;
  for (const PrefixTree::Node* block : plan.blocks)
    if (!block->data) heads.push_back(head_of(*block));
  if (plan.point && !plan.point->data) heads.push_back(head_of(*plan.point));
  if (heads.size() > 1) disk()->prefetch(heads);
}

// Reads what is not in memory. False when something cannot be read: it is forgotten then.
bool StateCache::assemble(const Plan& plan, Hit& hit) {
  std::vector<PiecePtr> blocks;
  bool mtp = !mtp_attention_.empty();
  hit.from_disk = false;
  hit.disk_tokens = 0;
  prefetch(plan);
  for (size_t i = 0; i < plan.blocks.size(); i++) {
    if (!plan.blocks[i]->data) hit.disk_tokens += kBlockTokens;
    blocks.push_back(piece_of(*plan.blocks[i], hit));
    if (!blocks.back()) return false;
    mtp = mtp && (i == 0 || blocks.back()->arrays.size() > 2 * attention_.size());
  }
  PiecePtr rest;
  const auto read_rest = [&](auto& owner) {
    if (!owner.data) hit.disk_tokens += plan.length % kBlockTokens;
    rest = piece_of(owner, hit);
  };
  if (plan.point)
    read_rest(*plan.point);
  else if (plan.length % kBlockTokens > 0)
    plan.part_of ? read_rest(*plan.part_of) : read_rest(*plan.part_of_tail);
  if (!rest && (plan.point || plan.length % kBlockTokens > 0)) return false;

  Snapshot& model = hit.state.model;
  model = {};
  model.length = plan.length;
  std::vector<Reader> readers;
  for (const auto& block : blocks) readers.emplace_back(*options_.device, block->arrays, options_.kv);
  static const std::vector<Tensor> nothing;
  Reader last(*options_.device, rest ? rest->arrays : nothing, options_.kv);
  std::vector<ops::GatedDeltaState> deltas;
  for (size_t i = 0; plan.point && i < deltas_.size(); i++) {
    const auto s = options_.device->to_device(last.next()), conv = options_.device->to_device(last.next());
    deltas.push_back({s, conv, {}});
  }
  size_t delta = 0;
  for (const auto& layer : options_.model) {
    if (!std::holds_alternative<KvLayout>(layer)) {
      model.layers.emplace_back(std::move(deltas.at(delta++)));
      continue;
    }
    ops::PagedKv kv = empty_kv(std::get<KvLayout>(layer));
    for (Reader& reader : readers) reader.block(kv);
    if (plan.length % kBlockTokens > 0) last.block(kv);
    kv.length = plan.length;
    model.layers.emplace_back(std::move(kv));
  }
  hit.length = plan.length;
  if (!mtp || !plan.point || !last.more()) return true;
  MtpSnapshot head{{plan.length - 1, {}}, options_.device->to_device(last.next())};
  for (const KvLayout& layer : mtp_attention_) {
    ops::PagedKv kv = empty_kv(layer);
    for (size_t i = 1; i < readers.size(); i++) readers[i].block(kv);
    for (int b = first_own_mtp_block(plan.length); b < mtp_blocks(plan.length); b++) last.block(kv);
    kv.length = plan.length - 1;
    head.state.layers.emplace_back(std::move(kv));
  }
  hit.state.mtp = std::move(head);
  return true;
}

StateCache::Hit StateCache::find(std::span<const int> prompt, std::string_view salt) {
  if (disk()) index(disk()->refresh());
  const PrefixKey root = root_key(options_.fingerprint, salt);
  const int most = static_cast<int>(prompt.size()) - 1;
  Hit hit;
  std::optional<Known> known;  // before anything turned out to be lost
  for (;;) {
    const auto found = tree_.find(root, prompt, most);
    const Plan chosen = plan(found, most);
    hit.shared = std::min(found.shared, most);
    if (!known)
      known = {most, hit.shared, chosen.length, found.checkpoint && found.checkpoint->length() == hit.shared};
    if (chosen.length == 0) break;
    if (!assemble(chosen, hit)) continue;  // less is known now
    used(chosen);
    break;
  }
  note(*known, hit);
  tree_.evict(options_.ram_bytes);
  return hit;
}

// So that it is not the next to go, in memory and on disk.
void StateCache::used(const Plan& plan) {
  if (plan.point) tree_.use(*plan.point);
  if (plan.part_of_tail) tree_.use(*plan.part_of_tail);
  if (any_token_ && !plan.blocks.empty()) tree_.use(*plan.blocks.back());
  if (plan.part_of) tree_.use(*plan.part_of);
  if (!disk()) return;
  std::vector<PrefixKey> keys;
  if (plan.point) keys.push_back(head_of(*plan.point).key);
  if (plan.part_of_tail) keys.push_back(head_of(*plan.part_of_tail).key);
  if (plan.part_of) keys.push_back(plan.part_of->key);
  for (auto it = plan.blocks.rbegin(); it != plan.blocks.rend(); ++it) keys.push_back((*it)->key);
  disk()->used(keys);
}

void StateCache::note(const Known& known, Hit& hit) {
  const int fresh = known.most - known.shared, no_state = known.shared - known.length,
            lost = known.length - hit.length;
  hit.lost = lost > 0;
  stats_.lookups++;
  stats_.prompt_tokens += static_cast<uint64_t>(known.most) + 1;
  stats_.cached_tokens += static_cast<uint64_t>(hit.length);
  stats_.disk_tokens += static_cast<uint64_t>(hit.disk_tokens);
  stats_.ram_tokens += static_cast<uint64_t>(hit.length - hit.disk_tokens);
  stats_.no_state_tokens += static_cast<uint64_t>(no_state);
  stats_.lost_tokens += static_cast<uint64_t>(lost);
  if (hit.length > 0) (hit.from_disk ? stats_.disk_hits : stats_.ram_hits)++;
  CacheMisses& misses = stats_.misses;
  if (hit.length == known.most) {
    hit.miss.clear();
  } else if (lost > 0 && lost >= std::max(fresh, no_state)) {
    misses.lost++;
    hit.miss = fmt::format("a state of {} tokens was known, but cannot be read any more", known.length);
  } else if (known.shared == 0) {
    misses.nothing_alike++;
    hit.miss = "nothing that is kept begins like it";
  } else if (no_state > fresh) {
    misses.no_state++;
    hit.miss = fmt::format("its first {} tokens are known, but the last state among them is of {}",
                           known.shared, known.length);
  } else if (known.at_end) {
    misses.new_text++;
    hit.miss = fmt::format("what is kept ends at token {}", known.shared);
  } else {
    misses.differs++;
    hit.miss = fmt::format("it differs from what is kept at token {}; the last state before that is of {}",
                           known.shared, known.length);
  }
  stats_.last_miss = hit.miss;
}

// ---- keeping

void StateCache::keep(std::span<const int> tokens, std::string_view salt, const SavedState& state) {
  const int length = state.model.length;
  CHECK(length == static_cast<int>(tokens.size()), "a state of {} tokens for {}", length, tokens.size());
  if (length == 0) return;
  forget_missing();
  PrefixTree::Node* at = &tree_.add_root(root_key(options_.fingerprint, salt));
  for (int b = 0; b < whole_blocks(length); b++) {
    at = &tree_.add_block(*at, tokens.subspan(static_cast<size_t>(b) * kBlockTokens, kBlockTokens), nullptr,
                          0);
    if (at->data && at->stored) continue;
    const auto piece = at->data ? std::static_pointer_cast<const Piece>(at->data) : block_piece(state, b);
    if (!at->data) tree_.set_data(*at, piece, piece->bytes());
    if (!disk() || at->stored) continue;
    store(head_of(*at), *piece);
    at->stored = true;  // or lost on the way, which is found out when it is read
  }
  const auto tail = tokens.subspan(static_cast<size_t>(whole_blocks(length)) * kBlockTokens);
  auto& checkpoint = tree_.add_checkpoint(*at, tail, nullptr, 0);
  if (!checkpoint.data) {
    const auto piece = point_piece(state);
    tree_.set_data(checkpoint, piece, piece->bytes());
    if (disk() && !checkpoint.stored) {
      store(head_of(checkpoint), *piece);
      checkpoint.stored = true;
    }
  }
  tree_.use(checkpoint);
  if (any_token_) tree_.use(*at);
  tree_.evict(options_.ram_bytes);
}

void StateCache::set_ram_budget(uint64_t bytes) {
  options_.ram_bytes = bytes;
  tree_.evict(bytes);
}

StateCacheStats StateCache::stats() const {
  StateCacheStats stats = stats_;
  stats.ram_bytes = tree_.bytes();
  stats.blocks = tree_.nodes();
  stats.points = tree_.checkpoints();
  if (!disk()) return stats;
  DiskStats on_disk = disk()->stats();
  stats.on_disk = true;
  stats.disk_writable = on_disk.writable;
  stats.disk_bytes = on_disk.bytes;
  stats.disk_budget_bytes = on_disk.budget_bytes;
  stats.disk_written_bytes = on_disk.written_bytes;
  stats.disk_dropped = on_disk.dropped;
  stats.disk_failed = on_disk.failed;
  stats.disk_corrupt = on_disk.corrupt;
  stats.disk_evicted = on_disk.evicted;
  stats.disk_last_reason = std::move(on_disk.last_reason);
  return stats;
}

}  // namespace anabranch
