// The part of StateCache that serves other workers: it reports cached states, returns records, and accepts
// records of other workers.
#include "cache/shared_states.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include "base/log.h"
#include "cache/state_cache.h"

namespace anabranch {

std::vector<PrefixKey> prefix_keys(const Fingerprint& fingerprint, std::string_view salt,
                                   std::span<const int> tokens) {
  std::vector<PrefixKey> keys{root_key(fingerprint, salt)};
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens))
    keys.push_back(next_key(keys.back(), tokens.first(kBlockTokens)));
  return keys;
}

PrefixKey prompt_key(std::span<const PrefixKey> keys, std::span<const int> tokens) {
  return next_key(keys.back(), tokens.subspan((keys.size() - 1) * kBlockTokens));
}

std::vector<DiskRecord> records_of(const Fingerprint& fingerprint, std::string_view salt,
                                   std::span<const int> tokens, std::span<const int> lengths) {
  const auto keys = prefix_keys(fingerprint, salt, tokens);
  std::vector<DiskRecord> records;
  for (size_t i = 1; i < keys.size(); i++)
    records.push_back(
        {fingerprint, RecordKind::block, keys[i], keys[i - 1], static_cast<uint32_t>(i) * kBlockTokens});
  for (const int length : lengths) {
    const auto blocks = static_cast<size_t>(length / kBlockTokens);
    if (length <= 0 || length > static_cast<int>(tokens.size())) continue;
    const auto tail = tokens.first(static_cast<size_t>(length)).subspan(blocks * kBlockTokens);
    records.push_back({fingerprint, RecordKind::snapshot, next_key(keys[blocks], tail), keys[blocks],
                       static_cast<uint32_t>(length)});
  }
  return records;
}

namespace {

// Sorts records in the order in which they can be removed: dependents first.
void sort_to_remove(std::vector<DiskRecord>& records) {
  std::ranges::sort(records, [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(b.length, b.kind, a.key) < std::tie(a.length, a.kind, b.key);
  });
}

}  // namespace

Result<void> forget_records(const std::string& directory, std::vector<DiskRecord> records) {
  sort_to_remove(records);
  // By parent: the number of files that depend on it.
  std::unordered_map<Fingerprint, std::unordered_map<PrefixKey, int>> dependents;
  Result<void> done;
  for (const DiskRecord& record : records) {
    const auto [folder, fresh] = dependents.try_emplace(record.fingerprint);
    if (fresh) {
      TRY(const auto files, list_folder(directory, record.fingerprint, false));
      for (const DiskRecord& file : files) folder->second[file.parent]++;
    }
    if (record.kind == RecordKind::block && folder->second[record.key] > 0) continue;
    const std::string path = record_path(directory, record);
    if (::unlink(path.c_str()) == 0)
      folder->second[record.parent]--;
    else if (errno != ENOENT)
      done = make_error(ErrorKind::io, "cannot remove {}: {}", path, std::strerror(errno));
  }
  return done;
}

KeptPrefix StateCache::kept(std::span<const PrefixKey> keys) const {
  const std::lock_guard lock(mutex_);
  KeptPrefix kept;
  std::vector<const PrefixTree::Node*> path;
  for (size_t i = 0; i < keys.size(); i++) {
    const PrefixTree::Node* node = tree_.node(keys[i]);
    const bool follows = node && node->length == static_cast<int>(i) * kBlockTokens &&
                         (i == 0 ? !node->parent : node->parent == path.back());
    if (!follows) break;
    path.push_back(node);
  }
  if (path.empty()) return kept;
  kept.blocks = static_cast<uint32_t>(path.size() - 1);
  for (auto node = path.rbegin(); node != path.rend() && kept.points.size() < kMaxKeptPoints; ++node) {
    std::vector<KeptPoint> points;
    for (const auto& snapshot : (*node)->snapshots)
      points.push_back(
          {static_cast<uint32_t>(snapshot->length()), mark_of(next_key((*node)->key, snapshot->tail))});
    std::ranges::sort(points, std::ranges::greater(), &KeptPoint::length);
    points.resize(std::min(points.size(), kMaxKeptPoints - kept.points.size()));
    kept.points.insert(kept.points.end(), points.begin(), points.end());
  }
  return kept;
}

// A record of the tree: its head, and its sections if they are in memory.
struct StateCache::Known {
  RecordHead head;
  SectionsPtr sections;
};

std::optional<StateCache::Known> StateCache::known(const DiskRecord& name) const {
  const std::lock_guard lock(mutex_);
  const auto data_of = [](const auto& entry) {
    return std::static_pointer_cast<const StateSections>(entry.data);
  };
  if (name.kind == RecordKind::block) {
    const PrefixTree::Node* node = tree_.node(name.key);
    if (!node || !node->parent || !same_record(name, head_of(*node))) return std::nullopt;
    return Known{head_of(*node), data_of(*node)};
  }
  const PrefixTree::Node* node = tree_.node(name.parent);
  if (!node) return std::nullopt;
  for (const auto& snapshot : node->snapshots)
    if (snapshot->length() == static_cast<int>(name.length) && same_record(name, head_of(*snapshot)))
      return Known{head_of(*snapshot), data_of(*snapshot)};
  return std::nullopt;
}

