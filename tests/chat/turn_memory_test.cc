// Entries of the turns' database that nobody here wrote.
#include "chat/turn_memory.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace anabranch {
namespace {

TEST(TurnMemoryFile, EntriesOfAnotherSizeAreNotBelieved) {
  std::string folder = ::testing::TempDir() + "anabranch-turns-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder.data()));
  const std::string path = folder + "/turns.db";
  const size_t most = kMostTurnTokens * sizeof(int32_t);
  const std::vector<size_t> sizes = {0, 1, 3, 4, 5, 7, 8, most, most + 1, most + 4, 4 * most};
  {
    TurnMemory made(path);
    SQLite::Database db(path, SQLite::OPEN_READWRITE);
    for (const size_t size : sizes) {
      SQLite::Statement insert(db, "INSERT INTO turns VALUES (?, zeroblob(?), 1)");
      insert.bind(1, static_cast<int64_t>(size));
      insert.bind(2, static_cast<int64_t>(size));
      insert.exec();
    }
  }
  TurnMemory memory(path);
  for (const size_t size : sizes) {
    const auto tokens = memory.find(size);
    const bool good = size > 0 && size % sizeof(int32_t) == 0 && size <= most;
    EXPECT_EQ(tokens.has_value(), good) << size;
    if (tokens) {
      EXPECT_EQ(tokens->size(), size / sizeof(int32_t));
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(TurnMemoryFile, NothingTooLongIsPut) {
  TurnMemory memory("");
  memory.put(1, {});
  memory.put(2, std::vector<int>(kMostTurnTokens));
  memory.put(3, std::vector<int>(kMostTurnTokens + 1));
  for (int round = 0; round < 2; round++, memory.write()) {
    EXPECT_FALSE(memory.find(1));
    EXPECT_TRUE(memory.find(2));
    EXPECT_FALSE(memory.find(3));
  }
}

// 500 turns of 240 kB are more than the 64 MB that all may have; between two looks another hundred come.
TEST(TurnMemory, LongTurnsAreBoundedTogether) {
  constexpr int kTurns = 500, kFit = (64 << 20) / 240'000;
  TurnMemory memory("");
  const std::vector<int> turn(60'000, 7);
  for (uint64_t key = 1; key <= kTurns; key++) {
    memory.put(key, turn);
    memory.write();
  }
  int kept = 0;
  for (uint64_t key = 1; key <= kTurns; key++) kept += memory.find(key).has_value();
  EXPECT_LE(kept, kFit + 100);
  EXPECT_GE(kept, kFit);
}

TEST(TurnMemory, ForgetsWrittenAndUnwrittenTurnsAndNoOthers) {
  TurnMemory memory("");
  memory.put(1, std::vector{11});
  memory.put(2, std::vector{12});
  memory.write();
  memory.put(3, std::vector{13});
  memory.put(4, std::vector{14});
  memory.forget(std::vector<uint64_t>{1, 3});
  memory.write();
  EXPECT_FALSE(memory.find(1) || memory.find(3));
  EXPECT_EQ(memory.find(2), std::vector{12});
  EXPECT_EQ(memory.find(4), std::vector{14});
}

}  // namespace
}  // namespace anabranch
