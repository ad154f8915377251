#include <random>

#include "chat/preparer.h"
#include "cli/locate.h"
#include "cli/partner.h"
#include "cli/server_prompt.h"

namespace anabranch::cli {
namespace {

class LocalPartner : public Partner {
 public:
  explicit LocalPartner(const ChatOptions& options)
      : options_(options), seed_(options.sampling.seed.value_or(std::random_device{}())) {}

  Result<void> load(const std::string& path) {
    ModelOptions model = options_.model;
    model.model = path;
    TRY(engine_, make_engine(model, options_.spec, options_.cache));
    // What was sampled in kept conversations is found again with their states.
    const auto cache = cache_options(options_.cache);
    const bool on_disk = cache.enabled && !cache.directory.empty();
    preparer_ = std::make_unique<Preparer>(
        *engine_, PrepareOptions{{}, on_disk ? cache.directory + "/turns.db" : std::string()});
    options_.model = model;
    return {};
  }

  std::string name() const override { return engine_->info().name; }
  bool gone() const override { return !engine_; }

  // Two models may not fit in memory: the old one goes first, and comes back if the new one fails.
  Result<void> change_model(const std::string& path_or_name) override {
    TRY(const std::string path, locate_model(path_or_name));
    preparer_.reset();
    engine_.reset();
    const auto loaded = load(path);
    if (loaded) return {};
    if (const auto back = load(options_.model.model); !back)
      return make_error(back.error().kind, "{}; and the model from before: {}", loaded.error().message,
                        back.error().message);
    return loaded.error();
  }

  Result<Answer> answer(const Json& messages, const AnswerOptions& wanted,
                        const std::atomic<bool>& interrupt) override {
    TRY(Prepared prepared, prepare(messages, wanted, interrupt));
    Prompt prompt = take_prompt(prepared);
    Request request;
    request.sampling = prepared.options.sampling;
    const SamplingOptions& asked = sampling_of(wanted);
    request.max_tokens = wanted.max_tokens.value_or(asked.max_tokens);
    request.stop = asked.stop;
    TRY(Answer answer, run_prompt(*engine_, std::move(prompt), std::move(request), wanted.silent, interrupt,
                                  wanted.progress));
    if (prepared.remember && answer.finish == FinishReason::stop && !answer.stop_found)
      preparer_->remember(answer.tokens, TurnEndReason::end_of_turn, *prepared.remember, prepared.rules);
    preparer_->write_turns();
    return answer;
  }

 private:
  const SamplingOptions& sampling_of(const AnswerOptions& wanted) const {
    return wanted.sampling ? *wanted.sampling : options_.sampling;
  }

  Result<Prepared> prepare(const Json& messages, const AnswerOptions& wanted,
                           const std::atomic<bool>& interrupt) {
    const ThinkFlags& thinking = wanted.thinking ? *wanted.thinking : options_.thinking;
    Json body = {{"messages", messages}};
    if (!wanted.tools.is_null()) body["tools"] = wanted.tools;
    const SamplingOptions& asked = sampling_of(wanted);
    const SamplingParams sampling = sampling_params(asked, *engine_, seed_);
    return prepare_as_server(*engine_, *preparer_, body, sampling, thinking, asked.stop,
                             [&] { return interrupt.load(); });
  }

  ChatOptions options_;
  uint64_t seed_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Preparer> preparer_;  // of the engine
};

}  // namespace

Result<std::unique_ptr<Partner>> load_partner(const ChatOptions& options) {
  auto partner = std::make_unique<LocalPartner>(options);
  TRY_VOID(partner->load(options.model.model));
  return std::unique_ptr<Partner>(std::move(partner));
}

}  // namespace anabranch::cli
