#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "chat/engine_request.h"
#include "chat/message_text.h"
#include "chat/preparer.h"
#include "cli/locate.h"
#include "cli/partner.h"
#include "cli/prompts.h"
#include "server/api/trace_eraser.h"

namespace anabranch::cli {
namespace {

class LocalPartner : public Partner {
 public:
  explicit LocalPartner(const ChatOptions& options)
      : options_(options),
        adapters_of_(options.engine.model_path),
        seed_(options.sampling.seed.value_or(std::random_device{}())) {}

  Result<void> load(const std::string& path) {
    EngineOptions engine = options_.engine;
    engine.model_path = path;
    TRY(engine_, make_engine(engine, options_.spec, options_.cache));
    if (path == adapters_of_) {
      TRY(adapters_, applied_adapters(*engine_, options_.adapters));
    }
    // Sampled turns are stored beside the cached states, so that a continued conversation finds both.
    const auto cache = cache_options(engine.cache, options_.cache);
    const bool on_disk = cache.enabled && !cache.directory.empty();
    preparer_ = std::make_unique<Preparer>(
        *engine_, PrepareOptions{{}, on_disk ? cache.directory + "/turns.db" : std::string(), cache.enabled});
    options_.engine = std::move(engine);
    return {};
  }

  std::string name() const override { return engine_->info().name; }
  bool gone() const override { return !engine_; }

  // Two models may not fit in memory: unload the old one first, and load it again if the new one fails.
  Result<void> change_model(const std::string& path_or_name) override {
    TRY(const std::string path, locate_model(path_or_name));
    (void)late_states();
    preparer_.reset();
    adapters_.clear();
    engine_.reset();
    const auto loaded = load(path);
    if (loaded) return {};
    if (const auto back = load(options_.engine.model_path); !back)
      return make_error(back.error().kind, "{}; and the model from before: {}", loaded.error().message,
                        back.error().message);
    return loaded.error();
  }

  Result<Answer> answer(const Json& messages, const AnswerOptions& wanted,
                        const std::atomic<bool>& interrupt) override {
    const SamplingOptions& asked = wanted.sampling ? *wanted.sampling : options_.sampling;
    GenerationOptions generation = generation_options(asked, *engine_, seed_);
    generation.max_tokens = wanted.max_tokens.value_or(asked.max_tokens);
    apply_adapters(generation, adapters_);
    Json body = {{"messages", messages}};
    if (!wanted.tools.is_null()) body["tools"] = wanted.tools;
    if (!wanted.tools.is_null() && !wanted.may_call) body["tool_choice"] = "none";
    TRY(const Prepared prepared,
        prepare_chat(*engine_, *preparer_, body, wanted.thinking.value_or(options_.thinking),
                     std::move(generation), [&] { return interrupt.load(); }));
    auto late = late_states();
    TRY(Answer answer, run_prompt(*engine_, prepared, wanted.silent, interrupt, wanted.progress));
    if (prepared.remember && answer.finish == FinishReason::stop && !answer.stop_found)
      for (const uint64_t key :
           preparer_->remember(answer.tokens, TurnEndReason::end_of_turn, *prepared.remember, prepared.rules))
        late.push_back(server::turn_trace(key));
    answer.states.insert(answer.states.end(), late.begin(), late.end());
    preparer_->write_turns();
    if (!wanted.silent) read_ahead(prepared, answer);
    return answer;
  }

  // Ends what is being read ahead, and returns the states that it read or made.
  std::vector<std::string> late_states() override {
    std::unique_lock lock(mutex_);
    if (!reading_) return {};
    const auto reading = std::exchange(reading_, nullptr);
    engine_->cancel(reading->id);
    changed_.wait(lock, [&] { return reading->ended; });
    return reading->states;
  }

 private:
  struct Reading {
    RequestId id = 0;
    bool ended = false;
    std::vector<std::string> states;
  };

  // Reads what the next prompt begins with while the user reads and writes. After calls the next prompt comes
  // at once.
  void read_ahead(const Prepared& prepared, const Answer& answer) {
    if (!prepared.asked || answer.finish != FinishReason::stop || !answer.calls.empty()) return;
    const auto next =
        preparer_->next_turn(*prepared.asked, message_of("assistant", answer.text), [] { return false; });
    if (!next) return;
    Request request = engine_request(*next, 0, 0);
    request.adapters = adapters_;
    request.name_states = true;
    const auto reading = std::make_shared<Reading>();
    std::lock_guard lock(mutex_);
    const auto id = engine_->submit(std::move(request), [this, reading](const Event& event) {
      if (event.finish == FinishReason::none) return;
      std::lock_guard ending(mutex_);
      reading->states = event.states;
      reading->ended = true;
      changed_.notify_all();
    });
    if (!id) return;
    reading->id = *id;
    reading_ = reading;
  }

  ChatOptions options_;
  const std::string adapters_of_;  // the model for which --lora was given
  uint64_t seed_;
  std::mutex mutex_;  // guards what is read ahead
  std::condition_variable changed_;
  std::shared_ptr<Reading> reading_;  // null: nothing is read ahead
  std::unique_ptr<Engine> engine_;
  std::vector<AppliedAdapter> adapters_;  // of the engine
  std::unique_ptr<Preparer> preparer_;    // of the engine
};

}  // namespace

Result<std::unique_ptr<Partner>> load_partner(const ChatOptions& options) {
  auto partner = std::make_unique<LocalPartner>(options);
  TRY_VOID(partner->load(options.engine.model_path));
  return std::unique_ptr<Partner>(std::move(partner));
}

}  // namespace anabranch::cli
