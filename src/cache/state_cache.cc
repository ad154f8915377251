#include "cache/state_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace anabranch {
namespace {

int whole_blocks(int tokens) {
  return tokens / kBlockTokens;
}

// Returns the first of the MTP head's blocks that a snapshot holds itself. (The head's pairs of a block are
// complete only one token after the block, so the node of block b holds the head's block b - 1.)
int first_own_mtp_block(int length) {
  return std::max(0, whole_blocks(length) - 1);
}
int mtp_blocks(int length) {
  return (length - 1 + kBlockTokens - 1) / kBlockTokens;
}

// Whether the layer is attention without a window: its KV blocks are shared by all sequences that begin with
// the same tokens.
bool has_shared_blocks(const LayerLayout& layer) {
  const auto* kv = std::get_if<KvLayout>(&layer);
  return kv && !is_windowed(*kv);
}

// The blocks of a layer that a snapshot of `length` tokens holds: those of a window, or the last partial
// one.
struct BlockRange {
  int begin = 0, end = 0;
};
BlockRange own_blocks(const LayerLayout& layer, int length) {
  const int end = (length + kBlockTokens - 1) / kBlockTokens;
  const auto* kv = std::get_if<KvLayout>(&layer);
  if (!kv) return {};
  return {is_windowed(*kv) ? ops::first_block_seen(length, kv->window) : whole_blocks(length), end};
}

// The most sections that a record of states with this format can have.
size_t most_sections(const SectionFormat& format) {
  size_t block = 2 * format.mtp.size(), snapshot = 1 + 4 * format.mtp.size();
  for (const LayerLayout& layer : format.model) {
    const auto* kv = std::get_if<KvLayout>(&layer);
    if (has_shared_blocks(layer)) block += 2;
    const int blocks = kv && is_windowed(*kv) ? (kv->window + kBlockTokens - 2) / kBlockTokens + 1 : 1;
    snapshot += 2 * static_cast<size_t>(blocks);
  }
  return std::max(block, snapshot);
}

const StateSections& sections_in(const PrefixTree::Data& data) {
  return *static_cast<const StateSections*>(data.get());
}

}  // namespace

// The entries from which a state is assembled.
struct StateCache::ResumePlan {
  int length = 0;
  std::vector<PrefixTree::Node*> blocks;        // whole ones
  PrefixTree::CachedSnapshot* point = nullptr;  // null: the model needs none
  PrefixTree::Node* rest_block = nullptr;       // without a point: the entry with the last partial block, ...
  PrefixTree::CachedSnapshot* rest_tail = nullptr;  // ... which is either a block or a snapshot's tail
};

// How a prompt matches the tree: `most` tokens are looked up, the first `shared` of them begin a cached
// sequence (at_end: and end at a snapshot of it), and a state of the first `length` tokens exists.
struct StateCache::Match {
  int most = 0, shared = 0, length = 0;
  bool at_end = false;
};

StateCache::StateCache(StateCacheOptions options)
    : options_(std::move(options)),
      format_{options_.device,     options_.model, options_.mtp,
              options_.mtp_hidden, options_.kv,    options_.devices},
      any_token_(std::ranges::all_of(format_.model, has_shared_blocks) && format_.mtp.empty()) {
  stats_.kv = options_.kv;
  if (const size_t most = most_sections(format_); disk() && most > kMaxSections) {
    log_warning(
        "the prefix cache is in memory only: an entry of this model has up to {} parts, a file at most {}",
        most, kMaxSections);
    options_.disk.reset();
  }
  if (options_.events) tree_.watch(root_key(options_.fingerprint, ""), any_token_);
  if (disk()) index(disk()->scan());
  tell();
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
      tree_.add_snapshot(*parent, head.tokens, nullptr, 0).stored = true;
  }
}

// Removes records that the disk has lost from the tree, which would grow without end otherwise. Not called
// before a lookup, because lookups count lost records.
void StateCache::forget_missing() {
  if (!disk()) return;
  for (const DiskRecord& record : disk()->take_missing()) {
    if (record.kind == RecordKind::block)
      tree_.not_stored(record.key);
    else
      tree_.not_stored(record.parent, record.key, static_cast<int>(record.length));
  }
}

// Reports to subscribers which blocks were added and removed.
void StateCache::tell() {
  if (options_.events) options_.events->publish(tree_.take_changes());
}

