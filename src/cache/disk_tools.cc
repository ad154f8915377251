#include "cache/disk_tools.h"
#include "cache/weights_key.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace anabranch {

namespace {

constexpr size_t kMaxProblems = 100;

void problem(DiskCheck* check, const std::string& text) {
  if (check->problems.size() < kMaxProblems) check->problems.push_back(text);
}

// Reads one file. Returns whether it is a good record.
bool verify_one(const std::string& path, const DiskRecord& file, bool remove_bad, DiskCheck* check) {
  const auto mapped = map_record(path);
  if (!mapped) {
    if (mapped.error().kind == ErrorKind::not_found) return false;  // evicted meanwhile
    check->unreadable++;
    problem(check, mapped.error().message);
    return false;
  }
  const auto record = parse_record(mapped->bytes, file.fingerprint, mapped->owner);
  if (record && same_record(file, record->head)) {
    check->good++;
    check->good_bytes += mapped->bytes.size();
    return true;
  }
  const bool damaged = record.ok() || record.error().kind == ErrorKind::invalid;
  (damaged ? check->damaged : check->unusable)++;
  problem(check, path + ": " + (record ? "damaged: its name is of another record" : record.error().message));
  if (remove_bad && unlink_same(path, mapped->info)) check->removed++;
  return false;
}

void verify_folder(const std::string& directory, std::vector<DiskRecord> files, bool remove_bad,
                   DiskCheck* check) {
  std::sort(files.begin(), files.end(), [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(a.length, a.kind) < std::tie(b.length, b.kind);  // parents first
  });
  std::unordered_map<PrefixKey, uint32_t> blocks;  // good ones that can be reached, and their lengths
  for (const DiskRecord& file : files) {
    if (!verify_one(record_path(directory, file), file, remove_bad, check)) continue;
    const auto parent = blocks.find(file.parent);
    if (file.parent_length() > 0 && (parent == blocks.end() || parent->second != file.parent_length()))
      check->orphans++;
    else if (file.kind == RecordKind::block)
      blocks.emplace(file.key, file.length);
  }
}

void add_to(const DiskRecord& record, CacheBranch* branch) {
  const bool first = branch->blocks == 0 && branch->points.empty();
  branch->from = first ? record.parent_length() : std::min(branch->from, record.parent_length());
  branch->to = std::max(branch->to, record.length);
  branch->bytes += record.bytes;
  branch->used_at_ns = std::max(branch->used_at_ns, record.used_at_ns);
  if (record.kind == RecordKind::block)
    branch->blocks++;
  else
    branch->points.push_back(record.length);
}

}  // namespace

Result<std::vector<CacheFolder>> list_cache(const std::string& directory) {
  TRY(const auto fingerprints, list_folders(directory));
  std::vector<CacheFolder> folders;
  for (const Fingerprint& fingerprint : fingerprints) {
    CacheFolder folder{fingerprint, read_about(folder_path(directory, fingerprint)), {}, {}};
    auto files = list_folder(directory, fingerprint, true);
    if (files)
      folder.records = std::move(*files);
    else
      folder.problem = files.error().message;
    std::sort(folder.records.begin(), folder.records.end(), [](const DiskRecord& a, const DiskRecord& b) {
      return std::tie(b.used_at_ns, a.key) < std::tie(a.used_at_ns, b.key);
    });
    folders.push_back(std::move(folder));
  }
  const auto last_use = [](const CacheFolder& folder) {
    return folder.records.empty() ? 0 : folder.records.front().used_at_ns;
  };
  std::sort(folders.begin(), folders.end(), [&](const CacheFolder& a, const CacheFolder& b) {
    const int64_t of_a = last_use(a), of_b = last_use(b);
    return std::tie(of_b, a.fingerprint) < std::tie(of_a, b.fingerprint);
  });
  return folders;
}

namespace {

// The blocks of a folder as a tree. Parents are shorter than their children, so there are no cycles.
struct BlockTree {
  std::unordered_map<PrefixKey, const DiskRecord*> blocks;
  std::unordered_map<PrefixKey, std::vector<const DiskRecord*>> on;  // children of a block or a root
  std::vector<const DiskRecord*> starts;                             // blocks on roots
  std::unordered_map<PrefixKey, int64_t> used;                       // last use of a block or its descendants
};

BlockTree tree_of(const CacheFolder& folder, CacheBranch* orphans) {
  BlockTree tree;
  std::vector<const DiskRecord*> by_length;
  for (const DiskRecord& record : folder.records) by_length.push_back(&record);
  std::sort(by_length.begin(), by_length.end(), [](const DiskRecord* a, const DiskRecord* b) {
    return std::tie(a->length, a->kind, a->key) < std::tie(b->length, b->kind, b->key);
  });
  for (const DiskRecord* record : by_length) {
    const auto parent = tree.blocks.find(record->parent);
    const bool on_root = record->parent_length() == 0;
    if (!on_root && (parent == tree.blocks.end() || parent->second->length != record->parent_length())) {
      add_to(*record, orphans);
      continue;
    }
    tree.on[record->parent].push_back(record);
    if (record->kind != RecordKind::block) continue;
    tree.blocks[record->key] = record;
    if (on_root) tree.starts.push_back(record);
  }
  for (auto record = by_length.rbegin(); record != by_length.rend(); ++record) {
    int64_t& own = tree.used[(*record)->key];
    own = std::max(own, (*record)->used_at_ns);
    int64_t& below = tree.used[(*record)->parent];
    below = std::max(below, own);
  }
  return tree;
}

}  // namespace

std::vector<CacheBranch> branches_of(const CacheFolder& folder) {
  CacheBranch orphans, brief;
  orphans.reachable = false;
  const BlockTree tree = tree_of(folder, &orphans);
  struct Start {
    const DiskRecord* block;
    int depth;
  };
  std::vector<Start> todo;
  const auto push = [&](std::vector<const DiskRecord*> blocks, int depth) {
    std::sort(blocks.begin(), blocks.end(), [&](const DiskRecord* a, const DiskRecord* b) {
      return std::tie(tree.used.at(a->key), a->key) < std::tie(tree.used.at(b->key), b->key);
    });
    for (const DiskRecord* block : blocks) todo.push_back({block, depth});
  };
  push(tree.starts, 0);
  std::vector<CacheBranch> branches;
  while (!todo.empty()) {
    const Start start = todo.back();
    todo.pop_back();
    CacheBranch branch;
    branch.depth = start.depth;
    std::vector<const DiskRecord*> next = {start.block};
    while (next.size() == 1) {
      const DiskRecord& block = *next.front();
      add_to(block, &branch);
      next.clear();
      const auto on = tree.on.find(block.key);
      if (on == tree.on.end()) break;
      for (const DiskRecord* record : on->second) {
        if (record->kind == RecordKind::block)
          next.push_back(record);
        else
          add_to(*record, &branch);
      }
    }
    push(next, start.depth + 1);
    branches.push_back(std::move(branch));
  }
  for (const DiskRecord& record : folder.records)
    if (record.kind == RecordKind::snapshot && record.parent_length() == 0) add_to(record, &brief);
  for (CacheBranch* rest : {&brief, &orphans}) {
    std::sort(rest->points.begin(), rest->points.end());
    if (rest->bytes > 0) branches.push_back(std::move(*rest));
  }
  return branches;
}

Result<DiskCheck> verify_records(const std::string& directory, bool remove_bad) {
  TRY(auto folders, list_cache(directory));
  DiskCheck check;
  for (CacheFolder& folder : folders) {
    if (!folder.problem.empty()) {
      check.unreadable++;
      problem(&check, folder.problem);
    }
    verify_folder(directory, std::move(folder.records), remove_bad, &check);
  }
  return check;
}

std::vector<DiskRecord> records_to_clear(const CacheFolder& folder, const RecordFilter& filter) {
  if (!to_hex(folder.fingerprint).starts_with(filter.fingerprint)) return {};
  std::vector<DiskRecord> files = folder.records;
  // Children first: a process killed in between leaves no orphans.
  std::sort(files.begin(), files.end(), [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(b.length, b.kind) < std::tie(a.length, a.kind);
  });
  std::unordered_set<PrefixKey> needed;
  std::erase_if(files, [&](const DiskRecord& file) {
    const bool stays = file.used_at_ns >= filter.used_before_ns || needed.contains(file.key);
    if (stays && file.parent_length() > 0) needed.insert(file.parent);
    return stays;
  });
  return files;
}

bool is_empty(const RecordFilter& filter) {
  return filter.fingerprint.empty() && filter.used_before_ns == RecordFilter{}.used_before_ns;
}

Result<DiskCleared> clear_records(const std::string& directory, const RecordFilter& filter) {
  TRY(const auto folders, list_cache(directory));
  DiskCleared cleared;
  for (const CacheFolder& folder : folders) {
    if (!to_hex(folder.fingerprint).starts_with(filter.fingerprint)) continue;
    if (!folder.problem.empty()) return make_error(ErrorKind::io, "{}", folder.problem);
    const std::string path = folder_path(directory, folder.fingerprint);
    remove_dead_temporaries(path);
    const auto files = records_to_clear(folder, filter);
    for (const DiskRecord& file : files) {
      const std::string name = record_path(directory, file);
      if (::unlink(name.c_str()) == 0) {
        cleared.files++;
        cleared.bytes += file.bytes;
      } else if (errno != ENOENT) {
        return make_error(ErrorKind::io, "cannot remove {}: {}", name, std::strerror(errno));
      }
    }
    if (files.size() < folder.records.size()) continue;
    remove_about(path);
    ::rmdir(path.c_str());  // fails when something else is in it, which then stays
  }
  if (is_empty(filter)) {
    remove_old_formats(directory);
    forget_weights(directory);
    cleared.images = forget_images(directory);
  }
  return cleared;
}

}  // namespace anabranch
