// `eval`: perplexity of a text.
#include <fmt/core.h>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "cli/conversation.h"
#include "engine/loader.h"
#include "models/perplexity.h"

namespace anabranch::cli {
namespace {

Result<int> evaluate(const EvalOptions& options) {
  TRY(const auto text, read_file(options.text, 256u << 20));
  TRY(const auto loaded, load_on_device(options.model));
  const auto tokens = loaded.tokenizer->encode(text, false);
  const auto bos = leading_bos(*loaded.tokenizer);
  const int window = std::min(options.window, loaded.info.context_length);
  const double start = now_seconds();
  Json each = Json::array();
  const auto after_window = [&](size_t done, std::span<const Prediction> predictions) {
    if (!options.json) fmt::print(stderr, "\r{} of {} tokens", done, tokens.size());
    if (!options.each) return;
    for (const auto& [at, logprob, best] : predictions)
      each.push_back({{"at", at}, {"logprob", logprob}, {"best", best}});
  };
  const Likelihood sum = measure_likelihood(*loaded.model, tokens, window, bos, after_window);
  if (sum.predicted == 0) return make_error(ErrorKind::invalid, "{} has fewer than two tokens", options.text);
  const double seconds = now_seconds() - start;
  Json report = {{"perplexity", sum.perplexity()}, {"nll", sum.mean()}, {"tokens", tokens.size()},
                 {"predicted", sum.predicted},     {"window", window},  {"seconds", seconds}};
  if (options.each) {
    report["token_ids"] = tokens;
    report["bos"] = bos ? Json(*bos) : Json();  // before each window
    report["each"] = std::move(each);
  }
  if (options.json)
    fmt::print("{}\n", report.dump());
  else
    fmt::print("\rperplexity {:.4f} over {} predicted tokens ({} a window), {:.0f} tok/s\n", sum.perplexity(),
               sum.predicted, window, tokens.size() / seconds);
  return 0;
}

}  // namespace

int run_eval(const EvalOptions& options) {
  auto result = evaluate(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
