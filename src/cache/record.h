// The binary format of a prefix cache record: a head that names the prefix, and tagged sections. This file
// does not interpret the tags and contents of sections. docs/cache-format.md specifies every byte.
//
// Parsing accepts any bytes and returns a record or an error. It allocates nothing beyond the limits below. A
// record that parses is complete: every byte is covered by a checksum or must be zero.
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

enum class RecordKind : uint32_t { block = 1, snapshot = 2 };

// key is next_key(parent, tokens).
struct RecordHead {
  RecordKind kind = RecordKind::block;
  PrefixKey key;
  PrefixKey parent;             // the last whole block before these tokens, or the root
  uint32_t length = 0;          // tokens of the whole prefix, at least 1
  std::vector<int32_t> tokens;  // block: its 256; snapshot: those after the last whole block, 0 to 255

  bool operator==(const RecordHead&) const = default;
  // Tokens of the prefix that `parent` names; 0: the parent is a root, which has no record.
  uint32_t parent_length() const { return length - static_cast<uint32_t>(tokens.size()); }
};

// Says which contents a section has; state/sections.h defines the tags. A record has its sections in
// ascending order of tags, each tag once.
using RecordTag = std::array<uint32_t, 4>;

// Bytes to store; `owner` keeps them alive and unchanged.
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
// The largest head with its tables, checksum and padding.
constexpr size_t kMaxHeadBytes = 42112;

// An entry of the section table, with the offset and size of the section.
struct SectionEntry {
  RecordTag tag{};
  uint64_t offset = 0, bytes = 0;  // in the file
  PrefixKey checksum;              // XXH3-128
};

struct ParsedHead {
  Fingerprint fingerprint;
  RecordHead head;
  std::vector<SectionEntry> sections;
  uint64_t head_bytes = 0, file_bytes = 0;
};

// A record's bytes are `head`, then each section at its offset, with zeros between.
struct EncodedHead {
  std::string head;
  std::vector<SectionEntry> sections;
  uint64_t file_bytes = 0;
};

// Aborts when the head is not well formed or a limit is exceeded. Reads the sections for their checksums.
EncodedHead encode_head(const Fingerprint& fingerprint, const RecordHead& head,
                        std::span<const Section> sections);

// bytes: the first kMaxHeadBytes of a file, or all of it. Errors: unsupported (not a record, or of another
// version; must not be deleted), invalid (damaged: truncated, a wrong checksum, contradicting values).
Result<ParsedHead> parse_head(std::span<const std::byte> bytes);
// Parses a whole file and verifies the checksums of all sections. Errors: those of parse_head, and not_found
// (another fingerprint). `owner` keeps `bytes` alive.
Result<StoredRecord> parse_record(std::span<const std::byte> bytes, const Fingerprint& fingerprint,
                                  std::shared_ptr<const void> owner);

}  // namespace anabranch
