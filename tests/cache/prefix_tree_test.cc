#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <numeric>

namespace anabranch {
namespace {

std::vector<int> tokens_of(int count, int from = 0) {
  std::vector<int> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), from);
  return out;
}
PrefixTree::Data data() {
  return std::make_shared<int>(1);
}
const PrefixKey kRoot = root_key(fingerprint_of("test"), "");

// Keeps a point after all of `tokens`, blocks of 100 bytes and points of 10.
PrefixTree::CachedSnapshot& keep(PrefixTree& tree, const std::vector<int>& tokens, bool stored = false) {
  auto* at = &tree.add_root(kRoot);
  std::span<const int> rest = tokens;
  for (; rest.size() >= kBlockTokens; rest = rest.subspan(kBlockTokens)) {
    at = &tree.add_block(*at, rest.first(kBlockTokens), data(), 100);
    at->stored = at->stored || stored;
  }
  auto& snapshot = tree.add_snapshot(*at, rest, data(), 10);
  snapshot.stored = stored;
  return snapshot;
}

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(PrefixTree, FindsTheLongestPointAndWhatIsShared) {
  PrefixTree tree;
  const auto found_nothing = tree.find(kRoot, tokens_of(600), 599);
  EXPECT_EQ(found_nothing.node, nullptr);
  keep(tree, tokens_of(300));
  keep(tree, tokens_of(560));
  const auto whole = tree.find(kRoot, tokens_of(600), 599);
  ASSERT_TRUE(whole.snapshot);
  EXPECT_EQ(whole.snapshot->length(), 560);
  EXPECT_EQ(whole.shared, 560);
  EXPECT_EQ(whole.node->length, 512);
  // At most so many tokens.
  EXPECT_EQ(tree.find(kRoot, tokens_of(600), 559).snapshot->length(), 300);
  EXPECT_EQ(tree.find(kRoot, tokens_of(600), 299).snapshot, nullptr);
  // A prompt that parts inside a block, and one that parts inside a tail.
  const auto in_block = tree.find(kRoot, joined(tokens_of(400), tokens_of(300, 9000)), 699);
  EXPECT_EQ(in_block.snapshot->length(), 300);
  EXPECT_EQ(in_block.shared, 400);
  ASSERT_TRUE(in_block.next);
  EXPECT_EQ(in_block.next->length, 512);
  const auto in_tail = tree.find(kRoot, joined(tokens_of(540), tokens_of(300, 9000)), 839);
  EXPECT_EQ(in_tail.shared, 540);
  EXPECT_EQ(in_tail.next, nullptr);
  ASSERT_TRUE(in_tail.overhang);
  EXPECT_EQ(in_tail.overhang->length(), 560);
  // One that goes on behind what it shares in another way than all that is kept.
  const auto apart = tree.find(kRoot, joined(tokens_of(256), tokens_of(300, 9000)), 555);
  EXPECT_EQ(apart.shared, 256);
  EXPECT_EQ(apart.next, nullptr);
  EXPECT_EQ(apart.overhang, nullptr);
  EXPECT_EQ(in_block.overhang, nullptr) << "the block shares more than the point's tail";
  // A short prompt, and another root.
  EXPECT_EQ(tree.find(kRoot, tokens_of(20), 19).shared, 20);
  EXPECT_EQ(tree.find(root_key(fingerprint_of("test"), "salt"), tokens_of(600), 599).node, nullptr);
}

TEST(PrefixTree, BlocksAreShared) {
  PrefixTree tree;
  keep(tree, tokens_of(600));
  EXPECT_EQ(tree.bytes(), 210u);
  keep(tree, tokens_of(650));
  EXPECT_EQ(tree.bytes(), 220u);
  keep(tree, joined(tokens_of(256), tokens_of(300, 5000)));
  EXPECT_EQ(tree.bytes(), 330u);
  EXPECT_EQ(tree.snapshots(), 3u);
  keep(tree, tokens_of(600));  // there already
  EXPECT_EQ(tree.snapshots(), 3u);
  EXPECT_EQ(tree.bytes(), 330u);
}

TEST(PrefixTree, EvictsWhatIsWorthLeast) {
  PrefixTree tree;
  keep(tree, tokens_of(2000));
  keep(tree, tokens_of(2010));                                // saves ten tokens
  keep(tree, joined(tokens_of(256), tokens_of(100, 50000)));  // a hundred of its own
  const uint64_t all = tree.bytes();
  tree.evict(all);
  EXPECT_EQ(tree.snapshots(), 3u);
  tree.evict(all - 1);
  EXPECT_EQ(tree.snapshots(), 2u);
  EXPECT_EQ(tree.find(kRoot, tokens_of(2100), 2099).snapshot->length(), 2000);
  tree.evict(0);
  EXPECT_EQ(tree.bytes(), 0u);
  EXPECT_EQ(tree.snapshots(), 0u);
  EXPECT_LE(tree.nodes(), 1u);
}

TEST(PrefixTree, UseKeeps) {
  PrefixTree tree;
  const auto a = tokens_of(300), b = tokens_of(300, 10000);
  keep(tree, a);
  keep(tree, b);
  tree.evict(219);  // one of the two goes, which raises the clock
  EXPECT_EQ(tree.snapshots(), 1u);
  const bool a_left = tree.find(kRoot, joined(a, a), 599).snapshot != nullptr;
  const auto &left = a_left ? a : b, &gone = a_left ? b : a;
  tree.use(*tree.find(kRoot, joined(left, left), 599).snapshot);
  auto& fresh = keep(tree, gone);
  fresh.clock = 0;  // as if of long ago
  tree.evict(219);
  EXPECT_TRUE(tree.find(kRoot, joined(left, left), 599).snapshot);
  EXPECT_FALSE(tree.find(kRoot, joined(gone, gone), 599).snapshot);
}

// So that what other workers sent does not leave before all else.
TEST(PrefixTree, WhatIsNewCountsAsUsed) {
  PrefixTree tree;
  for (int i = 0; i < 4; i++) keep(tree, tokens_of(300, 10000 * i));
  tree.evict(220);
  const auto& used = keep(tree, tokens_of(300, 50000));
  EXPECT_GT(used.clock, 0);
  tree.evict(110);
  EXPECT_TRUE(tree.find(kRoot, joined(tokens_of(300, 50000), tokens_of(1)), 300).snapshot);
}

// A point does not pay for the blocks that others need, too.
TEST(PrefixTree, SharedBlocksAreNobodysCost) {
  PrefixTree tree;
  auto& root = tree.add_root(kRoot);
  const auto tokens = tokens_of(712), lone = tokens_of(300, 50000);
  auto& shared = tree.add_block(root, std::span(tokens).first(256), data(), 1000);
  auto& own = tree.add_block(shared, std::span(tokens).subspan(256, 256), data(), 10);
  tree.add_snapshot(shared, std::span(tokens).subspan(256, 44), data(), 10);
  tree.add_snapshot(own, std::span(tokens).subspan(512), data(), 10);
  auto& apart = tree.add_block(root, std::span(lone).first(256), data(), 10);
  tree.add_snapshot(apart, std::span(lone).subspan(256), data(), 10);
  tree.evict(tree.bytes() - 1);
  EXPECT_EQ(tree.find(kRoot, joined(lone, lone), 599).snapshot, nullptr);
  EXPECT_TRUE(tree.find(kRoot, tokens, 300).snapshot);
  EXPECT_EQ(tree.find(kRoot, joined(tokens, lone), 1000).snapshot->length(), 712);
}

PrefixTree::Node& last_block(PrefixTree& tree, const std::vector<int>& tokens) {
  return *tree.find(kRoot, tokens, static_cast<int>(tokens.size())).node;
}

// Of models that go on from any token: blocks are used without a snapshot, and outlive it.
TEST(PrefixTree, BlocksUsedByThemselvesAreKeptByTheirOwnUse) {
  PrefixTree tree;
  const auto hot = tokens_of(512), cold = tokens_of(512, 10000);
  const auto keep_used = [&](const std::vector<int>& tokens) {
    keep(tree, tokens);
    tree.use(last_block(tree, tokens));
  };
  keep_used(hot);
  keep_used(cold);
  for (int i = 0; i < 20; i++) {  // others come and go, and `hot` is used in between
    keep_used(tokens_of(512, 20000 + 1000 * i));
    tree.evict(520);
    tree.use(last_block(tree, hot));
    EXPECT_EQ(last_block(tree, hot).length, 512) << i;
    EXPECT_TRUE(last_block(tree, hot).data) << i;
    EXPECT_LE(tree.bytes(), 520u);
  }
  EXPECT_EQ(last_block(tree, cold).length, 0);
  tree.evict(100);  // the end goes before what it stands on
  EXPECT_EQ(tree.bytes(), 100u);
  tree.evict(0);
  EXPECT_EQ(tree.bytes(), 0u);
  EXPECT_LE(tree.nodes(), 1u);
}

// Read from disk for a snapshot that then could not be read.
TEST(PrefixTree, BlocksThatNothingNeedsGoFirst) {
  PrefixTree tree;
  auto& kept = keep(tree, tokens_of(300));
  tree.use(kept);
  auto* at = &tree.add_root(kRoot);
  for (int i = 0; i < 3; i++) {
    at = &tree.add_block(*at, tokens_of(kBlockTokens, 1000 * (i + 1)), data(), 100);
    at->stored = true;
  }
  EXPECT_EQ(tree.bytes(), 410u);
  tree.evict(409);
  EXPECT_EQ(tree.bytes(), 110u);
  EXPECT_TRUE(tree.find(kRoot, tokens_of(400), 399).snapshot);
  EXPECT_EQ(tree.nodes(), 5u);  // the stored ones stay known
}

TEST(PrefixTree, WhatIsStoredStaysKnown) {
  PrefixTree tree;
  keep(tree, tokens_of(600), true);
  tree.evict(0);
  EXPECT_EQ(tree.bytes(), 0u);
  const auto found = tree.find(kRoot, tokens_of(700), 699);
  ASSERT_TRUE(found.snapshot);
  EXPECT_EQ(found.snapshot->length(), 600);
  EXPECT_EQ(found.snapshot->data, nullptr);
  // A block that is lost takes with it what comes after.
  tree.remove(*found.node->parent);
  EXPECT_EQ(tree.find(kRoot, tokens_of(700), 699).snapshot, nullptr);
  EXPECT_EQ(tree.snapshots(), 0u);
  EXPECT_EQ(tree.nodes(), 1u);
}

TEST(PrefixTree, WhatLeftTheDiskIsForgotten) {
  PrefixTree tree;
  const auto tokens = tokens_of(300);
  const auto block = next_key(kRoot, std::span(tokens).first(kBlockTokens));
  const auto point = next_key(block, std::span(tokens).subspan(kBlockTokens));
  keep(tree, tokens, true);
  tree.not_stored(block, point, 300);  // still in memory
  EXPECT_EQ(tree.snapshots(), 1u);
  keep(tree, tokens, true);
  tree.evict(0);
  EXPECT_EQ(tree.nodes(), 2u);  // on disk: a root and a block
  tree.not_stored(block, point, 299);
  EXPECT_EQ(tree.snapshots(), 1u);
  tree.not_stored(block, point, 300);
  EXPECT_EQ(tree.snapshots(), 0u);
  tree.not_stored(block);
  EXPECT_EQ(tree.nodes(), 0u);
}

TEST(PrefixTree, RootsOfSaltsThatAreGoneTakeNoMemory) {
  PrefixTree tree;
  for (int i = 0; i < 100; i++) {
    auto& root = tree.add_root(root_key(fingerprint_of("test"), std::to_string(i)));
    tree.add_snapshot(root, tokens_of(5), data(), 10);
    tree.evict(50);
  }
  EXPECT_EQ(tree.nodes(), 5u);
}

// "+512" for a block that ends there and is stored, "-512" for one that is not any more.
std::string changes_of(PrefixTree& tree) {
  std::string out;
  for (const BlockChange& change : tree.take_changes()) {
    out += (change.stored ? "+" : "-") + std::to_string(change.length) + " ";
    EXPECT_EQ(change.tokens.size(), change.stored ? kBlockTokens : 0u);
    if (change.length == kBlockTokens) {
      EXPECT_EQ(change.parent, kRoot);
    }
  }
  return out;
}

TEST(PrefixTree, TellsWhichBlocksCanBeResumedBehind) {
  PrefixTree tree;
  tree.watch(kRoot, false);
  keep(tree, tokens_of(600));
  EXPECT_EQ(changes_of(tree), "+256 +512 ");
  auto& middle = keep(tree, tokens_of(300));
  EXPECT_EQ(changes_of(tree), "") << "its block is known";
  auto& other = keep(tree, joined(tokens_of(256), tokens_of(300, 5000)));
  EXPECT_EQ(changes_of(tree), "+512 ");
  auto* block = &tree.add_block(*other.node, tokens_of(256, 900), data(), 100);
  EXPECT_EQ(changes_of(tree), "") << "a block without a snapshot behind it is of no use";
  tree.add_snapshot(*block, {}, data(), 10);
  EXPECT_EQ(changes_of(tree), "+768 ");
  tree.remove(middle);
  EXPECT_EQ(changes_of(tree), "");
  tree.remove(*other.node);
  EXPECT_EQ(changes_of(tree), "-768 -512 ") << "children before parents";
  tree.evict(0);
  EXPECT_EQ(changes_of(tree), "-512 -256 ");
}

TEST(PrefixTree, TellsOfStoredBlocksUntilTheyAreGone) {
  PrefixTree tree;
  tree.watch(kRoot, false);
  const auto tokens = tokens_of(600);
  auto& snapshot = keep(tree, tokens, true);
  const PrefixKey block = snapshot.node->key, point = next_key(block, snapshot.tail);
  changes_of(tree);
  tree.evict(0);
  EXPECT_EQ(changes_of(tree), "") << "they are on disk";
  tree.not_stored(block, point, 600);
  EXPECT_EQ(changes_of(tree), "-512 -256 ");
}

TEST(PrefixTree, TellsOfEveryBlockAndOfOneRootOnly) {
  PrefixTree tree;
  tree.watch(kRoot, true);
  auto& first = tree.add_block(tree.add_root(kRoot), tokens_of(256), data(), 100);
  auto& second = tree.add_block(first, tokens_of(256, 256), data(), 100);
  EXPECT_EQ(changes_of(tree), "+256 +512 ");
  tree.add_snapshot(second, tokens_of(5), data(), 10);
  tree.add_block(tree.add_root(root_key(fingerprint_of("test"), "salt")), tokens_of(256), data(), 100);
  EXPECT_EQ(changes_of(tree), "");
  tree.remove(second);
  EXPECT_EQ(changes_of(tree), "-512 ");
  tree.remove(first);
  EXPECT_EQ(changes_of(tree), "-256 ");
}

}  // namespace
}  // namespace anabranch
