#include "ops/cpu/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "base/poison.h"
#include "ops/cpu/device.h"

namespace anabranch::ops::cpu {
namespace {

constexpr size_t kPiece = size_t{256} << 10, kPieces = Slabs::kSlab / kPiece;

uintptr_t slab_of(const void* piece) {
  return reinterpret_cast<uintptr_t>(piece) / Slabs::kSlab;
}

TEST(Slabs, PiecesFillHugePages) {
  Slabs slabs;
  std::map<uintptr_t, int> pieces;
  for (size_t i = 0; i < 3 * kPieces; i++) pieces[slab_of(slabs.take(kPiece))]++;
  ASSERT_EQ(pieces.size(), 3u);
  for (const auto& [slab, count] : pieces) EXPECT_EQ(count, static_cast<int>(kPieces));
  EXPECT_EQ(slabs.idle_bytes(), 0u);
}

TEST(Slabs, FreePiecesAreUsedBeforeNewSlabs) {
  Slabs slabs;
  std::vector<void*> all;
  for (size_t i = 0; i < 2 * kPieces; i++) all.push_back(slabs.take(kPiece));
  void* back = all[3];
  slabs.put(back, kPiece, 0);
  EXPECT_EQ(slabs.idle_bytes(), 0u);  // its neighbours are in use, so it stays whatever the limit
  EXPECT_EQ(slabs.take(kPiece), back);
}

TEST(Slabs, AnUnusedSlabGoesBackBeyondTheLimit) {
  Slabs slabs;
  std::vector<void*> all;
  for (size_t i = 0; i < 2 * kPieces; i++) all.push_back(slabs.take(kPiece));
  for (void* piece : all) slabs.put(piece, kPiece, Slabs::kSlab);
  EXPECT_EQ(slabs.idle_bytes(), Slabs::kSlab);
  slabs.trim();
  EXPECT_EQ(slabs.idle_bytes(), 0u);
}

// A long request leaves a piece in use here and there: unused slabs are kept beside them as without them.
TEST(Slabs, PiecesInUseDoNotSendOtherSlabsBack) {
  Slabs slabs;
  std::map<uintptr_t, std::vector<void*>> pieces;
  for (size_t i = 0; i < 5 * kPieces; i++) {
    void* piece = slabs.take(kPiece);
    pieces[slab_of(piece)].push_back(piece);
  }
  std::vector<void*> pins;
  for (auto& [slab, all] : pieces) {
    if (pins.size() < 4) {
      pins.push_back(all.back());
      all.pop_back();
    }
    for (void* piece : all) slabs.put(piece, kPiece, Slabs::kSlab);
  }
  EXPECT_EQ(slabs.idle_bytes(), Slabs::kSlab);
  for (void* piece : pins) slabs.put(piece, kPiece, Slabs::kSlab);
  EXPECT_EQ(slabs.idle_bytes(), Slabs::kSlab);
}

TEST(Slabs, OnlySizesThatWasteLittle) {
  EXPECT_FALSE(Slabs::suits(64));
  EXPECT_FALSE(Slabs::suits(Slabs::kSlab));
  EXPECT_FALSE(Slabs::suits(size_t{768} << 10));  // two of them leave a quarter
}

// Buffers in use never overlap, and keep what was written, whatever else comes and goes.
TEST(BufferPool, BuffersAreTheirOwners) {
  struct Buffer {
    unsigned char* data;
    size_t bytes;
    unsigned char mark;
  };
  BufferPool pool;
  std::mt19937 random(7);
  const size_t sizes[] = {1000, 64 << 10, 100000, kPiece, kPiece + 64, size_t{1} << 20, size_t{3} << 20};
  std::vector<Buffer> used;
  for (int step = 0; step < 600; step++) {
    if (step % 50 == 0) pool.begin_pass();
    if (used.size() < 20 || random() % 2 == 0) {
      const size_t bytes = sizes[random() % std::size(sizes)];
      Buffer b{static_cast<unsigned char*>(pool.take(bytes)), bytes, static_cast<unsigned char>(step)};
      ASSERT_EQ(reinterpret_cast<uintptr_t>(b.data) % 64, 0u);
      std::memset(b.data, b.mark, b.bytes);
      used.push_back(b);
    }
    if (used.size() > 40 || random() % 3 == 0) {
      std::swap(used[random() % used.size()], used.back());
      const Buffer b = used.back();
      used.pop_back();
      for (size_t i = 0; i < b.bytes; i += 61) ASSERT_EQ(b.data[i], b.mark) << "size " << b.bytes;
      ASSERT_EQ(b.data[b.bytes - 1], b.mark);
      pool.put(b.data, b.bytes);
    }
  }
  for (const Buffer& b : used) pool.put(b.data, b.bytes);
}

TEST(BufferPool, KeepsNoMoreThanItsLimit) {
  for (const size_t size : {kPiece, size_t{3} << 20}) {  // in slabs, and of their own
    BufferPool pool;
    std::vector<void*> all;
    while (all.size() * size < 100u << 20) all.push_back(pool.take(size));
    for (void* buffer : all) pool.put(buffer, size);
    EXPECT_LE(pool.kept_bytes(), size_t{32} << 20);
    EXPECT_GE(pool.kept_bytes(), size_t{28} << 20);
  }
}

#if defined(ANABRANCH_POISON)
char byte_at(const void* data, size_t i) {
  return static_cast<const volatile char*>(data)[i];
}

TEST(BufferPool, AddressSanitizerSeesWhatIsBeyondABufferAndWhatIsFree) {
  BufferPool pool;
  for (const size_t bytes : {size_t{1000}, kPiece - 100, size_t{3} << 20}) {
    auto* buffer = static_cast<char*>(pool.take(bytes));
    std::memset(buffer, 1, bytes);
    EXPECT_DEATH(byte_at(buffer, bytes), "AddressSanitizer");
    pool.put(buffer, bytes);
    EXPECT_DEATH(byte_at(buffer, 0), "use-after-poison");
    ASSERT_EQ(pool.take(bytes), buffer);
    EXPECT_EQ(byte_at(buffer, bytes - 1), 1);
    pool.put(buffer, bytes);
  }
}

TEST(AllocateLarge, AddressSanitizerSeesWhatIsBeyondAPiece) {
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{100}, uint64_t{20} << 20}) {
    const auto first = allocate_large(bytes), second = allocate_large(bytes);
    std::memset(first.get(), 1, bytes);
    std::memset(second.get(), 1, bytes);
    EXPECT_DEATH(byte_at(first.get(), bytes), "AddressSanitizer");
    EXPECT_DEATH(byte_at(second.get(), bytes), "AddressSanitizer");
  }
}

TEST(ThreadScratch, AddressSanitizerSeesWhatIsBeyondTheBytesAskedFor) {
  std::memset(thread_scratch(0, 1000), 1, 1000);
  EXPECT_DEATH(byte_at(thread_scratch(0, 500), 500), "use-after-poison");
  EXPECT_EQ(byte_at(thread_scratch(0, 1000), 999), 1);
}
#endif

}  // namespace
}  // namespace anabranch::ops::cpu
