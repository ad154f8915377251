// The engine's thread: takes requests from the inbox, asks the scheduler what to compute, runs steps, and
// delivers events. Only this thread uses EngineLoop; other threads use the Inbox.
//
// Where possible, it submits a step before it collects the previous one, so that it delivers tokens, takes
// requests and plans while the device computes. The submitted step is then the pending step.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/image_encoder.h"
#include "engine/memory_plan.h"
#include "engine/scheduler.h"
#include "engine/snapshot_keeper.h"
#include "engine/step.h"

namespace anabranch {

// Shared between the engine's thread and all others.
struct Inbox {
  mutable std::mutex mutex;  // guards all members below
  std::condition_variable wake;
  std::deque<std::unique_ptr<Sequence>> arrivals;
  std::vector<RequestId> cancels;
  std::deque<std::function<void()>> jobs;  // for the engine's thread, while no pass runs
  EngineStats stats;
  // Memory of adapters. Shared, because an adapter may end after the engine.
  const std::shared_ptr<std::atomic<uint64_t>> adapter_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  RequestId next_id = 1;
  int waiting = 0;  // arrivals and queued sequences
  bool stopping = false;
};

class EngineLoop {
 public:
  EngineLoop(const EngineOptions& options, EngineModel& model, const MemoryPlan& memory,
             SnapshotKeeper keeper, Inbox& inbox);

  // Runs until inbox.stopping is set, then gives every request its last event.
  void run();

 private:
  bool take_inbox();
  void guard_memory();
  void schedule();
  void admit();
  void begin(Sequence& sequence);
  bool needs_images(Sequence& sequence);
  void encode_images();
  void drop_state(Sequence& sequence);
  bool may_follow(StepPlan& plan);
  void step(StepPlan plan);
  void settle();
  void finish(Step& step, bool followed);
  bool collect(Step& step);
  void fail(Step& step, const std::exception& e);
  void deliver(const Step& step, StepPart& part);
  void settle_follower(const StepPart& part);
  double pending_end() const;
  void finish_part(Step& step, StepPart& part, double delivered);
  void guard(RequestId id, const std::function<void()>& work);
  void end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error = {});
  void count_ended(const Sequence& sequence, FinishReason reason);  // inbox_.mutex held, as for the next one
  void note_running();
  void note_cache();

  const EngineOptions& options_;
  EngineModel& model_;
  Inbox& inbox_;
  Scheduler scheduler_;
  const uint64_t all_states_;  // the budget of running requests without adapters
  MemoryGuard memory_;
  SnapshotKeeper keeper_;
  std::unique_ptr<ImageEncoder> images_;  // null: the model reads none
  const bool overlap_;
  StepRunner runner_;
  Sequences sequences_;
  std::optional<Step> pending_;  // submitted, not collected yet
  double memory_checked_ = 0;
  double tokens_out_ = 0;  // when the last step's tokens were delivered
  double computed_ = 0;    // when the device finished that step
};

}  // namespace anabranch