// ---- states as sections

StateSections StateCache::write_block(const SavedState& state, int block) const {
  StateSections sections;
  const auto write = [&](Stack stack, const StateLayout& layout, const Snapshot& layers, int number) {
    for (size_t i = 0; i < layout.size(); i++)
      if (has_shared_blocks(layout[i]))
        write_kv_block(format_, stack, static_cast<int>(i), number, std::get<ops::PagedKv>(layers.layers[i]),
                       sections);
  };
  write(Stack::model, format_.model, state.model, block);
  if (state.mtp && block > 0) write(Stack::mtp, format_.mtp, state.mtp->state, block - 1);
  return sections;
}

StateSections StateCache::write_snapshot(const SavedState& state) const {
  StateSections sections;
  const int length = state.model.length;
  for (size_t i = 0; i < state.model.layers.size(); i++) {
    const int layer = static_cast<int>(i);
    if (const auto* delta = std::get_if<ops::RecurrenceState>(&state.model.layers[i]))
      write_recurrent(layer, *delta, sections);
    const BlockRange own = own_blocks(format_.model[i], length);
    for (int b = own.begin; b < own.end; b++)
      write_kv_block(format_, Stack::model, layer, b, std::get<ops::PagedKv>(state.model.layers[i]),
                     sections);
  }
  if (!state.mtp) return sections;
  write_hidden(state.mtp->hidden, sections);
  for (size_t i = 0; i < state.mtp->state.layers.size(); i++)
    for (int b = first_own_mtp_block(length); b < mtp_blocks(length); b++)
      write_kv_block(format_, Stack::mtp, static_cast<int>(i), b,
                     std::get<ops::PagedKv>(state.mtp->state.layers[i]), sections);
  return sections;
}

// An empty state to read layers into: the attention layers have their length, but no blocks yet.
SavedState StateCache::empty_state(int length, bool with_mtp) const {
  const auto empty = [](const StateLayout& layout, int tokens) {
    Snapshot snapshot{tokens, {}};
    for (const auto& layer : layout) {
      if (const auto* kv = std::get_if<KvLayout>(&layer))
        snapshot.layers.emplace_back(ops::PagedKv{kv->kv_heads, kv->head_dim, tokens, {}, {}, kv->value_dim});
      else
        snapshot.layers.emplace_back(ops::RecurrenceState{});
    }
    return snapshot;
  };
  SavedState state{empty(format_.model, length), {}};
  if (with_mtp) state.mtp = MtpSnapshot{empty(format_.mtp, length - 1), {}};
  return state;
}

// Adds a block to each attention layer with shared blocks. False when a section is missing or has another
// format.
bool StateCache::read_blocks(Stack stack, int block, const StateSections& sections, Snapshot& state) const {
  const StateLayout& layout = stack == Stack::model ? format_.model : format_.mtp;
  for (size_t i = 0; i < state.layers.size(); i++) {
    auto* kv = std::get_if<ops::PagedKv>(&state.layers[i]);
    if (has_shared_blocks(layout[i]) &&
        !read_kv_block(format_, stack, static_cast<int>(i), block, sections, *kv))
      return false;
  }
  return true;
}

// Adds a snapshot's sections to a state that has all earlier blocks. Returns false as read_blocks() does.
bool StateCache::read_snapshot(const StateSections& sections, SavedState& state) const {
  const int length = state.model.length;
  for (size_t i = 0; i < state.model.layers.size(); i++) {
    auto* delta = std::get_if<ops::RecurrenceState>(&state.model.layers[i]);
    if (delta && !read_recurrent(format_, static_cast<int>(i), sections, *delta)) return false;
    auto* kv = std::get_if<ops::PagedKv>(&state.model.layers[i]);
    if (!kv) continue;
    const BlockRange own = own_blocks(format_.model[i], length);
    for (int b = own.begin; b < own.end; b++)
      if (!read_kv_block(format_, Stack::model, static_cast<int>(i), b, sections, *kv)) return false;
    kv->k.resize(static_cast<size_t>(own.end)), kv->v.resize(static_cast<size_t>(own.end));
  }
  if (!state.mtp) return true;
  if (!read_hidden(format_, sections, state.mtp->hidden)) return false;
  for (int b = first_own_mtp_block(length); b < mtp_blocks(length); b++)
    if (!read_blocks(Stack::mtp, b, sections, state.mtp->state)) return false;
  return true;
}

