// The prefix cache without an engine: states of small models, made of numbers that follow from their tokens,
// are kept, found, evicted, and spoilt on disk. What is found must have the bits of what was kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "base/float16.h"
#include "cache/state_cache_fixture.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

using namespace state_cache_tests;

// 700 short requests of a quick model leave nothing on disk, and a slow model's all: only the time to compute
// counts.
TEST_F(StateCacheTest, OnDiskIsOnlyWhatIsWorthIt) {
  disk_worth_s_ = 0.25;
  constexpr double kQuick = 0.001, kSlow = 0.01;  // seconds a token
  {
    const auto cache = open(kHybrid, true);
    for (int i = 0; i < 700; ++i) {
      const Tokens tokens = text(i, 40);
      cache->keep(tokens, "", state_of(kHybrid, tokens), kQuick);
    }
    cache->disk()->drain();
    EXPECT_EQ(listed(directory_.path()).size(), 0u);
    EXPECT_EQ(cache->find(text(699, 40) + text(1, 5), "").length, 40);  // in memory it is
    cache->keep(text(1000, 40), "", state_of(kHybrid, text(1000, 40)), kSlow);
    cache->disk()->drain();
    EXPECT_EQ(listed(directory_.path()).size(), 1u);
  }
  EXPECT_EQ(open(kHybrid, true)->find(text(1000, 40) + text(1, 5), "").length, 40);
  EXPECT_EQ(open(kHybrid, true)->find(text(699, 40) + text(1, 5), "").length, 0);
}

// A conversation that grows by little is written when enough has come together, with all blocks before it.
TEST_F(StateCacheTest, WhatIsNewSinceTheLastStateOnDiskCounts) {
  for (const Layers& layers : {kHybrid, kAttention}) {
    disk_worth_s_ = 0.25;
    const Tokens tokens = text(7, 1100);
    {
      const auto cache = open(layers, true);
      int written = 0;
      for (int length = 50; length <= 1100; length += 50) {
        const size_t before = listed(directory_.path()).size();
        cache->keep(first(tokens, length), "", state_of(layers, first(tokens, length)), 0.001);
        cache->disk()->drain();
        written += listed(directory_.path()).size() > before;
      }
      EXPECT_GE(written, 3);
      EXPECT_LE(written, 4);  // each after more than 250 tokens
    }
    const auto hit = open(layers, true)->find(tokens + text(1, 5), "");
    EXPECT_GE(hit.length, 1100 - 300);
    EXPECT_TRUE(same(hit.state, state_of(layers, first(tokens, hit.length)))) << hit.length;
    clear_records(directory_.path()).value();
  }
}

// Where the disk is slower than computing, nothing is written to it.
TEST_F(StateCacheTest, ASlowDiskIsNotWorthIt) {
  disk_worth_s_ = 1e-9;
  const auto cache = open(kHybrid, true);
  const Tokens tokens = text(7, 300);
  const SavedState state = state_of(kHybrid, tokens);
  cache->keep(tokens, "", state, 1e-9);
  cache->disk()->drain();
  EXPECT_EQ(listed(directory_.path()).size(), 0u);
}

// As another process that needs room does. The cache has noticed it when this returns.
void remove_first_block(StateCache& cache, const std::string& directory) {
  cache.disk()->drain();
  for (const DiskRecord& file : listed(directory))
    if (file.kind == RecordKind::block && file.length == 256)
      std::filesystem::remove(record_path(directory, file));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(1200));  // others' changes are looked for once a second
  cache.find(text(99, 10), "");
}

// The state itself is still there: without its first block nothing could be resumed from it.
TEST_F(StateCacheTest, ABlockThatWasLostIsWrittenAgain) {
  const Tokens tokens = text(7, 600);
  const SavedState state = state_of(kHybrid, tokens);
  {
    const auto cache = open(kHybrid, true);
    cache->keep(tokens, "", state);
    remove_first_block(*cache, directory_.path());
    cache->keep(tokens, "", state);
    cache->disk()->drain();
  }
  EXPECT_EQ(open(kHybrid, true)->find(tokens + text(1, 5), "").length, 600);
}

