// One record of the state cache as bytes: a head that says which prefix it belongs to, and tagged sections,
// whose tags and bytes mean nothing to this file. docs/cache-format.md has the layout to the byte.
//
// Parsing is total: any bytes give a record or a reason, nothing is allocated beyond the limits below, and a
// record that parses is whole (every byte is covered by a checksum or must be zero).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/prefix_key.h"

namespace anabranch {

enum class RecordKind : uint32_t { block = 1, checkpoint = 2 };

// key is next_key(parent, tokens).
struct RecordHead {
  RecordKind kind = RecordKind::block;
  PrefixKey key;
  PrefixKey parent;             // the whole block before, or the root
  uint32_t length = 0;          // tokens of the whole prefix, at least 1
  std::vector<int32_t> tokens;  // block: its 256; checkpoint: those after the last whole block, 0 to 255

  bool operator==(const RecordHead&) const = default;
  // The prefix that `parent` names; with none, the parent is a root and no record.
  uint32_t parent_length() const { return length - static_cast<uint32_t>(tokens.size()); }
};

// What a section holds (state/sections.h). A record has its sections in ascending order of tags, each tag
// once.
using RecordTag = std::array<uint32_t, 4>;

// Bytes to be stored; `owner` keeps them alive and unchanged.
struct Section {
  RecordTag tag{};
  const void* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

struct StoredSection {
  RecordTag tag{};
  std::span<const std::byte> bytes;
};

// A verified record. The sections start at multiples of kSectionAlignment in memory, and live as long as
// `owner`.
struct StoredRecord {
  RecordHead head;
  std::vector<StoredSection> sections;
  std::shared_ptr<const void> owner;
};

constexpr uint32_t kRecordVersion = 2;
constexpr size_t kSectionAlignment = 64;
constexpr uint32_t kMaxSections = 1024;
constexpr uint32_t kMaxLength = 1u << 30;  // tokens
constexpr uint64_t kMaxRecordBytes = 1ull << 40;
constexpr size_t kFixedHeadBytes = 80;
// Of the head with its tables, checksum and padding.
constexpr size_t kMaxHeadBytes = 42112;

// An entry of the section table, and where it says that the section lies.
struct SectionPlace {
  RecordTag tag{};
  uint64_t offset = 0, bytes = 0;  // in the file
  PrefixKey checksum;              // XXH3-128
};

struct ParsedHead {
  Fingerprint fingerprint;
  RecordHead head;
  std::vector<SectionPlace> sections;
  uint64_t head_bytes = 0, file_bytes = 0;
};

// A record's bytes are `head`, then each section at its place, with zeros between.
struct EncodedHead {
  std::string head;
  std::vector<SectionPlace> sections;
  uint64_t file_bytes = 0;
};

// Aborts when the head is not well formed or a limit is exceeded. Reads the sections for their checksums.
EncodedHead encode_head(const Fingerprint& fingerprint, const RecordHead& head,
                        std::span<const Section> sections);

// `bytes`: the start of a file, kMaxHeadBytes of it or all. Errors: unsupported (no record at all, or of
// another version: not ours to delete), invalid (damaged: cut off, a wrong checksum, values that contradict).
Result<ParsedHead> parse_head(std::span<const std::byte> bytes);
// A whole file, checksums of sections included. Errors as parse_head's, and not_found (another fingerprint).
// `owner` keeps `bytes` alive.
Result<StoredRecord> parse_record(std::span<const std::byte> bytes, const Fingerprint& fingerprint,
                                  std::shared_ptr<const void> owner);

}  // namespace anabranch
