// The tokens that the model sampled in earlier assistant turns, found by a hash of the conversation. When a
// client sends such a turn back, a template may render it differently (other spacing in a tool call's JSON,
// other token borders), and the cached states of the sampled tokens would not match the prompt.
//
// A small SQLite database, so that it survives restarts and may be shared by processes. Every
// entry is checked against the request (replay.h): damaged, foreign or lost entries cost time, but never
// change an answer. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch {

inline constexpr size_t kMostTurnTokens = 1 << 16;  // longer turns are not kept

class TurnMemory {
 public:
  // path: created for its owner only if missing; empty: in memory. If the file cannot be opened or belongs to
  // another user, that is logged and turns are kept in memory.
  explicit TurnMemory(const std::string& path);
  ~TurnMemory();

  std::optional<std::vector<int>> find(uint64_t key);
  // Remembers a turn. Of two turns with the same key the shorter stays; of two with the same length, the one
  // whose tokens come first in lexicographic order. So the order of calls does not matter. Returns at once:
  // write() stores the turn in the database. When the database has too many turns, the oldest are removed.
  void put(uint64_t key, std::span<const int> tokens);
  void write();
  // Removes the turns with these keys, written or not.
  void forget(std::span<const uint64_t> keys);

 private:
  class Database;
  std::unique_ptr<Database> database_;
  std::atomic<int64_t> pause_until_{0};            // Unix seconds; the database is not read before this time
  std::mutex writing_;                             // while a turn is written, or turns are forgotten
  std::mutex mutex_;                               // guards what follows
  std::map<uint64_t, std::vector<int>> to_write_;  // turns not written yet; find() already finds them
};

// Removes the turns that were put before this time from the database at `path`, even while others use it, and
// returns how many. Without a file: 0. Errors: io.
Result<int64_t> forget_turns(const std::string& path, int64_t before_unix_s);
// Removes the turns with these keys.
Result<int64_t> forget_turns(const std::string& path, std::span<const uint64_t> keys);

}  // namespace anabranch