// A state behind a lost block saves nothing, so a longer one is worth all of its tokens.
TEST_F(StateCacheTest, AStateBehindALostBlockDoesNotCount) {
  const Tokens tokens = text(7, 800);
  disk_worth_s_ = 0.25;
  {
    const auto cache = open(kHybrid, true);
    cache->keep(first(tokens, 600), "", state_of(kHybrid, first(tokens, 600)), 0.001);
    remove_first_block(*cache, directory_.path());
    cache->keep(tokens, "", state_of(kHybrid, tokens), 0.001);
    cache->disk()->drain();
  }
  EXPECT_EQ(open(kHybrid, true)->find(tokens + text(1, 5), "").length, 800);
}

TEST_F(StateCacheTest, FindsInMemoryWhatWasKept) {
  const auto cache = open(kHybrid, false);
  for (const int length : {1, 2, 255, 256, 257, 511, 512, 513, 600}) {
    const Tokens tokens = text(length, length);
    const SavedState state = state_of(kHybrid, tokens);
    cache->keep(tokens, "", state);
    const auto hit = cache->find(tokens + text(1, 5), "");
    ASSERT_EQ(hit.length, length);
    EXPECT_TRUE(same(hit.state, state)) << length;
    EXPECT_FALSE(hit.from_disk);
    EXPECT_EQ(hit.disk_tokens, 0);
  }
}

// As another worker does: by the prompt's keys alone.
TEST_F(StateCacheTest, AnotherCacheTakesRecords) {
  int seed = 100;  // records on disk are of one model
  for (const bool on_disk : {false, true})
    for (const Layers& layers : {kHybrid, kAttention, kWindows}) {
      const std::string salt = std::to_string(++seed);
      const Tokens tokens = text(seed, 600), prompt = tokens + text(3, 5);
      const auto theirs = open(layers, on_disk), ours = open(layers, false);
      for (const int length : {100, 512, 600})
        theirs->keep(first(tokens, length), salt, state_of(layers, first(tokens, length)));
      if (on_disk) {
        theirs->disk()->drain();
        theirs->set_ram_budget(0);
      }
      const auto keys = prefix_keys(kFingerprint, salt, prompt);
      const KeptPrefix kept = theirs->kept(keys);
      ASSERT_EQ(kept.blocks, 2u);
      ASSERT_EQ(kept.points.size(), 3u);
      EXPECT_EQ(kept.points[0].length, 600u);
      EXPECT_EQ(kept.points[0].mark, mark_of(next_key(keys[2], std::span(tokens).subspan(512))));
      EXPECT_EQ(kept.points[2].length, 100u);
      EXPECT_EQ(theirs->kept(prefix_keys(kFingerprint, "", prompt)).points.size(), 0u);
      EXPECT_EQ(theirs->kept(prefix_keys(kFingerprint, salt, text(9, 600))).blocks, 0u);

      const RecordHead heads[] = {
          head_after(RecordKind::block, keys[0], 0, first(tokens, 256)),
          head_after(RecordKind::block, keys[1], 256, {tokens.begin() + 256, tokens.begin() + 512}),
          head_after(RecordKind::snapshot, keys[2], 512, {tokens.begin() + 512, tokens.end()})};
      std::vector<StoredRecord> records;
      for (const RecordHead& head : heads) {
        const auto name = parse_record_name(record_name(disk_record(kFingerprint, head)));
        ASSERT_TRUE(name);
        auto bytes = theirs->record(*name);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        EXPECT_LE(bytes->size(), ours->most_record_bytes());
        const auto owner = std::make_shared<std::string>(std::move(*bytes));
        auto record = parse_record(std::as_bytes(std::span(*owner)), kFingerprint, owner);
        ASSERT_TRUE(record.ok()) << record.error().message;
        records.push_back(std::move(*record));
      }
      EXPECT_EQ(ours->kept_here(prompt, salt).length, 0);
      const auto added = ours->add(records);
      ASSERT_TRUE(added.ok()) << added.error().message;
      const auto hit = ours->find(prompt, salt);
      ASSERT_EQ(hit.length, 600);
      EXPECT_TRUE(same(hit.state, state_of(layers, tokens)));
      EXPECT_EQ(ours->kept_here(prompt, salt).length, 600);
      EXPECT_EQ(ours->kept_here(prompt, salt).blocks, 2);

      const auto misfit = open(kOnlyWindows, false);
      EXPECT_FALSE(misfit->add(records).ok());
      records.erase(records.begin());  // the others' parent is missing
      const auto third = open(layers, false);
      ASSERT_TRUE(third->add(records).ok());
      EXPECT_EQ(third->find(prompt, salt).length, 0);
      DiskRecord unknown = disk_record(kFingerprint, heads[2]);
      unknown.length--;
      EXPECT_EQ(theirs->record(unknown).error().kind, ErrorKind::not_found);
    }
}

