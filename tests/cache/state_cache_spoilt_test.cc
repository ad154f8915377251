// Records on disk that do not fit: each is a miss that is counted, and the state can be kept again.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <functional>

#include "cache/state_cache_fixture.h"

namespace anabranch {
namespace {

using namespace state_cache_tests;

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
  const auto block = RecordKind::block, point = RecordKind::snapshot;
  check("keys", kHybrid, 256, block, without(SectionKind::keys, Stack::model));
  check("values", kHybrid, 512, block, without(SectionKind::values, Stack::model));
  check("the head's keys", kHybrid, 512, block, without(SectionKind::keys, Stack::mtp));
  check("the started block", kHybrid, 600, point, without(SectionKind::values, Stack::model));
  check("S", kHybrid, 600, point, without(SectionKind::recurrent_state, Stack::model));
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
  const auto block = RecordKind::block, point = RecordKind::snapshot;
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
  for (const SectionKind kind : {SectionKind::keys, SectionKind::values, SectionKind::recurrent_state,
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
      check("another size", kHybrid, 600, RecordKind::snapshot, resize);
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

}  // namespace
}  // namespace anabranch
