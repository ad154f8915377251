// What the model really sampled in earlier assistant turns, by what clients were told of them. A template
// writes a turn that comes back in its own way (another spacing of a tool call's JSON, other token borders),
// and the prompt would part from the kept states there.
//
// A small SQLite database, so that it survives restarts and may be shared by processes. What it says is never
// believed unchecked (replay.h): damaged, foreign or lost entries cost time, not right answers. Thread-safe.
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
  // path: made if it is not there, for its owner only; empty: kept in memory. What cannot be opened, or is
  // another user's, is logged, and memory serves instead.
  explicit TurnMemory(const std::string& path);
  ~TurnMemory();

  std::optional<std::vector<int>> find(uint64_t key);
  // Of two turns with the same key the shorter stays, of two as long the one whose tokens compare less:
  // which came first must not matter. Returns at once: write() puts it into the database. The oldest go when
  // there are too many.
  void put(uint64_t key, std::span<const int> tokens);
  void write();

 private:
  class Database;
  std::unique_ptr<Database> database_;
  std::atomic<int64_t> pause_until_{0};            // Unix seconds: not read before
  std::mutex mutex_;                               // guards what follows
  std::map<uint64_t, std::vector<int>> to_write_;  // found from the moment it is put
};

// Removes the turns put before then from the database at `path`, while others use it or not, and returns how
// many there were. No file: none. Errors: io.
Result<int64_t> forget_turns(const std::string& path, int64_t before_unix_s);

}  // namespace anabranch