TEST_F(StateCacheTest, ANewCacheFindsOnDiskWhatWasKept) {
  for (const Layers& layers : {kHybrid, kAttention, kWindows, kOnlyWindows}) {
    for (const int length : {1, 255, 256, 257, 512, 513, 600}) {
      const Tokens tokens = text(length, length);
      const SavedState state = state_of(layers, tokens);
      keep_on_disk(layers, tokens, {length});
      const auto cache = open(layers, true);
      auto hit = cache->find(tokens + text(1, 5), "");
      ASSERT_EQ(hit.length, length);
      EXPECT_TRUE(same(hit.state, state)) << length;
      EXPECT_TRUE(hit.from_disk);
      EXPECT_EQ(hit.disk_tokens, length);
      hit = cache->find(tokens + text(1, 5), "");
      EXPECT_TRUE(same(hit.state, state)) << length;
      EXPECT_FALSE(hit.from_disk) << "it is in memory now";
      std::filesystem::remove_all(folder_path(directory_.path(), kFingerprint));
    }
  }
}

// Blocks behind a window are in no record; the blocks of full attention are shared.
TEST_F(StateCacheTest, SnapshotsHoldWindows) {
  const Tokens tokens = text(5, 1100);
  keep_on_disk(kWindows, tokens, {600, 1100});
  const auto cache = open(kWindows, true);
  const auto hit = cache->find(tokens + text(1, 5), "");
  ASSERT_EQ(hit.length, 1100);
  EXPECT_TRUE(same(hit.state, state_of(kWindows, tokens)));
  const auto& window = std::get<ops::PagedKv>(hit.state.model.layers[1]);
  EXPECT_TRUE(window.k[2].empty());
  EXPECT_FALSE(window.k[3].empty()) << "position 1100 sees from 801 on";
  EXPECT_EQ(cache->find(first(tokens, 900), "").length, 600) << "there is no window at 899";
}

// More layers than a record can have parts for.
TEST_F(StateCacheTest, DeepModelsAreKeptInMemoryOnly) {
  for (const Layers& layers :
       {Layers{StateLayout(600, KvLayout{1, 4}), {}}, Layers{StateLayout(110, KvLayout{1, 4, 1024}), {}}}) {
    const auto cache = open(layers, true);
    EXPECT_FALSE(cache->disk());
    const Tokens tokens = text(3, 1100);
    const SavedState state = state_of(layers, tokens);
    cache->keep(tokens, "", state);
    const auto hit = cache->find(tokens + text(1, 5), "");
    ASSERT_EQ(hit.length, 1100);
    EXPECT_TRUE(same(hit.state, state));
  }
  EXPECT_TRUE(open({StateLayout(102, KvLayout{1, 4, 1024}), {}}, true)->disk());
}

