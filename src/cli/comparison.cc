#include "cli/comparison.h"

#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/file_bytes.h"

namespace anabranch::cli {
namespace {

constexpr double kQuantile = 0.99;

// Compares only the tokens that both tokenizers have: some files pad the vocabulary with tokens that no text
// contains ("[PAD151936]"), others do not.
Result<void> check_same_vocabulary(const LoadedModel& original, const LoadedModel& model) {
  const auto &theirs = *original.tokenizer, &ours = *model.tokenizer;
  const int logits = model.model->spec().vocab;
  if (original.model->spec().vocab != logits)
    return make_error(
        ErrorKind::invalid,
        "{} predicts {} tokens and {} predicts {}: models with different vocabularies cannot be "
        "compared",
        original.info.name, original.model->spec().vocab, model.info.name, logits);
  for (int id = 0; id < std::min(ours.vocab_size(), theirs.vocab_size()); id++)
    if (ours.token_bytes(id) != theirs.token_bytes(id))
      return make_error(
          ErrorKind::invalid,
          "token {} is \"{}\" in {} and \"{}\" in {}: models with different vocabularies cannot "
          "be compared",
          id, shown(theirs.token_bytes(id)), original.info.name, shown(ours.token_bytes(id)),
          model.info.name);
  return {};
}

}  // namespace

Result<LoadedModel> load_original(const std::string& path, const LoadedModel& model) {
  TRY(auto original, load_model(path, model.device, {.overcommit = true}));
  TRY_VOID(check_same_vocabulary(original, model));
  return original;
}

Json divergence_json(const Comparison& comparison) {
  return {{"kl_mean", comparison.mean_divergence()},
          {"kl_p99", comparison.divergence_quantile(kQuantile)},
          {"kl_max", comparison.divergence_quantile(1)},
          {"same_top", comparison.same_top_share()}};
}

std::string divergence_text(const Comparison& comparison) {
  return fmt::format("KL divergence {:.6f} (99th percentile {:.6f}, largest {:.6f}), same top token {:.2f} %",
                     comparison.mean_divergence(), comparison.divergence_quantile(kQuantile),
                     comparison.divergence_quantile(1), 100 * comparison.same_top_share());
}

}  // namespace anabranch::cli
