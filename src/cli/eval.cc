// `eval`: perplexity of a text, and how much the predictions differ from those of another model.

#include "base/clock.h"
#include "base/mapped_file.h"
#include "cli/comparison.h"
#include "cli/conversation.h"
#include "cli/print.h"
#include "engine/loader.h"
#include "models/divergence.h"
#include "models/perplexity.h"

namespace anabranch::cli {
namespace {

struct Text {
  std::vector<int> tokens;
  std::optional<int> bos;  // token before each window
  int window = 0;
};

Json prediction_json(const Prediction& prediction) {
  return {{"at", prediction.at}, {"logprob", prediction.logprob}, {"best", prediction.best}};
}

class Evaluation {
 public:
  Evaluation(const EvalOptions& options, const LoadedModel& loaded, Text text)
      : options_(options), loaded_(loaded), text_(std::move(text)) {}

  Result<Json> run() {
    const double start = now_seconds();
    if (options_.against.empty()) {
      sum_ = measure_likelihood(*loaded_.model, text_.tokens, text_.window, text_.bos,
                                [&](size_t done, auto predictions) {
                                  show(done);
                                  for (const Prediction& p : predictions) keep(prediction_json(p));
                                });
    } else {
      TRY_VOID(compare());
    }
    if (sum_.predicted == 0)
      return make_error(ErrorKind::invalid, "{} has fewer than two tokens", options_.text);
    Json report = {{"perplexity", sum_.perplexity()}, {"nll", sum_.mean()},
                   {"tokens", text_.tokens.size()},   {"predicted", sum_.predicted},
                   {"window", text_.window},          {"seconds", now_seconds() - start}};
    if (!options_.against.empty()) {
      report["against"] = divergence_json(comparison_);
      report["against"].update({{"model", options_.against},
                                {"perplexity", comparison_.original.perplexity()},
                                {"nll", comparison_.original.mean()}});
    }
    if (options_.each) {
      report["token_ids"] = text_.tokens;
      report["bos"] = text_.bos ? Json(*text_.bos) : Json();
      report["each"] = std::move(each_);
    }
    return report;
  }

  void print(const Json& report) const {
    say("\rperplexity {:.4f} over {} predicted tokens ({} a window), {:.0f} tok/s\n", sum_.perplexity(),
        sum_.predicted, text_.window,
        static_cast<double>(text_.tokens.size()) / report["seconds"].get<double>());
    if (!options_.against.empty())
      say("against {} (perplexity {:.4f}): {}\n", options_.against, comparison_.original.perplexity(),
          divergence_text(comparison_));
  }

 private:
  Result<void> compare() {
    TRY(const LoadedModel original, load_original(options_.against, loaded_));
    text_.window = std::min(text_.window, original.info.context_length);
    comparison_ = compare_models(*original.model, *loaded_.model, text_.tokens, text_.window, text_.bos,
                                 [&](size_t done, auto predictions) {
                                   show(done);
                                   for (const ComparedPrediction& p : predictions) {
                                     Json json = prediction_json(p.model);
                                     json["kl"] = p.divergence;
                                     json["original_best"] = p.original.best;
                                     keep(std::move(json));
                                   }
                                 });
    sum_ = comparison_.model;
    return {};
  }

  void show(size_t done) const {
    if (!options_.json) say(stderr, "\r{} of {} tokens", done, text_.tokens.size());
  }
  void keep(Json prediction) {
    if (options_.each) each_.push_back(std::move(prediction));
  }

  const EvalOptions& options_;
  const LoadedModel& loaded_;
  Text text_;
  Likelihood sum_;
  Comparison comparison_;  // with --against
  Json each_ = Json::array();
};

Result<int> evaluate(const EvalOptions& options) {
  TRY(const auto text, read_file(options.text, 256u << 20));
  TRY(const auto loaded, load_on_device(options.engine));
  Evaluation evaluation(options, loaded,
                        {loaded.tokenizer->encode(text, false), leading_bos(*loaded.tokenizer),
                         std::min(options.window, loaded.info.context_length)});
  TRY(const Json report, evaluation.run());
  if (options.json)
    say_json(report);
  else
    evaluation.print(report);
  return 0;
}

}  // namespace

int run_eval(const EvalOptions& options) {
  auto result = evaluate(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
