// The state cache without an engine: states of small models, made of numbers that follow from their tokens,
// are kept, found, evicted, and spoilt on disk. What is found must have the bits of what was kept.
#include "cache/state_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "base/float16.h"
#include "cache/disk_tools.h"
#include "cache/records.h"
#include "ops/testing.h"
#include "state/state_bits.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;
using Tokens = std::vector<int>;

constexpr int kHidden = 24;
const ops::GatedDeltaShape kDelta{
    .key_heads = 1, .value_heads = 2, .key_dim = 8, .value_dim = 8, .conv_kernel = 4};

struct Layers {
  StateLayout model, mtp;
};
const Layers kHybrid{{kDelta, KvLayout{2, 24}, kDelta, KvLayout{1, 16}}, {KvLayout{1, 16}}};
const Layers kAttention{{KvLayout{2, 24}, KvLayout{1, 16}}, {}};
// Windows that are kept in the checkpoints: beside full attention, and alone.
const Layers kWindows{{KvLayout{2, 24}, KvLayout{1, 16, 300}, KvLayout{1, 16, 1}}, {}};
const Layers kOnlyWindows{{KvLayout{1, 16, 40}}, {}};

Device& device() {
  return ops::cpu_device(1);
}

Tokens text(int seed, int count) {
  ops::Random random(static_cast<uint64_t>(seed) + 100);
  Tokens tokens(static_cast<size_t>(count));
  for (int& token : tokens) token = random.below(1000);
  return tokens;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Tokens first(const Tokens& tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

// A number for each prefix of `tokens`, from that of one token on.
std::vector<uint64_t> hashes(const Tokens& tokens) {
  std::vector<uint64_t> out;
  uint64_t hash = 1;
  for (const int token : tokens)
    out.push_back(hash = hash * 6364136223846793005u + static_cast<uint64_t>(token) + 1);
  return out;
}

Tensor random_array(uint64_t seed, const Shape& shape) {
  return device().to_device(ops::to_tensor(ops::Random(seed).vector(shape.count()), shape));
}

// Keys and values whose rows follow from the prefixes that end there.
ops::PagedKv kv_of(const KvLayout& layout, std::span<const uint64_t> prefixes, uint64_t layer) {
  ops::PagedKv kv{layout.kv_heads, layout.head_dim, 0, {}, {}};
  if (prefixes.empty()) return kv;
  const Shape shape{static_cast<int>(prefixes.size()), layout.kv_heads, layout.head_dim};
  std::vector<float> k, v;
  for (const uint64_t prefix : prefixes) {
    ops::Random random(prefix + layer);
    for (std::vector<float>* to : {&k, &v})
      for (const float x : random.vector(int64_t{layout.kv_heads} * layout.head_dim)) to->push_back(x);
  }
  ops::kv_append(kv, device().to_device(ops::to_tensor(k, shape)),
                 device().to_device(ops::to_tensor(v, shape)));
  ops::kv_drop_unseen(kv, is_windowed(layout) ? layout.window : 0);
  return kv;
}

// The state after `tokens`.
SavedState state_of(const Layers& layers, const Tokens& tokens, bool with_mtp = true) {
  const auto prefixes = hashes(tokens);
  SavedState state;
  state.model.length = static_cast<int>(tokens.size());
  for (uint64_t i = 0; i < layers.model.size(); i++) {
    if (const auto* kv = std::get_if<KvLayout>(&layers.model[i])) {
      state.model.layers.emplace_back(kv_of(*kv, prefixes, i));
      continue;
    }
    const auto& shape = std::get<ops::GatedDeltaShape>(layers.model[i]);
    const uint64_t seed = prefixes.back() + i;
    state.model.layers.emplace_back(
        ops::GatedDeltaState{random_array(seed, {shape.value_heads, shape.key_dim, shape.value_dim}),
                             random_array(seed + 50, {shape.conv_kernel - 1, shape.conv_channels()}),
                             {}});
  }
  if (layers.mtp.empty() || !with_mtp) return state;
  state.mtp = MtpSnapshot{{state.model.length - 1, {}}, random_array(prefixes.back(), {1, kHidden})};
  for (uint64_t i = 0; i < layers.mtp.size(); i++)
    state.mtp->state.layers.emplace_back(
        kv_of(std::get<KvLayout>(layers.mtp[i]), std::span(prefixes).subspan(1), 100 + i));
  return state;
}

::testing::AssertionResult same(const SavedState& a, const SavedState& b) {
  if (const auto model = same_state(a.model, b.model); !model) return model;
  if (a.mtp.has_value() != b.mtp.has_value())
    return ::testing::AssertionFailure() << "only one of them has the MTP head's part";
  if (!a.mtp) return ::testing::AssertionSuccess();
  if (testing::bytes_of(a.mtp->hidden) != testing::bytes_of(b.mtp->hidden))
    return ::testing::AssertionFailure() << "the hidden state differs";
  return same_state(a.mtp->state, b.mtp->state);
}

class StateCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<StateCache> open(const Layers& layers, bool on_disk, KvForm kv = KvForm::exact) {
    StateCacheOptions options;
    options.device = &device();
    options.model = layers.model;
    options.mtp = layers.mtp;
    options.mtp_hidden = kHidden;
    options.fingerprint = kFingerprint;
    options.kv = kv;
    options.ram_bytes = 1ull << 30;
    if (on_disk) options.disk = open_store(directory_.path(), change_disk_);
    options.disk_worth_s = disk_worth_s_;
    return std::make_unique<StateCache>(std::move(options));
  }
  // Keeps the states after these prefixes of `tokens` on disk, and closes the cache.
  void keep_on_disk(const Layers& layers, const Tokens& tokens, const std::vector<int>& lengths) {
    const auto cache = open(layers, true);
    for (const int length : lengths)
      cache->keep(first(tokens, length), "", state_of(layers, first(tokens, length)));
    cache->disk()->drain();
  }
  // Writes the record of so many tokens anew, with other sections.
  void rewrite(uint32_t length, RecordKind kind, const std::function<void(std::vector<Section>&)>& change) {
    for (const DiskRecord& file : listed(directory_.path())) {
      if (file.length != length || file.kind != kind) continue;
      const std::string path = record_path(directory_.path(), file), bytes = read_bytes(path);
      const auto record = parse_record(std::as_bytes(std::span(bytes)), kFingerprint, nullptr);
      ASSERT_TRUE(record.ok());
      std::vector<Section> sections;
      for (const auto& [tag, data] : record->sections)
        sections.push_back({tag, data.data(), data.size(), nullptr});
      change(sections);
      write_bytes(path, record_bytes(kFingerprint, record->head, sections));
      return;
    }
    FAIL() << "no record of " << length << " tokens";
  }

  TemporaryDirectory directory_;
  double disk_worth_s_ = 0;
  std::function<void(DiskOptions&)> change_disk_;
};

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
          head_after(RecordKind::checkpoint, keys[2], 512, {tokens.begin() + 512, tokens.end()})};
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
TEST_F(StateCacheTest, CheckpointsHoldWindows) {
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

TEST_F(StateCacheTest, RecurrentModelsContinueFromCheckpointsOnly) {
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

// Removes the sections with such a tag.
void drop(std::vector<Section>& sections, const std::function<bool(const SectionTag&)>& like) {
  const size_t dropped =
      std::erase_if(sections, [&](const Section& s) { return like(std::bit_cast<SectionTag>(s.tag)); });
  EXPECT_GT(dropped, 0u);
}

// Checks that a record spoilt by `change` is a miss that is counted, and that the state can be kept again.
class SpoiltRecordTest : public StateCacheTest {
 protected:
  void check(const char* what, const Layers& layers, uint32_t length, RecordKind kind,
             const std::function<void(std::vector<Section>&)>& change) {
    SCOPED_TRACE(what);
    std::filesystem::remove_all(folder_path(directory_.path(), kFingerprint));
    const Tokens tokens = text(1, 600), prompt = tokens + text(2, 1);
    keep_on_disk(layers, tokens, {280, 600});
    rewrite(length, kind, change);
    {
      const auto cache = open(layers, true);
      const auto hit = cache->find(prompt, "");
      // Without its first block nothing is left; without the other parts, what comes before them.
      const int before = length == 256 ? 0 : cache->any_token() ? 512 : 280;
      EXPECT_EQ(hit.length, before);
      EXPECT_TRUE(hit.lost);
      if (before > 0) {
        EXPECT_TRUE(same(hit.state, state_of(layers, first(tokens, before))));
      }
      EXPECT_EQ(cache->disk()->stats().unusable, 1u);
      EXPECT_EQ(cache->disk()->stats().corrupt, 0u);
      cache->keep(tokens, "", state_of(layers, tokens));
      cache->disk()->drain();
    }
    const auto hit = open(layers, true)->find(prompt, "");
    EXPECT_EQ(hit.length, 600);
    EXPECT_TRUE(same(hit.state, state_of(layers, tokens)));
  }
};

TEST_F(SpoiltRecordTest, AMissingSectionIsAMiss) {
  const auto without = [](SectionKind kind, Stack stack) {
    return [=](std::vector<Section>& sections) {
      drop(sections, [&](const SectionTag& tag) { return tag.kind == kind && tag.stack == stack; });
    };
  };
  const auto block = RecordKind::block, point = RecordKind::checkpoint;
  check("keys", kHybrid, 256, block, without(SectionKind::keys, Stack::model));
  check("values", kHybrid, 512, block, without(SectionKind::values, Stack::model));
  check("the head's keys", kHybrid, 512, block, without(SectionKind::keys, Stack::mtp));
  check("the started block", kHybrid, 600, point, without(SectionKind::values, Stack::model));
  check("S", kHybrid, 600, point, without(SectionKind::delta_state, Stack::model));
  check("conv rows", kHybrid, 600, point, without(SectionKind::conv_rows, Stack::model));
  check("hidden", kHybrid, 600, point, without(SectionKind::hidden, Stack::mtp));
  check("the head's values", kHybrid, 600, point, without(SectionKind::values, Stack::mtp));
  check("the tail", kAttention, 600, point, without(SectionKind::keys, Stack::model));
  check("one of two layers", kHybrid, 600, point, [](std::vector<Section>& sections) {
    drop(sections,
         [](const SectionTag& tag) { return tag.kind == SectionKind::conv_rows && tag.layer == 2; });
  });
}

TEST_F(SpoiltRecordTest, AnUnknownSectionIsAMiss) {
  static const char data[64] = {};
  const auto with = [](RecordTag tag) {
    return [=](std::vector<Section>& sections) {
      sections.push_back({tag, data, sizeof(data), nullptr});
      std::sort(sections.begin(), sections.end(),
                [](const Section& a, const Section& b) { return a.tag < b.tag; });
    };
  };
  const auto block = RecordKind::block, point = RecordKind::checkpoint;
  check("a kind to come", kHybrid, 600, point, with({6, 0, 0, 0}));
  check("the largest kind", kHybrid, 256, block, with({~0u, ~0u, ~0u, ~0u}));
  check("kind 0", kHybrid, 512, block, with({0, 0, 0, 0}));
  check("a third stack", kHybrid, 512, block, with({1, 2, 0, 0}));
  check("a layer too many", kHybrid, 512, block, with({1, 0, 4, 0}));
  check("keys of a recurrent layer", kHybrid, 512, block, with({1, 0, 0, 0}));
  check("S of an attention layer", kHybrid, 600, point, with({3, 0, 1, 0}));
  check("S in blocks", kHybrid, 600, point, with({3, 0, 0, 1}));
  check("hidden, but no head", kAttention, 600, point, with({5, 1, 0, 0}));
}

TEST_F(SpoiltRecordTest, ASectionOfAnotherSizeIsAMiss) {
  static const std::vector<char> zeros(1 << 20);
  for (const SectionKind kind : {SectionKind::keys, SectionKind::values, SectionKind::delta_state,
                                 SectionKind::conv_rows, SectionKind::hidden}) {
    for (const int more : {-4, 4, 1 << 18}) {
      const auto resize = [&](std::vector<Section>& sections) {
        for (Section& section : sections) {
          if (section.tag[0] != static_cast<uint32_t>(kind)) continue;
          section = {section.tag, zeros.data(), section.bytes + static_cast<uint64_t>(more), nullptr};
          return;
        }
        FAIL() << "no section of this kind";
      };
      check("another size", kHybrid, 600, RecordKind::checkpoint, resize);
      if (kind <= SectionKind::values) check("another size", kHybrid, 256, RecordKind::block, resize);
    }
  }
}

TEST_F(StateCacheTest, RecordsOfAnotherLayoutWithTheSameFingerprintAreAMiss) {
  Layers wider = kHybrid, longer = kHybrid, headless = kHybrid;
  wider.model[1] = KvLayout{2, 32};
  longer.model.push_back(KvLayout{1, 16});
  headless.mtp.clear();
  const Tokens tokens = text(1, 600);
  for (const Layers& layers : {wider, longer, headless, kAttention}) {
    keep_on_disk(kHybrid, tokens, {600});
    {
      const auto cache = open(layers, true);
      EXPECT_EQ(cache->find(tokens + text(2, 1), "").length, 0);
      EXPECT_GE(cache->disk()->stats().unusable, 1u);
    }
    std::filesystem::remove_all(folder_path(directory_.path(), kFingerprint));
  }
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
    const auto cache = open(kHybrid, true, KvForm::q8);
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
    const auto& a = std::get<ops::GatedDeltaState>(state.model.layers[layer]);
    const auto& b = std::get<ops::GatedDeltaState>(in_memory.state.model.layers[layer]);
    EXPECT_EQ(testing::bytes_of(a.s), testing::bytes_of(b.s));
    EXPECT_EQ(testing::bytes_of(a.conv), testing::bytes_of(b.conv));
  }
  EXPECT_EQ(testing::bytes_of(state.mtp->hidden), testing::bytes_of(in_memory.state.mtp->hidden));

  const auto cache = open(kHybrid, true, KvForm::q8);
  EXPECT_TRUE(same(cache->find(tokens + text(2, 1), "").state, in_memory.state));
  EXPECT_EQ(cache->stats().ram_bytes, bytes);
  // An exact cache must not read such sections, nor the other way round, should fingerprints ever agree.
  EXPECT_EQ(open(kHybrid, true)->find(tokens + text(2, 1), "").length, 0);
}

}  // namespace
}  // namespace anabranch
