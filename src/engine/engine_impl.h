// The engine behind engine.h: one thread, the model, and the sequences on their way. Its parts: engine.cc
// (requests in and out, the loop), engine_load.cc (what a model brings), engine_cache.cc (states kept and
// found again), engine_thinking.cc (bounds of thoughts) and engine_step.cc (passes, sampling, what follows a
// token).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cache/state_cache.h"
#include "engine/loader.h"
#include "engine/logits.h"
#include "engine/memory_guard.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace anabranch {

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, LoadFunction load)
      : options_(options),
        load_model_(std::move(load)),
        scheduler_({options.prefill_chunk, options.max_running, options.max_queue, options.max_gap_s}) {}
  ~EngineImpl() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> start();
  Result<RequestId> submit(Request request, Sink sink) override;
  void compile_grammar(std::string text, std::weak_ptr<const void> client, GrammarDone done) const override {
    grammars_->compile(std::move(text), std::move(client), std::move(done));
  }
  Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(const std::string& text) const override {
    return grammars_->compile(text);
  }
  Result<void> check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                               std::span<const int> tokens) const override;
  void cancel(RequestId id) override;
  const ModelInfo& info() const override { return loaded_.info; }
  EngineStats stats() const override;
  bool device_lost() const override { return device_ && device_->lost(); }
  const text::Tokenizer& tokenizer() const override { return *loaded_.tokenizer; }
  const text::ChatTemplate* chat_template() const override { return loaded_.chat_template.get(); }
  const SamplingParams& default_sampling() const override { return loaded_.sampling; }

 private:
  Result<void> load();
  Result<void> load_safely();
  void run();
  bool drain_inbox();
  Result<void> plan_memory();
  void guard_memory();
  void use_calibration();
  Result<void> drop_layers();
  Result<void> load_draft_model();
  void load_statistics();
  void save_statistics() const;
  Result<void> open_cache();
  void describe_thoughts();
  void describe_vocabulary();
  ThinkRules think_rules(const Request& request) const;
  void schedule();
  void admit();
  void note_running();  // mutex_ held
  void begin(Sequence& sequence);
  bool wait_for_alike(Sequence& sequence);
  void resume(Sequence& sequence, bool first);
  void keep(Sequence& sequence, const Snapshot& snapshot);
  void keep_safely(Sequence& sequence, const Snapshot* snapshot = nullptr);
  void note_cache();
  void drop_state(Sequence& sequence);
  void step(const StepPlan& plan);
  void guard(RequestId id, const std::function<void()>& work);
  StepPart prepare(const Piece& piece);
  DraftTimes draft(std::vector<StepPart>& parts, const StepPlan& plan);
  void add_rows(Batch& batch, StepPart& part);
  struct Pass {
    Tensor hidden;
    Logits logits;
    double started;
  };
  std::unique_ptr<Pass> forward(std::vector<StepPart>& parts);
  void take_tokens(StepPart& part, Logits& logits);
  void settle(StepPart& part);
  void conclude(StepPart& part, const Tensor& hidden, double verify_s, bool shared);
  int draw(Sequence& sequence, Logits& logits, size_t row);
  int tokens_left(const Sequence& sequence) const;
  FinishReason accept(Sequence& sequence, int token);
  FinishReason finish_reason(Sequence& sequence, int token);
  void end(RequestId id, FinishReason reason, std::vector<int> last_tokens, std::string error = {});

  EngineOptions options_;
  LoadFunction load_model_;
  std::shared_ptr<Device> device_;  // outlives everything below
  LoadedModel loaded_;
  LoadedModel draft_;
  std::string context_note_;           // why the context is shorter than the model's; for messages
  std::vector<uint8_t> token_traits_;  // by token
  ThinkTokens think_tokens_;
  std::vector<int> call_tokens_;  // that open a tool call, sorted
  std::unique_ptr<GrammarCompiler> grammars_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Sequence>> arrivals_;
  std::vector<RequestId> cancels_;
  EngineStats stats_;
  RequestId next_id_ = 1;
  int waiting_ = 0;  // arrivals and queued sequences
  bool stopping_ = false;

  // Engine thread only.
  Scheduler scheduler_;
  std::optional<MemoryGuard> memory_;  // from load() on
  double memory_checked_ = 0;
  double tokens_out_ = 0;  // when the last step's tokens went out
  SpecResources spec_;
  std::string statistics_path_;        // empty: not kept
  std::unique_ptr<StateCache> cache_;  // may be null
  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::thread thread_;
};

}  // namespace anabranch