Result<std::string> StateCache::record(const DiskRecord& name) const {
  const auto found = known(name);
  if (!found || (!found->sections && !disk()))
    return make_error(ErrorKind::not_found, "this cache entry is not here any more");
  std::vector<Section> sections;
  std::optional<StoredRecord> stored;
  if (found->sections) {
    for (const auto& [tag, data] : *found->sections)
      sections.push_back({std::bit_cast<RecordTag>(tag), data.data<char>(), data.nbytes(), nullptr});
  } else {
    TRY(stored, disk()->get(found->head));
    for (const StoredSection& section : stored->sections)
      sections.push_back({section.tag, section.bytes.data(), section.bytes.size(), nullptr});
  }
  const EncodedHead encoded = encode_head(options_.fingerprint, found->head, sections);
  std::string bytes = encoded.head;
  bytes.reserve(encoded.file_bytes);
  for (size_t i = 0; i < sections.size(); i++) {
    bytes.resize(encoded.sections[i].offset, '\0');
    bytes.append(static_cast<const char*>(sections[i].data), sections[i].bytes);
  }
  return bytes;
}

StateCache::KeptHere StateCache::kept_here(std::span<const int> prompt, std::string_view salt) {
  const std::lock_guard lock(mutex_);
  take_added();
  if (disk()) index(disk()->refresh());
  const int most = static_cast<int>(prompt.size()) - 1;
  const auto found = tree_.find(root_key(options_.fingerprint, salt), prompt, most);
  return {resumable(found, most), found.node ? found.node->length / kBlockTokens : 0};
}

namespace {

// Whether another cached sequence continues after the snapshot.
bool goes_on(const PrefixTree::CachedSnapshot& point) {
  const auto begins = [&](const std::vector<int>& tokens) {
    return tokens.size() > point.tail.size() &&
           std::equal(point.tail.begin(), point.tail.end(), tokens.begin());
  };
  return std::ranges::any_of(point.node->children, begins, &PrefixTree::Node::tokens) ||
         std::ranges::any_of(point.node->snapshots, [&](const auto& other) { return begins(other->tail); });
}

}  // namespace

// Removes the entry if nothing depends on it. Returns whether it is gone.
bool StateCache::forget_one(const DiskRecord& record) {
  if (record.kind == RecordKind::block) {
    PrefixTree::Node* node = tree_.node(record.key);
    if (!node || !node->parent || node->length != static_cast<int>(record.length)) return true;
    if (!node->children.empty() || !node->snapshots.empty()) return false;
    tree_.remove(*node);
    return true;
  }
  PrefixTree::Node* node = tree_.node(record.parent);
  if (!node) return true;
  const auto point = std::ranges::find_if(node->snapshots, [&](const auto& known) {
    return known->length() == static_cast<int>(record.length) && head_of(*known).key == record.key;
  });
  if (point == node->snapshots.end()) return true;
  if (goes_on(**point)) return false;
  tree_.remove(**point);
  return true;
}

void StateCache::forget(std::vector<DiskRecord> records) {
  sort_to_remove(records);
  {
    const std::lock_guard lock(mutex_);
    take_added();
    if (disk()) index(disk()->refresh(true));  // another process may have continued from some of them
    std::erase_if(records, [&](const DiskRecord& record) {
      return record.fingerprint != options_.fingerprint || !forget_one(record);
    });
    tell();
  }
  if (disk()) disk()->remove(records);
}

Result<void> StateCache::add(std::span<const StoredRecord> records) {
  std::vector<Added> added;
  for (const StoredRecord& record : records) {
    auto sections = std::make_shared<StateSections>();
    for (const StoredSection& stored : record.sections)
      TRY_VOID(add_section(format_, std::bit_cast<SectionTag>(stored.tag), stored.bytes, *sections));
    added.push_back({record.head, std::move(sections)});
  }
  const std::lock_guard lock(mutex_);
  std::ranges::move(added, std::back_inserter(added_));
  return {};
}

// Puts the records of add() into the tree. Those whose parent was evicted meanwhile are dropped.
void StateCache::take_added() {
  for (const Added& record : std::exchange(added_, {})) {
    const RecordHead& head = record.head;
    const bool first = head.parent_length() == 0;
    PrefixTree::Node* parent = first ? &tree_.add_root(head.parent) : tree_.node(head.parent);
    if (!parent || parent->length != static_cast<int>(head.parent_length())) continue;
    const uint64_t bytes = bytes_of(*record.sections);
    if (head.kind == RecordKind::block)
      tree_.add_block(*parent, head.tokens, record.sections, bytes);
    else
      tree_.add_snapshot(*parent, head.tokens, record.sections, bytes);
  }
}

// The sum of all sections that one record of this model's states can have, and the largest head.
uint64_t StateCache::most_record_bytes() const {
  uint64_t bytes = kMaxHeadBytes + kMaxSections * kSectionAlignment;
  const auto add = [&](SectionKind kind, Stack stack, size_t layer) {
    const auto spec = section_spec(format_, {kind, stack, static_cast<uint32_t>(layer), 0});
    bytes += spec ? spec->bytes() : 0;
  };
  for (size_t i = 0; i < format_.model.size(); i++) {
    const auto* kv = std::get_if<KvLayout>(&format_.model[i]);
    const int blocks = kv && is_windowed(*kv) ? (kv->window + kBlockTokens - 2) / kBlockTokens + 1 : 1;
    for (int b = 0; b < blocks; b++)
      for (const auto kind : {SectionKind::keys, SectionKind::values}) add(kind, Stack::model, i);
    for (const auto kind : {SectionKind::recurrent_state, SectionKind::conv_rows}) add(kind, Stack::model, i);
  }
  for (size_t i = 0; i < format_.mtp.size(); i++)
    for (const auto kind : {SectionKind::keys, SectionKind::values})
      for (int b = 0; b < 2; b++) add(kind, Stack::mtp, i);
  add(SectionKind::hidden, Stack::mtp, 0);
  return bytes;
}

}  // namespace anabranch