// ---- disk

void StateCache::store(RecordHead head, const StateSections& sections) {
  std::vector<Section> out;
  for (const auto& [tag, data] : sections) {
    auto owner = std::make_shared<const Tensor>(data);
    out.push_back({std::bit_cast<RecordTag>(tag), owner->data<char>(), owner->nbytes(), owner});
  }
  disk()->put(std::move(head), std::move(out));
}

// Reads the sections of a record. Returns null when it cannot be read.
StateCache::SectionsPtr StateCache::load(const RecordHead& head) {
  const auto record = disk()->get(head);
  if (!record.ok()) {
    log_info("prefix cache: a record of {} tokens is lost: {}", head.length, record.error().message);
    return nullptr;
  }
  auto sections = std::make_shared<StateSections>();
  for (const StoredSection& stored : record->sections) {
    const auto added = add_section(format_, std::bit_cast<SectionTag>(stored.tag), stored.bytes, *sections);
    if (added.ok()) continue;
    disk()->mark_unusable(head, added.error().message);
    return nullptr;
  }
  return sections;
}

template <class Entry>
StateCache::SectionsPtr StateCache::sections_of(Entry& entry, Hit& hit) {
  if (entry.data) return std::static_pointer_cast<const StateSections>(entry.data);
  hit.from_disk = true;
  auto sections = disk() ? load(head_of(entry)) : nullptr;
  if (sections)
    tree_.set_data(entry, sections, bytes_of(*sections));
  else
    tree_.remove(entry);
  return sections;
}

// Removes an entry that lacks sections that a state needs.
template <class Entry>
void StateCache::forget_unusable(Entry& entry) {
  if (disk()) disk()->mark_unusable(head_of(entry), "a section is missing");
  tree_.remove(entry);
}

// ---- finding

StateCache::ResumePlan StateCache::plan(const PrefixTree::Found& found, int most) const {
  ResumePlan plan;
  if (!found.node) return plan;
  for (PrefixTree::Node* at = found.node; at->parent; at = at->parent) plan.blocks.push_back(at);
  std::reverse(plan.blocks.begin(), plan.blocks.end());
  if (!any_token_) {
    plan.point = found.snapshot;
    plan.length = found.snapshot ? found.snapshot->length() : 0;
    plan.blocks.resize(whole_blocks(plan.length));
    return plan;
  }
  plan.length = std::min(found.shared, most);
  plan.rest_block = found.next;
  plan.rest_tail = found.overhang;
  const size_t blocks = static_cast<size_t>(whole_blocks(plan.length));
  if (blocks < plan.blocks.size()) {  // the whole prompt is cached, and its last token is not used
    plan.rest_block = plan.blocks[blocks];
    plan.blocks.resize(blocks);
  }
  return plan;
}

int StateCache::resumable(const PrefixTree::Found& found, int most) const {
  return plan(found, most).length;
}

void StateCache::prefetch(const ResumePlan& plan) const {
  if (!disk()) return;
  std::vector<RecordHead> heads;
  for (const PrefixTree::Node* block : plan.blocks)
    if (!block->data) heads.push_back(head_of(*block));
  if (plan.point && !plan.point->data) heads.push_back(head_of(*plan.point));
  if (heads.size() > 1) disk()->prefetch(heads);
}

