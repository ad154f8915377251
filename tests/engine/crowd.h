// For tests of requests to which something happens while they run: an engine that has memory for one request
// and two others until these have grown, and sinks that act when tokens come.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/tiny_model.h"
#include "ops/attention.h"
#include "variable.h"

namespace anabranch::testing {

// overlap: $ANABRANCH_OVERLAP while the engine is made.
inline std::unique_ptr<Engine> engine_with(const EngineOptions& options, bool overlap) {
  const Variable variable("ANABRANCH_OVERLAP", overlap ? "1" : "0");
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

// Calls `then` once, after so many tokens or parts of the prompt were delivered. On the engine's thread.
inline Sink when_delivered(int count, std::function<void()> then, Sink sink) {
  return [count, then = std::move(then), sink = std::move(sink), seen = 0,
          done = false](const Event& event) mutable {
    sink(event);
    seen += static_cast<int>(event.tokens.size()) + (event.prefilled > 0);
    if (done || seen < count) return;
    done = true;
    then();
  };
}

// The memory that a request of at most kKvBlock tokens takes while it runs.
inline uint64_t bytes_of_small_request(Engine& engine) {
  Collector collector;
  uint64_t bytes = 0;
  const auto note = [&] { bytes = engine.stats().state_bytes; };
  EXPECT_TRUE(engine.submit(request_of(40, 4), when_delivered(2, note, collector.sink(0))).ok());
  collector.wait(0);
  return bytes;
}

// Memory for one request of so many blocks of keys and values and for both of the Crowd, until these have
// grown.
inline uint64_t tight_memory(const EngineOptions& options, bool overlap, uint64_t blocks) {
  const auto engine = engine_with(options, overlap);
  const ModelInfo& info = engine->info();
  const uint64_t block = ops::kKvBlock * (info.kv_bytes_per_token + info.draft_kv_bytes_per_token);
  const uint64_t fixed = bytes_of_small_request(*engine) - block;
  return 3 * fixed + (blocks + 3) * block;
}

// Two requests of higher priority. Each needs another block after five tokens.
class Crowd {
 public:
  explicit Crowd(Engine& engine) : engine_(engine) {
    for (int i = 0; i < 2; i++) {
      Request request = request_of(ops::kKvBlock - 20, 30, 0);
      request.prompt[0] = 200 + i;
      request.priority = -1;
      request.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
      want_.push_back(run(engine, request));  // their prompts' states are kept from now on
      requests_.push_back(std::move(request));
    }
  }
  // May be called by sinks.
  void come() {
    for (const Request& request : requests_)
      EXPECT_TRUE(engine_.submit(request, collector_.sink(came_++)).ok());
  }
  void expect_answers() {
    for (int i = 0; i < came_; i++)
      EXPECT_EQ(collector_.wait(i).tokens, want_[static_cast<size_t>(i % 2)]) << i;
  }

 private:
  Engine& engine_;
  std::vector<Request> requests_;
  std::vector<std::vector<int>> want_;
  Collector collector_;
  int came_ = 0;
};

inline void expect_idle(const Engine& engine) {
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running + stats.queued, 0);
  EXPECT_EQ(stats.state_bytes, 0u);
  EXPECT_EQ(stats.requests, stats.finished + stats.cancelled + stats.failed);
}

}  // namespace anabranch::testing
