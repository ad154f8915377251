// The state cache's files seen from the command line: list, verify, clear.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include "cache/disk_store.h"

namespace anabranch {

namespace {

constexpr size_t kMaxProblems = 100;

void problem(DiskCheck* check, const std::string& path, const std::string& what) {
  if (check->problems.size() < kMaxProblems) check->problems.push_back(path + ": " + what);
}

// Reads one file. Returns whether it is a good record.
bool verify_one(const std::string& path, const DiskRecord& file, bool remove_damaged, DiskCheck* check) {
  const auto mapped = map_record(path);
  if (!mapped) {
    if (mapped.error().kind == ErrorKind::not_found) return false;  // evicted meanwhile
    check->unreadable++;
    problem(check, path, mapped.error().message);
    return false;
  }
  const auto record = parse_record(mapped->bytes, file.fingerprint, mapped->owner);
  if (record && same_record(file, record->head)) {
    check->good++;
    check->good_bytes += mapped->bytes.size();
    return true;
  }
  const bool damaged = record.ok() || record.error().kind == ErrorKind::invalid;
  (damaged ? check->damaged : check->set_aside)++;
  problem(check, path, record ? "damaged: its name is of another record" : record.error().message);
  if (damaged && remove_damaged) unlink_same(path, mapped->info);
  return false;
}

}  // namespace

Result<std::vector<DiskRecord>> list_records(const std::string& directory) {
  TRY(auto files, list_files(directory));
  std::sort(files.begin(), files.end(), [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(a.fingerprint, b.used_at_ns, a.key) < std::tie(b.fingerprint, a.used_at_ns, b.key);
  });
  return files;
}

Result<DiskCheck> verify_records(const std::string& directory, bool remove_damaged) {
  TRY(auto files, list_files(directory));
  std::sort(files.begin(), files.end(), [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(a.length, a.kind) < std::tie(b.length, b.kind);  // parents first
  });
  DiskCheck check;
  std::unordered_map<PrefixKey, uint32_t> blocks;  // good ones that can be reached, and their lengths
  for (const DiskRecord& file : files) {
    const std::string path = record_path(directory, file);
    if (!verify_one(path, file, remove_damaged, &check)) continue;
    const auto parent = blocks.find(file.parent);
    if (file.parent_length() > 0 && (parent == blocks.end() || parent->second != file.parent_length()))
      check.orphans++;
    else if (file.kind == RecordKind::block)
      blocks.emplace(file.key, file.length);
  }
  return check;
}

Result<DiskCleared> clear_records(const std::string& directory) {
  TRY(const auto folders, list_folders(directory));
  DiskCleared cleared;
  for (const Fingerprint& fingerprint : folders) {
    const std::string folder = folder_path(directory, fingerprint);
    remove_dead_temporaries(folder);
    TRY(auto files, list_folder(directory, fingerprint, true));
    // Children first: a process killed in between leaves no orphans.
    std::sort(files.begin(), files.end(), [](const DiskRecord& a, const DiskRecord& b) {
      return std::tie(b.length, b.kind) < std::tie(a.length, a.kind);
    });
    for (const DiskRecord& file : files) {
      const std::string path = record_path(directory, file);
      if (::unlink(path.c_str()) == 0) {
        cleared.files++;
        cleared.bytes += file.bytes;
      } else if (errno != ENOENT) {
        return make_error(ErrorKind::io, "cannot remove {}: {}", path, std::strerror(errno));
      }
    }
    ::rmdir(folder.c_str());  // fails when something else is in it, which then stays
  }
  return cleared;
}

}  // namespace anabranch