TEST_F(StateCacheTest, RecurrentModelsContinueFromSnapshotsOnly) {
  const Tokens tokens = text(1, 700);
  keep_on_disk(kHybrid, tokens, {280, 520, 600});
  for (const bool on_disk : {false, true}) {
    const auto cache = open(kHybrid, on_disk);
    for (const int length : {280, 520, 600})
      if (!on_disk) cache->keep(first(tokens, length), "", state_of(kHybrid, first(tokens, length)));
    const auto find = [&](const Tokens& prompt, int expected) {
      const auto hit = cache->find(prompt, "");
      ASSERT_EQ(hit.length, expected);
      if (expected > 0) {
        EXPECT_TRUE(same(hit.state, state_of(kHybrid, first(tokens, expected))));
      }
    };
    find(tokens, 600);
    find(first(tokens, 601), 600);  // the exact point, with a token to apply
    find(first(tokens, 600), 520);  // the last token is always left out
    find(first(tokens, 590) + text(2, 50), 520);
    find(first(tokens, 300) + text(2, 50), 280);
    find(first(tokens, 279) + text(2, 50), 0);
    EXPECT_EQ(cache->find(first(tokens, 300) + text(2, 50), "").shared, 300);
    EXPECT_FALSE(cache->any_token());
  }
}

TEST_F(StateCacheTest, OtherModelsContinueFromAnyToken) {
  const Tokens tokens = text(1, 700);
  keep_on_disk(kAttention, tokens, {600});
  for (const bool on_disk : {false, true}) {
    // Each length in a cache of its own, so that each is read from disk.
    for (const int shared : {1, 100, 256, 300, 512, 530, 599}) {
      const auto cache = open(kAttention, on_disk);
      EXPECT_TRUE(cache->any_token());
      if (!on_disk) cache->keep(first(tokens, 600), "", state_of(kAttention, first(tokens, 600)));
      const auto hit = cache->find(first(tokens, shared) + text(2, 50), "");
      ASSERT_EQ(hit.length, shared);
      EXPECT_TRUE(same(hit.state, state_of(kAttention, first(tokens, shared)))) << shared;
      EXPECT_EQ(cache->find(first(tokens, 600), "").length, 599);
    }
  }
}

TEST_F(StateCacheTest, BranchesShareTheirBlocks) {
  const Tokens trunk = text(1, 300), a = trunk + text(2, 300), b = trunk + text(3, 300);
  keep_on_disk(kHybrid, a, {600});
  keep_on_disk(kHybrid, b, {600});
  const auto cache = open(kHybrid, true);
  EXPECT_EQ(cache->stats().blocks, 1u + 1 + 2);  // the root, the block in common, and one of each
  EXPECT_EQ(cache->stats().points, 2u);
  for (const Tokens& tokens : {a, b}) {
    const auto hit = cache->find(tokens + text(4, 1), "");
    ASSERT_EQ(hit.length, 600);
    EXPECT_TRUE(same(hit.state, state_of(kHybrid, tokens)));
  }
}

// Both in their first block, and behind blocks of one that had the head's part.
TEST_F(StateCacheTest, AStateWithoutTheHeadsPartIsUsedWithoutIt) {
  for (const int length : {200, 300, 600}) {
    const auto cache = open(kHybrid, false);
    const Tokens tokens = text(1, length), other = first(tokens, length - 10) + text(2, 10);
    cache->keep(other, "", state_of(kHybrid, other));
    cache->keep(tokens, "", state_of(kHybrid, tokens, false));
    const auto hit = cache->find(tokens + text(4, 1), "");
    ASSERT_EQ(hit.length, length);
    EXPECT_TRUE(same(hit.state, state_of(kHybrid, tokens, false)));
  }
}

