// Tells routers which blocks of tokens a prompt can be resumed from here: messages over ZeroMQ, in the form
// of vLLM's engines. docs/server.md describes them.
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
  // Says that all blocks are gone, and waits for a moment until subscribers have been told.
  ~KvEvents();
  KvEvents(const KvEvents&) = delete;
  KvEvents& operator=(const KvEvents&) = delete;

  // Queues changes. A thread of its own sends them, which never waits for subscribers either: one that is too
  // slow misses messages and sees it by their numbers.
  void publish(std::vector<BlockChange> changes);

 private:
  class Impl;
  explicit KvEvents(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch
