// `eval`: perplexity of a text. The text is cut into independent windows; every token but a window's first is
// predicted from those before it. Perplexity = exp(mean negative log-likelihood).
#include <fmt/core.h>

#include <cmath>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "cli/conversation.h"
#include "engine/loader.h"

namespace anabranch::cli {
namespace {

constexpr int kRows = 128;  // per forward: bounds the logits' memory

double log_likelihood(const float* logits, int vocab, int token) {
  float best = logits[0];
  for (int i = 1; i < vocab; i++) best = std::max(best, logits[i]);
  double sum = 0;
  for (int i = 0; i < vocab; i++) sum += std::exp(static_cast<double>(logits[i]) - best);
  return logits[token] - best - std::log(sum);
}

// Sum of log-likelihoods of tokens [1, count).
double window_log_likelihood(const Model& model, const int* tokens, int count) {
  auto state = model.make_state();
  const int vocab = model.spec().vocab;
  double sum = 0;
  for (int at = 0; at < count; at += kRows) {
    const int n = std::min(kRows, count - at);
    Batch batch;
    batch.add(state, {tokens + at, static_cast<size_t>(n)}, Batch::Logits::none);
    for (int i = 0; i < n && at + i + 1 < count; i++) batch.logit_rows.push_back(i);
    if (batch.logit_rows.empty()) break;
    const auto logits = to_host(model.forward(batch).logits);
    for (size_t i = 0; i < batch.logit_rows.size(); i++)
      sum += log_likelihood(logits.data<float>() + i * vocab, vocab, tokens[at + i + 1]);
  }
  return sum;
}

Result<int> evaluate(const EvalOptions& options) {
  TRY(const auto text, read_file(options.text, 256u << 20));
  TRY(const auto loaded, load_on_device(options.model));
  const auto tokens = loaded.tokenizer->encode(text, false);
  const int window = std::min(options.window, loaded.info.context_length);
  double sum = 0;
  int64_t predicted = 0;
  const double start = now_seconds();
  for (size_t at = 0; at + 1 < tokens.size(); at += window) {
    const int n = static_cast<int>(std::min<size_t>(window, tokens.size() - at));
    sum += window_log_likelihood(*loaded.model, tokens.data() + at, n);
    predicted += n - 1;
    if (!options.json) fmt::print(stderr, "\r{} of {} tokens", at + n, tokens.size());
  }
  if (predicted == 0) return make_error(ErrorKind::invalid, "{} has fewer than two tokens", options.text);
  const double nll = -sum / static_cast<double>(predicted), seconds = now_seconds() - start;
  const Json report = {{"perplexity", std::exp(nll)}, {"nll", nll},       {"tokens", tokens.size()},
                       {"predicted", predicted},      {"window", window}, {"seconds", seconds}};
  if (options.json)
    fmt::print("{}\n", report.dump());
  else
    fmt::print("\rperplexity {:.4f} over {} predicted tokens ({} a window), {:.0f} tok/s\n", std::exp(nll),
               predicted, window, tokens.size() / seconds);
  return 0;
}

}  // namespace

int run_eval(const EvalOptions& options) {
  auto result = evaluate(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