TEST_F(StateCacheTest, AnotherSaltFindsNothing) {
  const Tokens tokens = text(1, 300);
  {
    const auto cache = open(kHybrid, true);
    cache->keep(tokens, "one", state_of(kHybrid, tokens));
    EXPECT_EQ(cache->find(tokens + text(2, 1), "two").length, 0);
    cache->disk()->drain();
  }
  const auto cache = open(kHybrid, true);
  EXPECT_EQ(cache->find(tokens + text(2, 1), "").length, 0);
  EXPECT_EQ(cache->find(tokens + text(2, 1), "two").length, 0);
  EXPECT_EQ(cache->find(tokens + text(2, 1), "one").length, 300);
}

// In memory, on disk, and while a record waits to be written: what is forgotten is gone, and what another
// sequence needs is still there.
TEST_F(StateCacheTest, ForgottenStatesAreGone) {
  for (const Layers& layers : {kHybrid, kAttention})
    for (const bool drained : {false, true}) {
      std::filesystem::remove_all(directory_.path());
      const Tokens trunk = text(1, 300), a = trunk + text(2, 400), b = trunk + text(3, 300);
      {
        const auto cache = open(layers, true);
        for (const int length : {300, 512, 700})
          cache->keep(first(a, length), "s", state_of(layers, first(a, length)));
        cache->keep(b, "s", state_of(layers, b));
        cache->keep(a, "t", state_of(layers, a));
        if (drained) cache->disk()->drain();
        cache->forget(records_of(kFingerprint, "s", a, std::vector<int>{300, 512, 700}));
        EXPECT_LE(cache->find(a + text(4, 1), "s").length, 300) << "what `b` begins with";
        EXPECT_EQ(cache->find(b + text(4, 1), "s").length, 600);
        EXPECT_EQ(cache->find(a + text(4, 1), "t").length, 700);
        cache->disk()->drain();
      }
      const auto again = open(layers, true);
      EXPECT_LE(again->find(a + text(4, 1), "s").length, 300);
      EXPECT_EQ(again->find(b + text(4, 1), "s").length, 600);
      again->forget(records_of(kFingerprint, "s", b, std::vector<int>{600}));
      again->forget(records_of(kFingerprint, "s", a, std::vector<int>{300, 512, 700}));
      again->forget(records_of(kFingerprint, "t", a, std::vector<int>{700}));
      EXPECT_EQ(again->stats().points, 0u);
      EXPECT_TRUE(listed(directory_.path()).empty());
      EXPECT_EQ(again->stats().disk_bytes, 0u);
    }
}

TEST_F(StateCacheTest, NoRecordIsNamedForLengthsThatAreNotThere) {
  const Tokens tokens = text(1, 300);
  EXPECT_EQ(records_of(kFingerprint, "s", tokens, std::vector<int>{-1, 0, 300, 301, 1000}).size(), 2u);
}

TEST_F(StateCacheTest, RecordsOfOtherModelsAreNotForgotten) {
  const Fingerprint other{77, 78};
  const Tokens tokens = text(1, 300);
  const auto cache = open(kHybrid, true);
  std::vector<std::string> files;
  for (const DiskRecord& record : records_of(other, "s", tokens, std::vector<int>{300})) {
    files.push_back(record_path(directory_.path(), record));
    std::filesystem::create_directories(folder_path(directory_.path(), other));
    std::ofstream(files.back()) << "another model's";
  }
  ASSERT_EQ(files.size(), 2u);
  cache->forget(records_of(other, "s", tokens, std::vector<int>{300}));
  for (const std::string& file : files) EXPECT_TRUE(std::filesystem::exists(file)) << file;
}