// Assembles the state, reading records that are not in memory. Returns false when one cannot be read; it is
// then removed from the tree.
bool StateCache::assemble(const ResumePlan& plan, Hit& hit) {
  hit.from_disk = false;
  hit.disk_tokens = 0;
  prefetch(plan);
  bool mtp = plan.point && !format_.mtp.empty();
  std::vector<SectionsPtr> blocks;
  for (PrefixTree::Node* node : plan.blocks) {
    if (!node->data) hit.disk_tokens += kBlockTokens;
    blocks.push_back(sections_of(*node, hit));
    if (!blocks.back()) return false;
    mtp = mtp && (blocks.size() == 1 || holds(*blocks.back(), Stack::mtp));
  }
  const int rest_tokens = plan.length % kBlockTokens;
  SectionsPtr rest;
  const auto load_rest = [&](auto& entry) {
    if (!entry.data) hit.disk_tokens += rest_tokens;
    rest = sections_of(entry, hit);
    return rest != nullptr;
  };
  if (plan.point
          ? !load_rest(*plan.point)
          : rest_tokens > 0 && !(plan.rest_block ? load_rest(*plan.rest_block) : load_rest(*plan.rest_tail)))
    return false;
  mtp = mtp && holds(*rest, Stack::mtp);

  SavedState state = empty_state(plan.length, mtp);
  for (size_t i = 0; i < blocks.size(); i++) {
    const int block = static_cast<int>(i);
    if (!read_blocks(Stack::model, block, *blocks[i], state.model) ||
        (mtp && i > 0 && !read_blocks(Stack::mtp, block - 1, *blocks[i], state.mtp->state))) {
      forget_unusable(*plan.blocks[i]);
      return false;
    }
  }
  if (plan.point) {
    if (!read_snapshot(*rest, state)) {
      forget_unusable(*plan.point);
      return false;
    }
  } else if (rest_tokens > 0 &&
             !read_blocks(Stack::model, static_cast<int>(blocks.size()), *rest, state.model)) {
    plan.rest_block ? forget_unusable(*plan.rest_block) : forget_unusable(*plan.rest_tail);
    return false;
  }
  hit.length = plan.length;
  hit.state = std::move(state);
  return true;
}

StateCache::Hit StateCache::find(std::span<const int> prompt, std::string_view salt) {
  const std::lock_guard lock(mutex_);
  take_added();
  if (disk()) index(disk()->refresh());
  const PrefixKey root = root_key(options_.fingerprint, salt);
  const int most = static_cast<int>(prompt.size()) - 1;
  Hit hit;
  std::optional<Match> match;  // the first, before a record turned out to be lost
  for (;;) {
    const auto found = tree_.find(root, prompt, most);
    const ResumePlan chosen = plan(found, most);
    hit.shared = std::min(found.shared, most);
    if (!match)
      match = {most, hit.shared, chosen.length, found.snapshot && found.snapshot->length() == hit.shared};
    if (chosen.length == 0) break;
    if (!assemble(chosen, hit)) continue;  // the lost record is no longer in the tree
    used(chosen);
    break;
  }
  count(*match, hit);
  tree_.evict(options_.ram_bytes);
  tell();
  return hit;
}

// Marks the plan's entries as just used, in memory and on disk, so that others are evicted before them.
void StateCache::used(const ResumePlan& plan) {
  if (plan.point) tree_.use(*plan.point);
  if (plan.rest_tail) tree_.use(*plan.rest_tail);
  if (any_token_ && !plan.blocks.empty()) tree_.use(*plan.blocks.back());
  if (plan.rest_block) tree_.use(*plan.rest_block);
  if (!disk()) return;
  std::vector<PrefixKey> keys;
  if (plan.point) keys.push_back(head_of(*plan.point).key);
  if (plan.rest_tail) keys.push_back(head_of(*plan.rest_tail).key);
  if (plan.rest_block) keys.push_back(plan.rest_block->key);
  for (auto it = plan.blocks.rbegin(); it != plan.blocks.rend(); ++it) keys.push_back((*it)->key);
  disk()->used(keys);
}

void StateCache::count(const Match& match, Hit& hit) {
  const int fresh = match.most - match.shared, no_state = match.shared - match.length,
            lost = match.length - hit.length;
  hit.lost = lost > 0;
  stats_.lookups++;
  stats_.prompt_tokens += static_cast<uint64_t>(match.most) + 1;
  stats_.cached_tokens += static_cast<uint64_t>(hit.length);
  stats_.disk_tokens += static_cast<uint64_t>(hit.disk_tokens);
  stats_.ram_tokens += static_cast<uint64_t>(hit.length - hit.disk_tokens);
  stats_.no_state_tokens += static_cast<uint64_t>(no_state);
  stats_.lost_tokens += static_cast<uint64_t>(lost);
  if (hit.length > 0) (hit.from_disk ? stats_.disk_hits : stats_.ram_hits)++;
  CacheMisses& misses = stats_.misses;
  if (hit.length == match.most) {
    hit.miss.clear();
  } else if (lost > 0 && lost >= std::max(fresh, no_state)) {
    misses.lost++;
    hit.miss = fmt::format("an entry of {} tokens was cached, but cannot be read any more", match.length);
  } else if (match.shared == 0) {
    misses.nothing_alike++;
    hit.miss = "no cached prompt begins like it";
  } else if (no_state > fresh) {
    misses.no_state++;
    hit.miss = fmt::format("its first {} tokens are cached, but the last point to resume from is at token {}",
                           match.shared, match.length);
  } else if (match.at_end) {
    misses.new_text++;
    hit.miss = fmt::format("the cached prompt ends at token {}", match.shared);
  } else {
    misses.differs++;
    hit.miss = fmt::format(
        "it differs from the cached prompt at token {}; the last point to resume from is at token {}",
        match.shared, match.length);
  }
  stats_.last_miss = hit.miss;
}

