// `calibrate`: measures a model on text, and stores beside it the settings for its drafts.
#include "decode/calibrate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "cli/conversation.h"
#include "cli/print.h"
#include "cli/prompts.h"
#include "engine/loader.h"

namespace anabranch::cli {
namespace {

constexpr const char* kPrompts[] = {
    "Explain to a friend why the sky is blue, in a few sentences.",
    "Write a Python function that returns the n-th Fibonacci number, and explain how it works.",
    "Give me a simple recipe for vegetable soup with the steps in order.",
    "Write a short email to my landlord asking to repair the heating.",
    "What are the main differences between TCP and UDP?",
    "Tell a short story about a lighthouse keeper and a lost dog.",
    "Write a JSON object that describes a book with title, author, year and a list of three chapters.",
    ("Summarise in three bullet points: regular exercise strengthens the heart, improves sleep and lowers "
     "stress; most adults should be active for half an hour on most days, and even short walks help."),
    "If a train travels 180 kilometres in 2.5 hours, what is its average speed? Show your steps.",
    "Write an SQL query that lists each customer with the number of their orders, most orders first.",
    "Rewrite this sentence politely: you did not send the report and I am waiting.",
    "List five tips for someone who speaks in front of an audience for the first time.",
};
constexpr int kAnswerTokens = 192;
constexpr uint64_t kSeed = 20;

// --text: number and length of the measured windows, which are spread evenly over the file.
constexpr int kWindows = 8, kWindowTokens = 320, kFewestTokens = 128;
constexpr size_t kPieces = 16;  // pieces of the whole file, whose tokens are counted

// A line on a terminal that the next one replaces; nothing elsewhere.
void show_progress(const std::string& what) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (terminal) say(stderr, "\r\033[K{}", what);
}

struct Text {
  std::string about;
  std::vector<Passage> passages;  // to measure on
  std::vector<Passage> counted;   // to choose the draft vocabulary from; empty: `passages`
};

// The model's own answers, which are the text that its drafts will have to predict.
Result<Text> answer_prompts(const EngineOptions& model) {
  static const std::atomic<bool> never{false};  // Ctrl-C ends the program: nothing is written before the end
  TRY(const auto engine, make_engine(model, {}, kNoCache));
  if (!engine->chat_template())
    return make_error(ErrorKind::unsupported,
                      "{} brings no chat template to answer prompts with: name a text with --text",
                      engine->info().name);
  Preparer preparer(*engine, {});
  Text out;
  for (const char* asked : kPrompts) {
    show_progress(fmt::format("answering prompt {} of {}", out.passages.size() + 1, std::size(kPrompts)));
    GenerationOptions options;
    options.sampling = engine->default_sampling();
    options.sampling.seed = kSeed;
    options.max_tokens = kAnswerTokens;
    TRY(const Prepared prepared,
        prepare_chat(*engine, preparer, {{"messages", {{{"role", "user"}, {"content", asked}}}}},
                     {.max_tokens = kAnswerTokens}, std::move(options)));
    const std::vector<int>& prompt = prepared.prompts[0];
    Passage passage{prompt, static_cast<int>(prompt.size())};
    TRY(const Answer answer, run_prompt(*engine, prepared, true, never));
    passage.tokens.insert(passage.tokens.end(), answer.tokens.begin(), answer.tokens.end());
    out.passages.push_back(std::move(passage));
  }
  out.about = fmt::format("the model's own answers to {} built-in prompts, temperature {:g}, seed {}",
                          out.passages.size(), engine->default_sampling().temperature, kSeed);
  return out;
}

Result<Text> read_windows(const std::string& path, const LoadedModel& loaded) {
  TRY(const auto bytes, read_file(path, 16u << 20));
  const auto tokens = loaded.tokenizer->encode(bytes, false);
  const size_t total = tokens.size();
  if (total < kFewestTokens)
    return make_error(ErrorKind::invalid, "{} has {} tokens; {} are the least that say anything", path, total,
                      kFewestTokens);
  for (const int id : tokens)
    if (id >= loaded.model->spec().vocab)
      return make_error(ErrorKind::invalid, "the tokenizer of {} gives id {}, beyond the model's {}",
                        loaded.info.name, id, loaded.model->spec().vocab);
  const size_t length = std::min<size_t>(
      {kWindowTokens, total / kWindows,
       static_cast<size_t>(loaded.info.context_length) - leading_bos(*loaded.tokenizer).has_value()});
  Text out;
  out.about =
      fmt::format("{}, {} windows of {} tokens", path.substr(path.find_last_of('/') + 1), kWindows, length);
  const auto piece = [&](size_t at, size_t end) {
    return std::vector<int>(tokens.begin() + at, tokens.begin() + end);
  };
  for (size_t i = 0; i < kWindows; i++) {
    const size_t at = i * (total - length) / (kWindows - 1);
    // The first few tokens of a window are not measured, because they lack the text before them.
    Passage window{piece(at, at + length), static_cast<int>(length / 10) + 1};
    add_leading_bos(*loaded.tokenizer, window.tokens);
    out.passages.push_back(std::move(window));
  }
  for (size_t i = 0; i < kPieces; i++)
    out.counted.push_back({piece(i * total / kPieces, (i + 1) * total / kPieces)});
  return out;
}

std::vector<int> special_ids(const Tokenizer& tokenizer, int vocab) {
  constexpr size_t kMost = 512;  // some vocabularies reserve thousands of special tokens
  std::vector<int> ids;
  for (int id = 0; id < std::min(vocab, tokenizer.vocab_size()) && ids.size() < kMost; id++)
    if (tokenizer.is_special(id)) ids.push_back(id);
  return ids;
}

struct Findings {
  Calibration kept;
  VocabSearch vocab;
  ExitSearch exits;
  std::vector<double> exit_agreement;
  SkipSearch skips;
  int skip_tokens = 0;  // tokens on which agreement without layers was counted
  double seconds = 0;
};

void choose_vocab(const LoadedModel& loaded, const Text& text, const DraftCosts& costs, Findings& found) {
  const int vocab = loaded.model->spec().vocab;
  // Cost of a draft of the MTP head, or of a draft source that costs about as much.
  const double body = costs.mtp > 0 ? costs.mtp : (1 - costs.head) / 20;
  found.vocab = search_vocab(text.counted.empty() ? text.passages : text.counted, vocab,
                             special_ids(*loaded.tokenizer, vocab),
                             [&](int size) { return body + costs.head * size / vocab; });
  found.kept.draft_vocab = found.vocab.ids;
  found.kept.vocab_coverage = found.vocab.sizes[found.vocab.best].coverage;
}

void choose_layers(LoadedModel& loaded, const Text& text, const DraftCosts& costs, Findings& found) {
  Calibration& kept = found.kept;
  const int layers = loaded.info.layers;
  const double head = costs.head * static_cast<double>(kept.draft_vocab.size()) / loaded.model->spec().vocab;
  show_progress("measuring all layers");
  const TextMeasure full = measure_text(*loaded.model, text.passages, true);
  kept.tokens = static_cast<int>(full.best.size());
  kept.perplexity = full.perplexity;
  found.exit_agreement = full.exit_agreement;
  found.exits = search_exit(full.exit_agreement, costs, head);
  if (found.exits.best >= 0) {
    for (int i = 0; i <= found.exits.best; i++) kept.exit_layers.push_back(i);
    kept.exit_agreement = full.exit_agreement[found.exits.best];
    kept.exit_rate = found.exits.rates[found.exits.best];
  }

  if (!loaded.model->can_skip_layers()) return;
  DraftAgreement drafts(*loaded.model, text.passages, full);
  found.skip_tokens = drafts.tokens();
  int tried = 0;
  found.skips = search_skip(costs, head, [&](std::span<const int> run) {
    show_progress(fmt::format("leaving out {} of {} layers, try {}", layers - run.size(), layers, ++tried));
    return drafts.agreement(run);
  });
  for (int i = 0; i < found.skips.best; i++) kept.skip_layers.push_back(found.skips.skipped[i].layer);
  if (kept.skip_layers.empty()) return;
  std::sort(kept.skip_layers.begin(), kept.skip_layers.end());
  kept.skip_agreement = found.skips.skipped[found.skips.best - 1].agreement;
  kept.skip_rate = found.skips.skipped[found.skips.best - 1].rate;

  show_progress("measuring without the layers left out");
  loaded.model->drop_layers(kept.skip_layers);
  const TextMeasure lossy = measure_text(*loaded.model, text.passages, false);
  kept.skip_perplexity = lossy.perplexity;
  kept.lossy_agreement = agreement_of(full, lossy);
}

Result<Findings> measure(const CalibrateOptions& options) {
  const double start = now_seconds();
  Text text;
  if (options.text.empty()) {
    TRY(text, answer_prompts(options.engine));
  }
  TRY(LoadedModel loaded, load_on_device(options.engine));
  if (!options.text.empty()) {
    TRY(text, read_windows(options.text, loaded));
  }

  Findings found;
  found.kept.layers = loaded.info.layers;
  found.kept.text = text.about;
  const DraftCosts costs = draft_costs(count_bytes(*loaded.model));
  choose_vocab(loaded, text, costs, found);
  TRY(auto checkpoint, Checkpoint::open(options.engine.model_path));
  TRY_VOID(loaded.model->set_draft_vocab(*checkpoint, found.kept.draft_vocab));
  checkpoint.reset();
  choose_layers(loaded, text, costs, found);
  found.seconds = now_seconds() - start;
  show_progress("");
  if (!std::isfinite(found.kept.perplexity))
    return make_error(ErrorKind::invalid, "{} computes numbers that are not finite: its files may be damaged",
                      loaded.info.name);
  return found;
}

void print_table(const Findings& found, const std::string& path) {
  const Calibration& kept = found.kept;
  say("text: {}; {} tokens; {:.0f} s\n\n", kept.text, kept.tokens, found.seconds);
  say("draft vocabulary\n{:>10}  {:>8}  {:>5}\n", "size", "covered", "rate");
  for (const auto& entry : found.vocab.sizes)
    say("{:>10}  {:>7.2f}%  {:>5.3f}{}\n", entry.size, 100 * entry.coverage, entry.rate,
        &entry == &found.vocab.sizes[found.vocab.best] ? "  <" : "");
  say("\nearly exit\n{:>10}  {:>8}  {:>5}\n", "layers", "agrees", "rate");
  for (size_t i = 0; i + 1 < found.exit_agreement.size(); i++)
    say("{:>10}  {:>7.2f}%  {:>5.3f}{}\n", i + 1, 100 * found.exit_agreement[i], found.exits.rates[i],
        static_cast<int>(i) == found.exits.best ? "  <" : "");
  say("\nlayers left out ({} tokens)\n{:>10}  {:>8}  {:>8}  {:>5}\n", found.skip_tokens, "and layer", "alone",
      "agrees", "rate");
  for (size_t i = 0; i < found.skips.skipped.size(); i++) {
    const auto& step = found.skips.skipped[i];
    say("{:>10}  {:>7.2f}%  {:>7.2f}%  {:>5.3f}{}\n", step.layer, 100 * found.skips.alone[step.layer],
        100 * step.agreement, step.rate, static_cast<int>(i) + 1 == found.skips.best ? "  <" : "");
  }
  if (!kept.skip_layers.empty())
    say("for good (--lossy-skip): perplexity {:.3f} instead of {:.3f}, the same token in {:.2f} %\n",
        kept.skip_perplexity, kept.perplexity, 100 * kept.lossy_agreement);
  say("\nrate: tokens a second that such drafts promise, against none\n{}: written\n", path);
}

// The settings that were written, and all measurements that they were chosen from.
Result<Json> to_json(const Findings& found, const std::string& path) {
  TRY(Json out, parse_json(calibration_text(found.kept)));
  Json sizes = Json::array(), exits = Json::array(), skips = Json::array();
  for (const auto& entry : found.vocab.sizes)
    sizes.push_back({{"size", entry.size}, {"coverage", entry.coverage}, {"rate", entry.rate}});
  for (size_t i = 0; i + 1 < found.exit_agreement.size(); i++)
    exits.push_back(
        {{"layers", i + 1}, {"agreement", found.exit_agreement[i]}, {"rate", found.exits.rates[i]}});
  for (const auto& step : found.skips.skipped)
    skips.push_back({{"layer", step.layer}, {"agreement", step.agreement}, {"rate", step.rate}});
  out["tried"] = {{"draft_vocab", sizes},
                  {"exit", exits},
                  {"skip_alone", found.skips.alone},
                  {"skip", skips},
                  {"skip_tokens", found.skip_tokens}};
  out["seconds"] = found.seconds;
  out["file"] = path;
  return out;
}

Result<int> calibrate(const CalibrateOptions& options) {
  const std::string path =
      options.output.empty() ? calibration_path(options.engine.model_path) : options.output;
  if (access(std::filesystem::absolute(path).parent_path().c_str(), W_OK) != 0)
    return make_error(ErrorKind::io, "{} cannot be written; name another place with --output", path);
  TRY(const Findings found, measure(options));
  TRY_VOID(save_calibration(found.kept, path));
  if (!options.json) {
    print_table(found, path);
    return 0;
  }
  TRY(const Json json, to_json(found, path));
  say_json(json);
  return 0;
}

}  // namespace

int run_calibrate(const CalibrateOptions& options) {
  auto result = calibrate(options);
  if (!result) show_progress("");
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
