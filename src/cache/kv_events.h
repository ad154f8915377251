// Reports to routers the blocks of tokens after which this server can resume a prompt: messages over ZeroMQ,
// in the format of vLLM's engines. docs/server.md describes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/prefix_tree.h"

namespace anabranch {

class KvEvents {
 public:
  // Listens on a ZeroMQ endpoint, such as tcp://127.0.0.1:5557. Errors: io (it cannot listen there).
  static Result<std::unique_ptr<KvEvents>> open(const std::string& endpoint);
  // Reports that all blocks are gone, and waits a moment until subscribers have received it.
  ~KvEvents();
  KvEvents(const KvEvents&) = delete;
  KvEvents& operator=(const KvEvents&) = delete;

  // Queues changes; a separate thread sends them. Nothing waits for subscribers: one that is too slow misses
  // messages, which it notices by the gap in their numbers.
  void publish(std::vector<BlockChange> changes);

 private:
  class Impl;
  explicit KvEvents(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch
