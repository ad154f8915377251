// What the prefix cache counts and how it uses its memory: why prompts are not found, from where their tokens
// come, and the limits of what it tells other workers.
#include <algorithm>
#include <filesystem>

#include "cache/state_cache_fixture.h"

namespace anabranch {
namespace {

using namespace state_cache_tests;

// Tokens that no text has.
Tokens others(int count) {
  return Tokens(static_cast<size_t>(count), 2000);
}

void remove_record(const std::string& directory, RecordKind kind, uint32_t length) {
  for (const DiskRecord& file : listed(directory))
    if (file.kind == kind && file.length == length) std::filesystem::remove(record_path(directory, file));
}

TEST_F(StateCacheTest, SaysWhyAPromptWasNotFound) {
  const auto cache = open(kHybrid, true);
  const Tokens tokens = text(1, 600), lost = text(2, 300);
  cache->keep(tokens, "", state_of(kHybrid, tokens));
  cache->keep(lost, "", state_of(kHybrid, lost));
  cache->disk()->drain();
  const auto miss = [&](const Tokens& prompt) {
    const CacheMisses before = cache->stats().misses;
    const std::string text = cache->find(prompt, "").miss;
    const CacheMisses after = cache->stats().misses;
    EXPECT_EQ(cache->stats().last_miss, text);
    std::string counted;
    const auto note = [&](uint64_t was, uint64_t is, const char* name) {
      for (; was < is; was++) counted += name;
    };
    note(before.nothing_alike, after.nothing_alike, "nothing alike");
    note(before.no_state, after.no_state, "no state");
    note(before.differs, after.differs, "differs");
    note(before.new_text, after.new_text, "new text");
    note(before.lost, after.lost, "lost");
    EXPECT_EQ(counted.empty(), text.empty()) << text;
    return counted;
  };
  EXPECT_EQ(miss(tokens + others(1)), "");
  EXPECT_EQ(miss(others(50)), "nothing alike");
  EXPECT_EQ(miss(tokens + others(50)), "new text");
  EXPECT_EQ(miss(first(tokens, 500) + others(50)), "no state");
  EXPECT_EQ(miss(first(tokens, 500) + others(501)), "differs") << "as much is new as has no state";
  EXPECT_EQ(miss(first(tokens, 100) + others(400)), "differs");
  EXPECT_EQ(cache->stats().misses.lost, 0u);
  EXPECT_EQ(cache->stats().no_state_tokens, 500u + 500 + 100);

  for (const int fresh : {300, 301}) {  // what was lost is the reason if it is not less than what is new
    cache->keep(lost, "", state_of(kHybrid, lost));
    cache->disk()->drain();
    cache->set_ram_budget(0);
    remove_record(directory_.path(), RecordKind::snapshot, 300);
    EXPECT_EQ(miss(lost + others(fresh + 1)), fresh == 300 ? "lost" : "new text");
    cache->set_ram_budget(1 << 30);
  }
  EXPECT_EQ(cache->stats().lost_tokens, 600u);
}

// A longer state is lost, and a shorter one is used: its blocks were read for the longer one already.
TEST_F(StateCacheTest, TokensAreCountedOnceThoughARecordIsLost) {
  const Tokens tokens = text(1, 600);
  keep_on_disk(kHybrid, tokens, {300, 600});
  const auto cache = open(kHybrid, true);
  remove_record(directory_.path(), RecordKind::snapshot, 600);
  const auto hit = cache->find(tokens + others(1), "");
  EXPECT_EQ(hit.length, 300);
  EXPECT_TRUE(hit.lost);
  EXPECT_LE(hit.disk_tokens, hit.length);
  const StateCacheStats stats = cache->stats();
  EXPECT_EQ(stats.cached_tokens, 300u);
  EXPECT_EQ(stats.ram_tokens + stats.disk_tokens, 300u);
  EXPECT_LE(stats.ram_tokens, 300u);
  EXPECT_EQ(stats.lost_tokens, 300u);
}

TEST_F(StateCacheTest, WhatIsReadFromDiskStaysWithinTheMemoryBudget) {
  keep_on_disk(kHybrid, text(1, 600), {600});
  const auto cache = open(kHybrid, true);
  cache->set_ram_budget(0);
  EXPECT_EQ(cache->find(text(1, 600) + others(1), "").length, 600);
  EXPECT_EQ(cache->stats().ram_bytes, 0u);
}

TEST_F(StateCacheTest, WhatIsFoundOnDiskCountsAsUsedThere) {
  for (const Layers& layers : {kHybrid, kAttention}) {
    for (const int length : {40, 50, 60}) keep_on_disk(layers, text(length, length), {length});
    {
      const auto cache = open(layers, true);
      EXPECT_EQ(cache->find(text(40, 40) + others(1), "").length, 40);
      cache->disk()->drain();
    }
    EXPECT_EQ(listed(directory_.path()).front().length, 40u) << "the last to be removed";
    clear_records(directory_.path()).value();
  }
}

// Of a model that goes on from any token, a prompt that ends with a block uses that block alone.
TEST_F(StateCacheTest, BlocksThatAreFoundAgainAndAgainStayInMemory) {
  const auto cache = open(kAttention, false);
  const auto keep = [&](int i) { cache->keep(text(i, 256), "", state_of(kAttention, text(i, 256))); };
  for (int i = 0; i < 3; i++) keep(i);
  cache->set_ram_budget(cache->stats().ram_bytes);
  for (int i = 3; i < 12; i++) {
    EXPECT_EQ(cache->find(text(0, 256) + others(1), "").length, 256) << i;
    keep(i);
  }
  EXPECT_EQ(cache->find(text(0, 256) + others(1), "").length, 256);
}

// The time to write and the time to read.
TEST_F(StateCacheTest, ADiskMustBeTwiceAsFastAsComputing) {
  disk_worth_s_ = 1e-9;
  const Tokens tokens = text(7, 300);
  const SavedState state = state_of(kHybrid, tokens);
  const auto memory = open(kHybrid, false);
  memory->keep(tokens, "", state);
  const double bytes = static_cast<double>(memory->stats().ram_bytes);
  for (const double factor : {1.5, 2.5}) {
    const auto cache = open(kHybrid, true);
    cache->keep(tokens, "", state, factor * bytes / cache->disk()->bytes_per_second() / 300);
    cache->disk()->drain();
    EXPECT_EQ(listed(directory_.path()).empty(), factor < 2) << factor;
  }
}

TEST_F(StateCacheTest, OtherWorkersAreToldOfTheLongestPointsOnly) {
  const auto cache = open(kOnlyWindows, false);
  const Tokens tokens = text(1, 5 * kBlockTokens);
  const int last = 5 * kBlockTokens, kept = static_cast<int>(kMaxKeptPoints) + 20;
  for (int length = last - kept + 1; length <= last; length++)
    cache->keep(first(tokens, length), "", state_of(kOnlyWindows, first(tokens, length)));
  const auto points = cache->kept(prefix_keys(kFingerprint, "", tokens)).points;
  ASSERT_EQ(points.size(), kMaxKeptPoints);
  for (size_t i = 0; i < points.size(); i++) ASSERT_EQ(points[i].length, static_cast<uint32_t>(last) - i);
}

TEST_F(StateCacheTest, KeysOfOtherPromptsAreNotFollowed) {
  const auto cache = open(kAttention, false);
  const Tokens tokens = text(1, 600);
  for (const char* salt : {"mine", "theirs"}) cache->keep(tokens, salt, state_of(kAttention, tokens));
  auto keys = prefix_keys(kFingerprint, "mine", tokens);
  EXPECT_EQ(cache->kept(keys).blocks, 2u);
  keys[1] = prefix_keys(kFingerprint, "theirs", tokens)[1];
  EXPECT_EQ(cache->kept(keys).blocks, 0u);
  keys = {keys[1], keys[2]};  // a block is no root
  EXPECT_TRUE(cache->kept(keys).points.empty());
}

// Sections begin at multiples of 64 bytes, whatever those before them have.
TEST_F(StateCacheTest, RecordsForOtherWorkersAreWhole) {
  const Layers wide{{KvLayout{1, 16}, KvLayout{1, 16}}, {KvLayout{8, 128}}};
  for (const auto& [layers, length] : {std::pair(kAttention, 89), {wide, 511}}) {
    const auto cache = open(layers, false);
    const Tokens tokens = text(length, length);
    const int blocks = length / kBlockTokens;
    cache->keep(tokens, "", state_of(layers, tokens));
    const auto keys = prefix_keys(kFingerprint, "", tokens);
    const RecordHead head =
        head_after(RecordKind::snapshot, keys.back(), static_cast<uint32_t>(blocks) * kBlockTokens,
                   {tokens.begin() + blocks * kBlockTokens, tokens.end()});
    const auto bytes = cache->record(disk_record(kFingerprint, head));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_TRUE(parse_record(std::as_bytes(std::span(*bytes)), kFingerprint, nullptr).ok());
    EXPECT_LE(bytes->size(), cache->most_record_bytes());
  }
}

}  // namespace
}  // namespace anabranch
