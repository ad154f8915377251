#include <random>

#include "cli/locate.h"
#include "cli/partner.h"

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
    options_.model = model;
    return {};
  }

  std::string name() const override { return engine_->info().name; }
  bool gone() const override { return !engine_; }

  // Two models may not fit in memory: the old one goes first, and comes back if the new one fails.
  Result<void> change_model(const std::string& path_or_name) override {
    TRY(const std::string path, locate_model(path_or_name));
    engine_.reset();
    const auto loaded = load(path);
    if (loaded) return {};
    if (const auto back = load(options_.model.model); !back)
      return make_error(back.error().kind, "{}\nerror: {}", loaded.error().message, back.error().message);
    return loaded.error();
  }

  Result<Answer> answer(const Json& messages, const std::atomic<bool>& interrupt) override {
    TRY(auto prompt, make_chat_prompt(*engine_, messages, options_.thinking, options_.sampling.stop));
    Request request;
    request.sampling = sampling_params(options_.sampling, *engine_, seed_);
    request.max_tokens = options_.sampling.max_tokens;
    request.stop = options_.sampling.stop;
    return run_prompt(*engine_, std::move(prompt), std::move(request), false, interrupt);
  }

 private:
  ChatOptions options_;
  uint64_t seed_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<Partner>> load_partner(const ChatOptions& options) {
  auto partner = std::make_unique<LocalPartner>(options);
  TRY_VOID(partner->load(options.model.model));
  return std::unique_ptr<Partner>(std::move(partner));
}

}  // namespace anabranch::cli
