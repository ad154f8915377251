// The files of the disk tier (disk_store.h): names, listing, atomic writing, and mapping. A directory holds
// one folder per format and fingerprint, v2-<hex>/, with these files:
//   <key>-<parent>-<length>.block, .checkpoint  a block or a snapshot; the name has all that eviction needs
//   tmp-<...>                                     a record being written; its writer holds a lock (flock)
//   about.txt                                     describes the fingerprint for people
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

// One record's file, from its name and stat().
struct DiskRecord {
  Fingerprint fingerprint;
  RecordKind kind = RecordKind::block;
  PrefixKey key, parent;
  uint32_t length = 0;     // tokens
  uint64_t bytes = 0;      // on disk: whole 4 KiB pages
  int64_t used_at_ns = 0;  // Unix time

  // Tokens of the prefix that `parent` names; 0: the parent is a root, which has no record.
  uint32_t parent_length() const {
    return kind == RecordKind::block ? length - kBlockTokens : length - length % kBlockTokens;
  }
};

std::string folder_path(const std::string& directory, const Fingerprint& fingerprint);
std::string record_path(const std::string& directory, const DiskRecord& record);
// The file name of a record, without the directory; and the record with this name, or nullopt if it is no
// record's name. The name does not contain the fingerprint.
std::string record_name(const DiskRecord& record);
std::optional<DiskRecord> parse_record_name(std::string_view name);
DiskRecord disk_record(const Fingerprint& fingerprint, const RecordHead& head);
// The record's name with its fingerprint before it, as FINGERPRINT/NAME; and the reverse.
std::string full_name(const DiskRecord& record);
std::optional<DiskRecord> parse_full_name(std::string_view name);

// Lists the folders of all fingerprints; none if the directory does not exist. Errors: io.
Result<std::vector<Fingerprint>> list_folders(const std::string& directory);
// Lists the records of one fingerprint by name; none if the folder does not exist. with_stat: fills bytes and
// used_at_ns. Errors: io.
Result<std::vector<DiskRecord>> list_folder(const std::string& directory, const Fingerprint& fingerprint,
                                            bool with_stat);
// Lists the records of all fingerprints with bytes and used_at_ns. Folders that cannot be read are skipped.
Result<std::vector<DiskRecord>> list_files(const std::string& directory);
// Removes the temporary files of processes that no longer run. Returns how many.
int remove_dead_temporaries(const std::string& folder);

// Removes the folders of older formats, v1-<hex>/, with all cache files in them. A folder that contains other
// files stays, with these files. Older programs that use the directory at the same time treat the removed
// records as misses. Logs one line when something was removed.
void remove_old_formats(const std::string& directory);

// Chooses the files to remove to free at least `bytes`; returns their indices in `files`, in the order of
// removal. The least recently used come first, but a block only after its children, and `keep` is never
// chosen. The result frees less if no further file may be removed.
std::vector<size_t> eviction_order(std::span<const DiskRecord> files, uint64_t bytes, const PrefixKey& keep);

// write(2), or a replacement in tests.
using WriteCall = std::function<ssize_t(int, const void*, size_t)>;
// Writes all bytes. Returns errno, or 0; ECANCELED once `abandon` is set.
int write_all(int fd, const char* data, uint64_t bytes, const WriteCall& write,
              const std::atomic<bool>& abandon);
// Writes head and sections to a temporary file in the folder of `path`, syncs it, and renames it to `path`.
// Returns errno, or 0; ECANCELED once `abandon` is set.
int write_whole(const std::string& path, const EncodedHead& encoded, std::span<const Section> sections,
                const WriteCall& write, const std::atomic<bool>& abandon);

// The folder's about.txt, which is for information only. write_about() does nothing when the file has this
// text already; it returns errno, or 0. read_about() returns at most 4 KiB, without control characters other
// than line feeds; empty when there is no file.
int write_about(const std::string& folder, const std::string& text);
std::string read_about(const std::string& folder);
void remove_about(const std::string& folder);

// The default budget: a tenth of the space that is free or already used by the cache, at most 32 GiB.
uint64_t default_budget(const std::string& directory, uint64_t used);
// Bytes that this user can still write there, if the system reports it.
std::optional<uint64_t> free_space(const std::string& directory);

// A file's bytes in memory. The file is mapped; on a network file system it is copied instead, because a
// mapped file that another machine removes can end the process.
struct MappedRecord {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  struct stat info {};
};
// copy: copies on every file system. Errors: not_found, io.
Result<MappedRecord> map_record(const std::string& path, bool copy = false);
// Asks the system to read a file ahead, if it exists.
void read_ahead(const std::string& path);
// Reads and parses a file's head. Errors: those of parse_head, not_found, io; invalid also when the file's
// size differs from the size in the head.
Result<ParsedHead> read_head(const std::string& path);
// Whether `head` agrees with the file's name.
bool same_record(const DiskRecord& name, const RecordHead& head);
// Removes the file that `info` describes, unless another file has its name by now.
bool unlink_same(const std::string& path, const struct stat& info);

}  // namespace anabranch