TEST_F(StateCacheTest, AForgottenBlockStaysForAStateThatEndsSoonBehindIt) {
  const Tokens trunk = text(1, 300), a = trunk + text(2, 300), b = trunk + text(3, 50);
  const auto cache = open(kHybrid, true);
  for (const Tokens& tokens : {a, b}) cache->keep(tokens, "", state_of(kHybrid, tokens));
  cache->forget(records_of(kFingerprint, "", a, std::vector<int>{600}));
  EXPECT_EQ(cache->find(a + text(4, 1), "").length, 0);
  EXPECT_EQ(cache->find(b + text(4, 1), "").length, 350);
}

// This one has not looked into the folder since.
TEST_F(StateCacheTest, WhatAnotherProcessGoesOnFromIsNotForgotten) {
  for (const Layers& layers : {kHybrid, kAttention}) {
    std::filesystem::remove_all(directory_.path());
    const Tokens trunk = text(1, 300), whole = trunk + text(2, 300);
    {
      const auto mine = open(layers, true), other = open(layers, true);
      mine->keep(trunk, "", state_of(layers, trunk));
      mine->disk()->drain();
      other->keep(whole, "", state_of(layers, whole));
      other->disk()->drain();
      mine->forget(records_of(kFingerprint, "", trunk, std::vector<int>{300}));
    }
    EXPECT_EQ(open(layers, true)->find(whole + text(4, 1), "").length, 600);
  }
}

TEST_F(StateCacheTest, WhatIsKeptAgainWhileItIsForgottenComesBackToTheDisk) {
  const Tokens tokens = text(1, 600);
  const SavedState state = state_of(kHybrid, tokens);
  SlowUnlink slow;
  change_disk_ = slow.option();
  {
    const auto cache = open(kHybrid, true);
    cache->keep(tokens, "", state);
    cache->disk()->drain();
    std::unique_lock closed(slow.mutex);
    auto forgotten = std::async(std::launch::async, [&] {
      cache->forget(records_of(kFingerprint, "", tokens, std::vector<int>{600}));
    });
    ASSERT_TRUE(slow.was_called());
    cache->keep(tokens, "", state);
    EXPECT_EQ(forgotten.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "nobody waited";
    closed.unlock();
    forgotten.get();
    cache->keep(tokens, "", state);
    cache->disk()->drain();
  }
  EXPECT_EQ(open(kHybrid, true)->find(tokens + text(2, 1), "").length, 600);
}

TEST_F(StateCacheTest, TheLeastUsedLeavesMemoryFirst) {
  const auto cache = open(kHybrid, false);
  const auto keep = [&](int i) { cache->keep(text(i, 300), "", state_of(kHybrid, text(i, 300))); };
  const auto found = [&](int i) { return cache->find(text(i, 300) + text(9, 1), "").length == 300; };
  keep(0);
  const uint64_t one = cache->stats().ram_bytes;
  keep(1);
  keep(2);
  EXPECT_EQ(cache->stats().ram_bytes, 3 * one);
  cache->set_ram_budget(2 * one);  // all are worth the same: any may go
  EXPECT_EQ(cache->stats().ram_bytes, 2 * one);
  const int used = found(0) ? 0 : 1;
  EXPECT_TRUE(found(used));
  keep(3);
  EXPECT_EQ(cache->stats().ram_bytes, 2 * one);
  for (int i = 0; i < 4; i++) EXPECT_EQ(found(i), i == used || i == 3) << i;
  cache->set_ram_budget(0);
  EXPECT_EQ(cache->stats().ram_bytes, 0u);
  EXPECT_FALSE(found(3));
}

TEST_F(StateCacheTest, WhatIsFoundAgainAndAgainStaysInMemory) {
  const auto cache = open(kHybrid, false);
  const auto keep = [&](int i) { cache->keep(text(i, 300), "", state_of(kHybrid, text(i, 300))); };
  const auto found = [&](int i) { return cache->find(text(i, 300) + text(99, 1), "").length == 300; };
  for (int i = 0; i < 3; i++) keep(i);
  cache->set_ram_budget(cache->stats().ram_bytes);
  for (int i = 3; i < 12; i++) {
    EXPECT_TRUE(found(0)) << i;
    keep(i);
  }
  EXPECT_TRUE(found(0));
}

TEST_F(StateCacheTest, WhatLeftMemoryIsStillFoundOnDisk) {
  const Tokens tokens = text(1, 600);
  const auto cache = open(kHybrid, true);
  cache->keep(tokens, "", state_of(kHybrid, tokens));
  cache->disk()->drain();
  cache->set_ram_budget(0);
  EXPECT_EQ(cache->stats().ram_bytes, 0u);
  const auto hit = cache->find(tokens + text(2, 1), "");
  EXPECT_TRUE(hit.from_disk);
  ASSERT_EQ(hit.length, 600);
  EXPECT_TRUE(same(hit.state, state_of(kHybrid, tokens)));
}

TEST_F(StateCacheTest, AStateThatTheMtpHeadDidNotFollowHasNoneAgain) {
  const Tokens tokens = text(1, 600);
  const SavedState state = state_of(kHybrid, tokens, false);
  {
    const auto cache = open(kHybrid, true);
    cache->keep(tokens, "", state);
    EXPECT_TRUE(same(cache->find(tokens + text(2, 1), "").state, state));
    cache->disk()->drain();
  }
  EXPECT_TRUE(same(open(kHybrid, true)->find(tokens + text(2, 1), "").state, state));
}

// Keys and values as numbers.
std::vector<float> values_of(const Snapshot& snapshot) {
  std::vector<float> out;
  for (const auto& layer : snapshot.layers) {
    const auto* kv = std::get_if<ops::PagedKv>(&layer);
    if (!kv) continue;
    const std::string bytes = testing::bytes_of(*kv);
    for (size_t i = 0; i < bytes.size(); i += 2) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + i, 2);
      out.push_back(f16_to_float(half));
    }
  }
  return out;
}

