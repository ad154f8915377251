#include "base/write_ahead_log.h"

#include <gtest/gtest.h>

#include "temp_dir.h"

namespace anabranch {
namespace {

// SQLite itself does not wait here, whatever busy timeout it was given.
TEST(WriteAheadLog, WaitsForAnotherProcessThatHoldsTheNewFile) {
  const testing::TempDir folder;
  const std::string path = folder.file("new.db");
  const int flags = SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
  SQLite::Database other(path, flags), db(path, flags);
  other.exec("BEGIN EXCLUSIVE");
  EXPECT_THROW(use_write_ahead_log(db, 0), SQLite::Exception);
  std::thread letting_go([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the time for which it is held
    other.exec("COMMIT");
  });
  EXPECT_NO_THROW(use_write_ahead_log(db, 60'000));
  letting_go.join();
  EXPECT_EQ(db.execAndGet("PRAGMA journal_mode").getString(), "wal");
}

}  // namespace
}  // namespace anabranch
