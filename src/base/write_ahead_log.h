// SQLite's write-ahead log, for databases that several processes open.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <chrono>
#include <thread>

namespace anabranch {

// Turns the write-ahead log on. SQLite's busy timeout does not cover this: two processes that open a new file
// at the same time get SQLITE_BUSY at once, so it is retried for the given time. Throws SQLite::Exception.
inline void use_write_ahead_log(SQLite::Database& db, int busy_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_ms);
  for (;;) {
    try {
      db.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (const SQLite::Exception& e) {
      if (e.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() > until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace anabranch
