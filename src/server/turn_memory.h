// What the model really sampled in earlier assistant turns, by what clients were told of them. A template
// writes a turn that comes back in its own way (another spacing of a tool call's JSON, other token borders),
// and the prompt would part from the kept states there.
//
// A small SQLite database, so that it survives restarts and may be shared by processes. What it says is never
// believed unchecked (replay.h): damaged, foreign or lost entries cost time, not right answers. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace anabranch::server {

class TurnMemory {
 public:
  // path: made if it is not there, for its owner only; empty: kept in memory. What cannot be opened is
  // logged, and kept in memory instead.
  explicit TurnMemory(const std::string& path);
  ~TurnMemory();

  std::optional<std::vector<int>> find(uint64_t key);
  // Replaces what was kept under the key. Returns at once: write() puts it into the database. The oldest go
  // when there are too many.
  void put(uint64_t key, std::span<const int> tokens);
  void write();

 private:
  class Database;
  std::unique_ptr<Database> database_;
  std::mutex mutex_;                               // guards what follows
  std::map<uint64_t, std::vector<int>> to_write_;  // found from the moment it is put
};

}  // namespace anabranch::server