TEST_F(StateCacheTest, KeysAndValuesInEightBits) {
  const Tokens tokens = text(1, 600);
  const SavedState state = state_of(kHybrid, tokens);
  StateCache::Hit in_memory;
  uint64_t bytes = 0;
  {
    const auto cache = open(kHybrid, true, KvFormat::q8);
    cache->keep(tokens, "", state);
    in_memory = cache->find(tokens + text(2, 1), "");
    bytes = cache->stats().ram_bytes;
    cache->disk()->drain();
  }
  ASSERT_EQ(in_memory.length, 600);
  EXPECT_FALSE(same(in_memory.state, state)) << "nothing was rounded";
  const auto exact = values_of(state.model), rounded = values_of(in_memory.state.model);
  ASSERT_EQ(exact.size(), rounded.size());
  for (size_t i = 0; i < exact.size(); i++) ASSERT_NEAR(exact[i], rounded[i], 1 / 254.0 + 1 / 2048.0);
  for (const int layer : {0, 2}) {
    const auto& a = std::get<ops::RecurrenceState>(state.model.layers[layer]);
    const auto& b = std::get<ops::RecurrenceState>(in_memory.state.model.layers[layer]);
    EXPECT_EQ(testing::bytes_of(a.s), testing::bytes_of(b.s));
    EXPECT_EQ(testing::bytes_of(a.conv), testing::bytes_of(b.conv));
  }
  EXPECT_EQ(testing::bytes_of(state.mtp->hidden), testing::bytes_of(in_memory.state.mtp->hidden));

  const auto cache = open(kHybrid, true, KvFormat::q8);
  EXPECT_TRUE(same(cache->find(tokens + text(2, 1), "").state, in_memory.state));
  EXPECT_EQ(cache->stats().ram_bytes, bytes);
  // An exact cache must not read such sections, nor the other way round, should fingerprints ever agree.
  EXPECT_EQ(open(kHybrid, true)->find(tokens + text(2, 1), "").length, 0);
}

}  // namespace
}  // namespace anabranch
