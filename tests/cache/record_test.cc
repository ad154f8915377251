// Records as bytes: the format to the byte, and that no bytes but those written parse.
#include "cache/record.h"

#include <fmt/core.h>

#include <cstdlib>
#include <set>

#include "cache/records.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;

Result<StoredRecord> parse(const std::string& bytes, const Fingerprint& fingerprint = kFingerprint) {
  // Aligned as a mapping is, with nothing behind it that could be read by mistake.
  std::shared_ptr<std::byte> copy(
      static_cast<std::byte*>(std::aligned_alloc(64, (bytes.size() + 64) / 64 * 64)), std::free);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return parse_record({copy.get(), bytes.size()}, fingerprint, copy);
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

RecordHead small_head() {
  return head_after(RecordKind::snapshot, root_key(kFingerprint, "salt"), 0, {1, -2});
}
std::string small_file() {
  const std::vector<Section> sections = {section_of(0, "abc"), section_of(1, "de")};
  return record_bytes(kFingerprint, small_head(), sections);
}

TEST(PrefixKeyTest, IsPinned) {
  EXPECT_EQ(to_hex(fingerprint_of("text")), "c5a64efff9224e392680525687aac7c5");
  EXPECT_EQ(to_hex(root_key({1, 2}, "")), "6c828491777e1de2987ebe47d166f8be");
  EXPECT_EQ(to_hex(root_key({1, 2}, "salt")), "833468d16e3cd6090cd5369ceb579e34");
  EXPECT_EQ(to_hex(next_key({1, 2}, {})), "556c70b5fae5b2a44967295965e4d325");
  EXPECT_EQ(to_hex(next_key({1, 2}, std::vector<int>{1, -2})), "5de0fa12e1a2dd6a4314289c2e5d5e8a");
}

TEST(PrefixKeyTest, HexBothWays) {
  const PrefixKey key{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(to_hex(key), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(key_from_hex(to_hex(key)), key);
  EXPECT_EQ(key_from_hex("0123456789ABCDEFfedcba9876543210"), std::nullopt);
  EXPECT_EQ(key_from_hex("0123456789abcdeffedcba987654321"), std::nullopt);
  EXPECT_EQ(key_from_hex("0123456789abcdeffedcba98765432100"), std::nullopt);
}

TEST(PrefixKeyTest, DependsOnAllThatCameBefore) {
  std::set<PrefixKey> keys = {root_key({1, 2}, ""), root_key({1, 3}, ""), root_key({1, 2}, "a"), {1, 2}};
  for (const PrefixKey parent : std::vector(keys.begin(), keys.end()))
    for (const auto& tokens :
         {std::vector<int>{}, {0}, {0, 0}, {1}, std::vector<int>(256), std::vector<int>(255)})
      keys.insert(next_key(parent, tokens));
  EXPECT_EQ(keys.size(), 4u + 4 * 6);
}

TEST(RecordTest, FormatIsPinned) {
  const std::string bytes = small_file();
  ASSERT_EQ(bytes.size(), 258u);
  EXPECT_EQ(hex(bytes.substr(0, 16)),
            "616e61622d6b760a"
            "02000000"
            "02000000");
  const auto key_at = [&](size_t at) {
    PrefixKey key;
    std::memcpy(&key, bytes.data() + at, 16);
    return key;
  };
  EXPECT_EQ(key_at(16), kFingerprint);
  EXPECT_EQ(key_at(32), small_head().key);
  EXPECT_EQ(key_at(48), small_head().parent);
  EXPECT_EQ(hex(bytes.substr(64, 16)),
            "02000000"
            "02000000"
            "02000000"
            "00000000");
  EXPECT_EQ(hex(bytes.substr(80, 40)),
            "01000000000000000000000000000000"
            "0300000000000000"
            "85613a73b65ab00650392f89945faf78");
  EXPECT_EQ(hex(bytes.substr(120, 40)),
            "01000000000000000100000000000000"
            "0200000000000000"
            "13de474bbdd7a90556333c5fe487be1a");
  EXPECT_EQ(hex(bytes.substr(160, 8)), "01000000feffffff");
  EXPECT_EQ(hex(bytes.substr(168, 16)), "2ca4af477f168fdbbd18baedc4ac4a8b");
  EXPECT_EQ(bytes.substr(184, 8), std::string(8, '\0'));
  EXPECT_EQ(bytes.substr(192), "abc" + std::string(61, '\0') + "de");
}

TEST(RecordTest, RoundTrips) {
  std::vector<RecordHead> heads = chain(1, 3, 255);
  for (const RecordHead& head : chain(1, 3, 0)) heads.push_back(head);
  heads.push_back(small_head());
  for (const RecordHead& head : heads) {
    for (const size_t bytes : {10, 64, 1000, 100000}) {
      const auto record = parse(record_bytes(kFingerprint, head, sections_of(head, bytes)));
      ASSERT_TRUE(record.ok()) << record.error().message;
      EXPECT_TRUE(is_right(*record, head));
    }
    const auto bare = parse(record_bytes(kFingerprint, head, {}));
    ASSERT_TRUE(bare.ok());
    EXPECT_EQ(bare->head, head);
    EXPECT_TRUE(bare->sections.empty());
  }
  std::vector<Section> most;
  for (uint32_t i = 0; i < kMaxSections; i++) most.push_back(section_of(i, "x"));
  const std::string bytes = record_bytes(kFingerprint, heads[0], most);
  EXPECT_EQ(encode_head(kFingerprint, heads[0], most).head.size(), kMaxHeadBytes);
  ASSERT_TRUE(parse(bytes).ok());
  EXPECT_EQ(parse(bytes)->sections.size(), kMaxSections);
}

TEST(RecordTest, EveryFlippedBitIsFound) {
  const std::string good = small_file();
  ASSERT_TRUE(parse(good).ok());
  for (size_t bit = 0; bit < good.size() * 8; bit++) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(parse(bad).ok()) << "bit " << bit;
  }
}

TEST(RecordTest, EveryOtherLengthIsFound) {
  const std::string good = small_file();
  for (size_t size = 0; size < good.size(); size++) {
    const auto cut = parse(good.substr(0, size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.error().kind, ErrorKind::invalid) << size;
    EXPECT_NE(cut.error().message.find("cut off"), std::string::npos) << cut.error().message;
  }
  EXPECT_EQ(parse(good + '\0').error().kind, ErrorKind::invalid);
}

TEST(RecordTest, SaysWhatIsWrong) {
  const std::string good = small_file();
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = good;
    changed.replace(at, bytes.size(), bytes);
    return parse(changed).error();
  };
  EXPECT_EQ(with(0, "GGUF").kind, ErrorKind::unsupported);
  EXPECT_EQ(with(8, "\x03").kind, ErrorKind::unsupported);
  EXPECT_NE(with(8, "\x03").message.find("format 3"), std::string::npos);
  EXPECT_NE(with(8, "\x01").message.find("format 1"), std::string::npos);
  EXPECT_NE(with(68, "\xff\xff\xff\xff").message.find("4294967295 tokens"), std::string::npos);
  EXPECT_NE(with(72, "\xff\xff\xff\x7f").message.find("2147483647 sections"), std::string::npos);
  EXPECT_NE(with(200, "x").message.find("padding before section 1"), std::string::npos);
  EXPECT_NE(with(256, "x").message.find("checksum of section 1"), std::string::npos);
  EXPECT_EQ(parse(good, {1, 2}).error().kind, ErrorKind::not_found);
  EXPECT_EQ(parse("").error().kind, ErrorKind::invalid);
}

// The head's checksum put right, so that only what it holds is wrong.
std::string resealed(std::string bytes, size_t sections, size_t tokens);

TEST(RecordTest, AHeadThatContradictsItselfIsRefused) {
  const std::string good = small_file();
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = good;
    changed.replace(at, bytes.size(), bytes);
    const auto record = parse(resealed(changed, 2, 2));
    return record.ok() ? std::string() : record.error().message;
  };
  EXPECT_EQ(with(0, "a"), "");  // nothing changed: resealed() itself is right
  EXPECT_NE(with(12, "\x03").find("kind 3"), std::string::npos);
  EXPECT_NE(with(12, "\x01").find("a block of 2 tokens"), std::string::npos);
  EXPECT_NE(with(32, "x").find("does not belong"), std::string::npos);
  EXPECT_NE(with(48, "x").find("does not belong"), std::string::npos);
  EXPECT_NE(with(160, "x").find("does not belong"), std::string::npos);
  EXPECT_NE(with(64, std::string(4, '\0')).find("a prefix of 0 tokens"), std::string::npos);
  EXPECT_NE(with(64, "\x03").find("at token 3"), std::string::npos);
  EXPECT_NE(with(64, "\xff\xff\xff\xff").find("a prefix of 4294967295"), std::string::npos);
  EXPECT_NE(with(76, "x").find("padding"), std::string::npos);
  EXPECT_NE(with(88, "\x01").find("do not ascend"), std::string::npos);  // both sections with the same tag
  EXPECT_NE(with(80, "\x02").find("do not ascend"), std::string::npos);
  EXPECT_EQ(with(124, "\xff\xff\xff\xff"), "");  // any tags that ascend
  EXPECT_NE(with(96, "\xff\xff\xff\xff\xff\xff\xff\xff").find("more than"), std::string::npos);
  EXPECT_NE(with(136, std::string("\0\0\0\0\0\1\0\0", 8)).find("more than"), std::string::npos);
  EXPECT_NE(with(136, std::string("\0\0\0\0\1\0\0\0", 8)).find("cut off"), std::string::npos);
}

TEST(RecordDeathTest, WrongHeadsAreNotWritten) {
  RecordHead head = small_head();
  head.length = 3;
  EXPECT_DEATH(encode_head(kFingerprint, head, {}), "at token 3");
  head = small_head();
  head.tokens[0] = 5;
  EXPECT_DEATH(encode_head(kFingerprint, head, {}), "does not belong");
  const std::vector<Section> twice = {section_of(3, "a"), section_of(3, "b")};
  EXPECT_DEATH(encode_head(kFingerprint, small_head(), twice), "do not ascend");
}

std::string resealed(std::string bytes, size_t sections, size_t tokens) {
  const size_t summed = kFixedHeadBytes + 40 * sections + 4 * tokens;
  // encode_head() gives the checksum of any bytes: as those of a section.
  const Section head{{}, bytes.data(), summed, nullptr};
  const PrefixKey sum = encode_head(kFingerprint, small_head(), {&head, 1}).sections[0].checksum;
  std::memcpy(bytes.data() + summed, &sum, sizeof(sum));
  return bytes;
}

}  // namespace
}  // namespace anabranch
