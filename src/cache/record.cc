#include "cache/record.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/check.h"

namespace anabranch {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

namespace {

constexpr char kMagic[8] = {'a', 'n', 'a', 'b', '-', 'k', 'v', '\n'};

// The fixed part of a head, as in the file. After it follow a TableEntry for each section, the tokens, the
// checksum of all before it, and zeros up to a multiple of kSectionAlignment.
struct FixedHead {
  char magic[8];
  uint32_t version;
  uint32_t kind;
  PrefixKey fingerprint, key, parent;
  uint32_t length, tokens, sections, zero;
};
static_assert(sizeof(FixedHead) == kFixedHeadBytes);

struct TableEntry {
  RecordTag tag;
  uint64_t bytes;
  PrefixKey checksum;
};
static_assert(sizeof(TableEntry) == 40);

constexpr uint64_t aligned(uint64_t n) {
  return (n + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

// The size of the part that the head's checksum covers.
constexpr uint64_t summed_bytes(uint64_t sections, uint64_t tokens) {
  return sizeof(FixedHead) + sections * sizeof(TableEntry) + tokens * sizeof(int32_t);
}
constexpr uint64_t head_bytes(uint64_t sections, uint64_t tokens) {
  return aligned(summed_bytes(sections, tokens) + sizeof(PrefixKey));
}
static_assert(head_bytes(kMaxSections, kBlockTokens) == kMaxHeadBytes);

PrefixKey checksum(const void* data, uint64_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Checks the values of a head. Returns what is wrong, or nothing.
std::string contradiction(const RecordHead& head) {
  const size_t tokens = head.tokens.size();
  if (head.length == 0 || head.length > kMaxLength)
    return fmt::format("a prefix of {} tokens (1 to {} are possible)", head.length, kMaxLength);
  if (head.kind == RecordKind::block) {
    if (tokens != kBlockTokens || head.length % kBlockTokens != 0)
      return fmt::format("a block of {} tokens that ends at token {}", tokens, head.length);
  } else if (head.kind == RecordKind::snapshot) {
    if (tokens >= kBlockTokens || head.length % kBlockTokens != tokens)
      return fmt::format("a snapshot at token {} with {} tokens of its own", head.length, tokens);
  } else {
    return fmt::format("records of kind {} are unknown", static_cast<uint32_t>(head.kind));
  }
  if (next_key(head.parent, head.tokens) != head.key)
    return fmt::format("its key {} does not belong to its tokens", to_hex(head.key));
  return {};
}

// Computes the offset of each section from the sizes. Returns the size of the file; 0 when it exceeds the
// limit.
uint64_t lay_out(uint64_t from, std::span<SectionEntry> sections) {
  uint64_t end = from;
  for (SectionEntry& section : sections) {
    section.offset = aligned(end);
    if (section.bytes > kMaxRecordBytes || section.offset + section.bytes > kMaxRecordBytes) return 0;
    end = section.offset + section.bytes;
  }
  return end;
}

bool ascending(std::span<const SectionEntry> sections) {
  for (size_t i = 1; i < sections.size(); i++)
    if (sections[i - 1].tag >= sections[i].tag) return false;
  return true;
}

Error truncated(uint64_t have, uint64_t needed) {
  return make_error(ErrorKind::invalid, "cut off: {} bytes of at least {}", have, needed);
}

// Reads the fixed head, and checks the version and the limits of the counts.
Result<FixedHead> fixed_head(std::span<const std::byte> bytes) {
  FixedHead fixed;
  const size_t compared = std::min(bytes.size(), sizeof(kMagic));
  if (compared > 0 && std::memcmp(bytes.data(), kMagic, compared) != 0)
    return make_error(ErrorKind::unsupported, "not a record of the prefix cache");
  if (bytes.size() < offsetof(FixedHead, kind)) return truncated(bytes.size(), sizeof(FixedHead));
  uint32_t version;
  std::memcpy(&version, bytes.data() + offsetof(FixedHead, version), sizeof(version));
  if (version != kRecordVersion)
    return make_error(ErrorKind::unsupported, "a record of format {}; this program reads format {}", version,
                      kRecordVersion);
  if (bytes.size() < sizeof(FixedHead)) return truncated(bytes.size(), sizeof(FixedHead));
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.tokens > kBlockTokens || fixed.sections > kMaxSections)
    return make_error(ErrorKind::invalid, "damaged: {} tokens and {} sections (limits {} and {})",
                      fixed.tokens, fixed.sections, kBlockTokens, kMaxSections);
  return fixed;
}

}  // namespace

EncodedHead encode_head(const Fingerprint& fingerprint, const RecordHead& head,
                        std::span<const Section> sections) {
  const std::string wrong = contradiction(head);
  CHECK(wrong.empty(), "a record that must not be written: {}", wrong);
  CHECK(sections.size() <= kMaxSections, "{} sections", sections.size());
  EncodedHead encoded;
  for (const Section& section : sections)
    encoded.sections.push_back({section.tag, 0, section.bytes, checksum(section.data, section.bytes)});
  CHECK(ascending(encoded.sections), "sections whose tags do not ascend");
  const uint64_t size = head_bytes(sections.size(), head.tokens.size());
  encoded.file_bytes = lay_out(size, encoded.sections);
  CHECK(encoded.file_bytes > 0, "a record of more than {} bytes", kMaxRecordBytes);

  FixedHead fixed{};
  std::memcpy(fixed.magic, kMagic, sizeof(kMagic));
  fixed.version = kRecordVersion;
  fixed.kind = static_cast<uint32_t>(head.kind);
  fixed.fingerprint = fingerprint;
  fixed.key = head.key;
  fixed.parent = head.parent;
  fixed.length = head.length;
  fixed.tokens = static_cast<uint32_t>(head.tokens.size());
  fixed.sections = static_cast<uint32_t>(sections.size());
  encoded.head.reserve(size);
  const auto append = [&](const void* data, size_t bytes) {
    encoded.head.append(static_cast<const char*>(data), bytes);
  };
  append(&fixed, sizeof(fixed));
  for (const SectionEntry& section : encoded.sections) {
    const TableEntry entry{section.tag, section.bytes, section.checksum};
    append(&entry, sizeof(entry));
  }
  if (!head.tokens.empty()) append(head.tokens.data(), head.tokens.size() * sizeof(int32_t));
  const PrefixKey sum = checksum(encoded.head.data(), encoded.head.size());
  append(&sum, sizeof(sum));
  encoded.head.resize(size, '\0');
  return encoded;
}

Result<ParsedHead> parse_head(std::span<const std::byte> bytes) {
  TRY(const FixedHead fixed, fixed_head(bytes));
  ParsedHead parsed;
  parsed.head_bytes = head_bytes(fixed.sections, fixed.tokens);
  if (bytes.size() < parsed.head_bytes) return truncated(bytes.size(), parsed.head_bytes);
  const uint64_t summed = summed_bytes(fixed.sections, fixed.tokens);
  PrefixKey stored;
  std::memcpy(&stored, bytes.data() + summed, sizeof(stored));
  if (stored != checksum(bytes.data(), summed))
    return make_error(ErrorKind::invalid, "damaged: the head's checksum is wrong");
  const uint64_t behind = summed + sizeof(stored);
  if (fixed.zero != 0 || !all_zero(bytes.subspan(behind, parsed.head_bytes - behind)))
    return make_error(ErrorKind::invalid, "damaged: the head's padding is not zero");

  const std::byte* at = bytes.data() + sizeof(FixedHead);
  parsed.sections.resize(fixed.sections);
  for (SectionEntry& section : parsed.sections) {
    TableEntry entry;
    std::memcpy(&entry, at, sizeof(entry));
    section.tag = entry.tag;
    section.bytes = entry.bytes;
    section.checksum = entry.checksum;
    at += sizeof(entry);
  }
  if (!ascending(parsed.sections))
    return make_error(ErrorKind::invalid, "damaged: the tags of its sections do not ascend");
  parsed.fingerprint = fixed.fingerprint;
  parsed.head = {static_cast<RecordKind>(fixed.kind), fixed.key, fixed.parent, fixed.length, {}};
  parsed.head.tokens.resize(fixed.tokens);
  if (fixed.tokens > 0) std::memcpy(parsed.head.tokens.data(), at, fixed.tokens * sizeof(int32_t));
  const std::string wrong = contradiction(parsed.head);
  if (!wrong.empty()) return make_error(ErrorKind::invalid, "damaged: {}", wrong);
  parsed.file_bytes = lay_out(parsed.head_bytes, parsed.sections);
  if (parsed.file_bytes == 0)
    return make_error(ErrorKind::invalid, "damaged: sections of more than {} bytes", kMaxRecordBytes);
  return parsed;
}

Result<StoredRecord> parse_record(std::span<const std::byte> bytes, const Fingerprint& fingerprint,
                                  std::shared_ptr<const void> owner) {
  TRY(ParsedHead parsed, parse_head(bytes));
  if (bytes.size() < parsed.file_bytes) return truncated(bytes.size(), parsed.file_bytes);
  if (bytes.size() > parsed.file_bytes)
    return make_error(ErrorKind::invalid, "damaged: {} bytes behind its end",
                      bytes.size() - parsed.file_bytes);
  if (parsed.fingerprint != fingerprint)
    return make_error(ErrorKind::not_found, "of fingerprint {}, not {}", to_hex(parsed.fingerprint),
                      to_hex(fingerprint));
  StoredRecord record;
  record.sections.reserve(parsed.sections.size());
  uint64_t end = parsed.head_bytes;
  for (size_t i = 0; i < parsed.sections.size(); i++) {
    const SectionEntry& section = parsed.sections[i];
    if (!all_zero(bytes.subspan(end, section.offset - end)))
      return make_error(ErrorKind::invalid, "damaged: the padding before section {} is not zero", i);
    if (checksum(bytes.data() + section.offset, section.bytes) != section.checksum)
      return make_error(ErrorKind::invalid, "damaged: the checksum of section {} is wrong", i);
    record.sections.push_back({section.tag, bytes.subspan(section.offset, section.bytes)});
    end = section.offset + section.bytes;
  }
  record.head = std::move(parsed.head);
  record.owner = std::move(owner);
  return record;
}

}  // namespace anabranch
