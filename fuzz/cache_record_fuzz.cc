// A record of the prefix cache from any bytes: as they are, with the head's checksum put right (so that what
// lies behind it is reached), and as the contents of a record that must come back as it was.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cache/record.h"

namespace {

using namespace anabranch;

const Fingerprint kFingerprint{1, 2};

Result<StoredRecord> parse(const std::string& bytes) {
  return parse_record(std::as_bytes(std::span(bytes)), kFingerprint, nullptr);
}

// XXH3-128 of any bytes: encode_head() computes it for a section.
PrefixKey checksum(const void* data, size_t bytes) {
  static const RecordHead head{RecordKind::snapshot, next_key({3, 4}, std::vector<int>{5}), {3, 4}, 1, {5}};
  const Section section{{}, data, bytes, nullptr};
  return encode_head(kFingerprint, head, {&section, 1}).sections[0].checksum;
}

// Puts magic, version, fingerprint, key and the head's checksum right; all other bytes are the fuzzer's. Half
// of the inputs also get ascending tags, so that what follows is reached.
void seal(std::string& bytes) {
  if (bytes.size() < kFixedHeadBytes) return;
  uint32_t tokens, sections;
  std::memcpy(&tokens, bytes.data() + 68, 4);
  std::memcpy(&sections, bytes.data() + 72, 4);
  tokens %= kBlockTokens + 1;
  sections %= 4;
  std::memcpy(bytes.data() + 68, &tokens, 4);
  std::memcpy(bytes.data() + 72, &sections, 4);
  const size_t table = kFixedHeadBytes + 40 * sections, summed = table + 4 * tokens;
  bytes.resize(std::max(bytes.size(), (summed + 16 + 63) / 64 * 64), '\0');
  std::memcpy(bytes.data(), "anab-kv\n\2\0\0", 12);
  for (uint32_t i = 0; i < sections && tokens % 2 == 0; i++)
    std::memcpy(bytes.data() + kFixedHeadBytes + 40 * i, &i, 4);
  std::memcpy(bytes.data() + 16, &kFingerprint, 16);
  std::vector<int> ids(tokens);
  if (tokens > 0) std::memcpy(ids.data(), bytes.data() + table, 4 * tokens);
  PrefixKey parent;
  std::memcpy(&parent, bytes.data() + 48, 16);
  const PrefixKey key = next_key(parent, ids);
  std::memcpy(bytes.data() + 32, &key, 16);
  const PrefixKey sum = checksum(bytes.data(), summed);
  std::memcpy(bytes.data() + summed, &sum, 16);
}

void round_trip(const uint8_t* data, size_t size) {
  const size_t tokens = size > 0 ? data[0] : 0, parts = size > 1 ? std::min<size_t>(data[1] % 5, size) : 0;
  std::vector<int> ids(tokens);
  for (size_t i = 0; i < tokens; i++) ids[i] = data[i % size];
  const uint32_t length = static_cast<uint32_t>(tokens) + (tokens == 0 ? kBlockTokens : 0);
  const RecordHead head{RecordKind::snapshot, next_key({3, 4}, ids), {3, 4}, length, ids};
  std::vector<Section> sections(parts);
  for (uint32_t i = 0; i < parts; i++) sections[i] = {{0, 0, i, data[i]}, data + i, size - i, nullptr};
  const EncodedHead encoded = encode_head(kFingerprint, head, sections);
  std::string bytes = encoded.head;
  for (size_t i = 0; i < parts; i++) {
    bytes.resize(encoded.sections[i].offset, '\0');
    bytes.append(reinterpret_cast<const char*>(data) + i, size - i);
  }
  if (bytes.size() != encoded.file_bytes) std::abort();
  const auto record = parse(bytes);
  if (!record || record->head != head || record->sections.size() != parts) std::abort();
  for (size_t i = 0; i < parts; i++)
    if (record->sections[i].tag != sections[i].tag || record->sections[i].bytes.size() != size - i ||
        std::memcmp(record->sections[i].bytes.data(), data + i, size - i) != 0)
      std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  for (int sealed = 0; sealed < 2; sealed++) {
    const auto record = parse(bytes);
    if (record && next_key(record->head.parent, record->head.tokens) != record->head.key) std::abort();
    seal(bytes);
  }
  round_trip(data, size);
  return 0;
}