// ---- keeping

void StateCache::keep(std::span<const int> tokens, std::string_view salt, const SavedState& state,
                      double token_s) {
  const int length = state.model.length;
  CHECK(length == static_cast<int>(tokens.size()), "a state of {} tokens for {}", length, tokens.size());
  if (length == 0) return;
  const std::lock_guard lock(mutex_);
  forget_missing();
  PrefixTree::Node* at = &tree_.add_root(root_key(options_.fingerprint, salt));
  uint64_t unstored = 0;
  for (int b = 0; b < whole_blocks(length); b++) {
    at = &tree_.add_block(*at, tokens.subspan(static_cast<size_t>(b) * kBlockTokens, kBlockTokens), nullptr,
                          0);
    if (!at->data) {
      auto sections = std::make_shared<const StateSections>(write_block(state, b));
      tree_.set_data(*at, sections, bytes_of(*sections));
    }
    if (!at->stored) unstored += at->bytes;
  }
  const auto tail = tokens.subspan(static_cast<size_t>(whole_blocks(length)) * kBlockTokens);
  auto& snapshot = tree_.add_snapshot(*at, tail, nullptr, 0);
  if (!snapshot.data) {
    auto sections = std::make_shared<const StateSections>(write_snapshot(state));
    tree_.set_data(snapshot, sections, bytes_of(*sections));
  }
  if (!snapshot.stored) unstored += snapshot.bytes;
  // A block whose record was lost on disk is written again, also if the snapshot's record still exists.
  if (disk() && unstored > 0 && is_worth_disk(*at, length, unstored, token_s)) {
    store_path(*at);
    if (!snapshot.stored) store(head_of(snapshot), sections_in(snapshot.data));
    snapshot.stored = true;  // if writing fails, reading it will find out
  }
  tree_.use(snapshot);
  if (any_token_) tree_.use(*at);
  tree_.evict(options_.ram_bytes);
  tell();
}

// Whether a state of `length` tokens is worth writing (StateCacheOptions::disk_worth_s). end: its last whole
// block; bytes: size of its records that are not on disk.
bool StateCache::is_worth_disk(const PrefixTree::Node& end, int length, uint64_t bytes,
                               double token_s) const {
  if (options_.disk_worth_s <= 0) return true;
  int there = 0;  // tokens of the longest state on disk that begins this one
  for (const PrefixTree::Node* node = &end; node; node = node->parent) {
    if (node->parent && !node->stored) there = 0;  // a block is missing, so no state after it can be resumed
    if (there > 0 || (node->parent && !node->stored)) continue;
    if (any_token_ && node->stored) there = node->length;
    for (const auto& snapshot : node->snapshots)
      if (snapshot->stored && snapshot->length() < length) there = std::max(there, snapshot->length());
  }
  const double recompute_s = (length - there) * token_s;
  return recompute_s > options_.disk_worth_s &&
         recompute_s > 2 * static_cast<double>(bytes) / disk()->bytes_per_second();
}

// Writes the blocks up to this one that are not on disk, parents before children.
void StateCache::store_path(PrefixTree::Node& end) {
  std::vector<PrefixTree::Node*> path;
  for (PrefixTree::Node* node = &end; node->parent; node = node->parent) path.push_back(node);
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    PrefixTree::Node& node = **at;
    if (node.stored || !node.data) continue;
    store(head_of(node), sections_in(node.data));
    node.stored = true;
  }
}

void StateCache::set_ram_budget(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  options_.ram_bytes = bytes;
  tree_.evict(bytes);
  tell();
}

StateCacheStats StateCache::stats() const {
  const std::lock_guard lock(mutex_);
  StateCacheStats stats = stats_;
  stats.ram_bytes = tree_.bytes();
  stats.blocks = tree_.nodes();
  stats.points = tree_.snapshots();
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
