// The files under the disk tier (disk_store.h): their names, listing them, writing one so that it appears
// whole or not at all, mapping one. A directory holds one folder per format and fingerprint, v2-<hex>/, and
// in it
//   <key>-<parent>-<length>.block, .checkpoint    a record; what eviction must know is in the name
//   tmp-<...>                                     a record being written; its writer holds a lock (flock)
//   about.txt                                     for people: what the fingerprint stands for
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/prefix_key.h"
#include "cache/record.h"

namespace anabranch {

// One record's file, as its name and stat() tell.
struct DiskRecord {
  Fingerprint fingerprint;
  RecordKind kind = RecordKind::block;
  PrefixKey key, parent;
  uint32_t length = 0;     // tokens
  uint64_t bytes = 0;      // on disk: whole 4 KiB pages
  int64_t used_at_ns = 0;  // Unix time

  // The prefix that `parent` names; with none, it is a root and no record.
  uint32_t parent_length() const {
    return kind == RecordKind::block ? length - kBlockTokens : length - length % kBlockTokens;
  }
};

std::string folder_path(const std::string& directory, const Fingerprint& fingerprint);
std::string record_path(const std::string& directory, const DiskRecord& record);
DiskRecord disk_record(const Fingerprint& fingerprint, const RecordHead& head);

// Makes a directory and those above it that are missing, for the user only. Returns errno, or 0.
int make_private_directory(const std::string& path);

// Reports the folders of all fingerprints. Errors: io; a directory that does not exist has none.
Result<std::vector<Fingerprint>> list_folders(const std::string& directory);
// The records of one fingerprint, by name; with_stat: with bytes and used_at_ns. A folder that does not exist
// has none. Errors: io.
Result<std::vector<DiskRecord>> list_folder(const std::string& directory, const Fingerprint& fingerprint,
                                            bool with_stat);
// Of all fingerprints, with bytes and used_at_ns; folders that cannot be read are skipped.
Result<std::vector<DiskRecord>> list_files(const std::string& directory);
// Removes the temporary files of writers that no longer live. Returns how many.
int remove_dead_temporaries(const std::string& folder);

// Removes the folders of older formats, v1-<hex>/, and in them the files whose names are the cache's. Other
// files stay, and so does a folder that still holds one. Older programs that use the directory now take what
// went as a miss. Logs one line when something was removed.
void remove_old_formats(const std::string& directory);

// The files to remove, in this order, so that at least `bytes` become free: the least recently used first,
// but never a block before the records that stand on it, and never `keep`. Fewer when there are no more.
std::vector<size_t> eviction_order(std::span<const DiskRecord> files, uint64_t bytes, const PrefixKey& keep);

// write(2), or what stands for it.
using WriteCall = std::function<ssize_t(int, const void*, size_t)>;
// Writes head and sections to a temporary file in the folder of `path`, has them reach the disk, and gives
// the file its name. Returns errno, or 0; ECANCELED once `abandon` is set.
int write_whole(const std::string& path, const EncodedHead& encoded, std::span<const Section> sections,
                const WriteCall& write, const std::atomic<bool>& abandon);

// The folder's about.txt, which is never more than a note. write_about() does nothing when it says that
// already, and returns errno, or 0; read_about(): at most 4 KiB, without control characters but line feeds;
// empty when there is none.
int write_about(const std::string& folder, const std::string& text);
std::string read_about(const std::string& folder);
void remove_about(const std::string& folder);

// The default budget: a tenth of the space that is free or already the cache's, at most 32 GiB.
uint64_t default_budget(const std::string& directory, uint64_t used);
// Bytes that this user can still write there, if that can be told.
std::optional<uint64_t> free_space(const std::string& directory);

// A file's bytes, mapped and in memory when this returns.
struct MappedRecord {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  struct stat info {};
};
// Errors: not_found, io.
Result<MappedRecord> map_record(const std::string& path);
// Has the system begin to read a file, if it is there.
void read_ahead(const std::string& path);
// The start of a file, at most kMaxHeadBytes, parsed. Errors: as parse_head's, not_found, io; invalid also
// when the file has not the size that its head tells.
Result<ParsedHead> read_head(const std::string& path);
// Whether `head` is what the file's name says.
bool same_record(const DiskRecord& name, const RecordHead& head);
// Removes the file that `info` is of, unless another has taken its name.
bool unlink_same(const std::string& path, const struct stat& info);

}  // namespace anabranch
