// `convert`: quantises or rewrites a model, as a directory in MLX's or the official FP8 layout or as a GGUF
// file; or adds a prediction head to a model.
#include "checkpoint/convert.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "checkpoint/mtp_head.h"
#include "checkpoint/shard_writer.h"
#include "checkpoint/write_format.h"
#include "cli/comparison.h"
#include "cli/conversation.h"
#include "cli/convert_text.h"
#include "cli/print.h"
#include "engine/loader_gguf.h"
#include "engine/loader_gguf_keys.h"

namespace anabranch::cli {
namespace {

// The tokenizer of a GGUF file, as the files that a model directory has for it. A model without a tokenizer
// can still be converted.
Result<std::map<std::string, std::string>> side_files(const std::string& source) {
  TRY(const auto checkpoint, Checkpoint::open(source));
  if (!is_gguf(*checkpoint)) return std::map<std::string, std::string>{};
  auto files = gguf_side_files(*checkpoint);
  if (files.ok()) return files;
  say(stderr, "warning: the tokenizer of {} cannot be written as tokenizer.json: {}\n", source,
      files.error().message);
  return std::map<std::string, std::string>{};
}

// Adds the files of the result other than the weights.
Result<void> add_side_files(const std::string& source, const WriteFormat& format,
                            anabranch::ConvertOptions& to) {
  if (!format.is_file) {
    TRY(to.side_files, side_files(source));
    return {};
  }
  TRY(const auto checkpoint, Checkpoint::open(source));
  TRY(to.gguf_keys, gguf_keys_of(*checkpoint));
  return {};
}

// Compares the result with the source, and writes recipe.json into a directory with what was measured.
Result<int> finish(const std::string& source, const WriteFormat& format, const anabranch::ConvertOptions& to,
                   const ConvertTexts& texts, const SourceFindings& findings) {
  Comparison result;
  if (!texts.perplexity.empty()) {
    TRY(result, measure_result(source, to.output, findings.held_out));
    say("perplexity {:.4f} before, {:.4f} after, over {} predicted tokens of {}\n{}\n",
        result.original.perplexity(), result.model.perplexity(), result.model.predicted, texts.perplexity,
        divergence_text(result));
  }
  if (format.is_file) return 0;
  Json recipe = recipe_json(to);
  recipe.update(findings_json(texts, findings, result));
  TRY_VOID(write_file(to.output + "/recipe.json", dump_json(recipe, 2) + "\n"));
  return 0;
}

Result<int> convert_model(const ConvertOptions& options, const WriteFormat& format) {
  anabranch::ConvertOptions to;
  to.output = options.output;
  to.force = options.force;
  to.format = format.format;
  to.calibration_text = file_name(options.calibration);
  to.max_shard_bytes = options.shard_mb * 1'000'000;
  TRY(const Target dense, parse_target(options.dtype));
  to.dense = dense.kind;
  if (!options.recipe.empty()) {
    TRY(const auto text, read_file(options.recipe, 1 << 20));
    TRY_VOID(parse_recipe(text, options.recipe, to));
  }
  if (options.bits && *options.bits == 0) {
    to.fallback = dense;
  } else if (options.bits || options.group) {
    const AffineFormat base = to.fallback.value_or(Target{}).format;
    TRY(to.fallback, parse_target(fmt::format("{}/{}", options.bits.value_or(base.bits),
                                              options.group.value_or(base.group))));
  }
  TRY_VOID(add_side_files(options.source, format, to));
  const ConvertTexts texts{options.calibration, options.perplexity};
  SourceFindings findings;
  if (!texts.empty()) {
    to.calibrate = [&]() -> Result<Importance> {
      TRY(findings, measure_source(options.source, texts));
      return std::move(findings.importance);
    };
  }
  const bool terminal = isatty(STDERR_FILENO);
  int shown = -1;
  to.progress = [&](std::string_view module, double done) {
    const int percent = static_cast<int>(done * 100);
    if (terminal)
      say(stderr, "\r\033[K{:3} % {}", percent, module);
    else if (percent / 10 != shown)
      say(stderr, "{} %\n", percent);
    shown = percent / 10;
  };
  TRY(const auto report, convert(options.source, to));
  if (terminal) say(stderr, "\r\033[K");
  for (const auto& warning : report.warnings) say(stderr, "warning: {}\n", warning);
  say("{}: {} tensors in {} files, {:.1f} MB (from {:.1f} MB), {:.2f} bits a weight\n", report.output,
      report.tensors, report.files, report.bytes / 1e6, report.source_bytes / 1e6,
      8.0 * report.bytes / report.parameters);
  if (report.quantised > 0)
    say("{} matrices quantised: relative squared error {:.2e}{}\n", report.quantised, report.relative_error,
        report.error_ratio ? fmt::format(", {:.2f} times that of plain min-max", *report.error_ratio) : "");
  if (!texts.calibration.empty())
    say("{} of them, and their errors, weighted by their inputs on {} tokens of {}\n", report.calibrated,
        findings.calibration_tokens, options.calibration);
  return texts.empty() ? 0 : finish(options.source, format, to, texts, findings);
}

Result<int> add_head(const ConvertOptions& options) {
  TRY(const auto report, add_mtp_head(options.source, options.mtp_from, options.force));
  for (const auto& warning : report.warnings) say(stderr, "warning: {}\n", warning);
  say("{}: {} tensors, {:.1f} MB, from {}\n", report.file, report.tensors, report.bytes / 1e6,
      options.mtp_from);
  return 0;
}

// Refuses flags that the format does not use.
Result<void> check_flags(const ConvertOptions& options, const WriteFormat& format) {
  struct Flag {
    const char* name;
    bool given, taken;
  };
  const Flag flags[] = {{"--bits", options.bits.has_value(), format.takes_bits},
                        {"--group", options.group.has_value(), format.takes_bits},
                        {"--dtype", options.dtype != "bf16", format.takes_bits},
                        {"--recipe", !options.recipe.empty(), format.takes_recipes},
                        {"--calibration", !options.calibration.empty(), format.takes_calibration}};
  for (const Flag& flag : flags)
    if (flag.given && !flag.taken)
      return make_error(ErrorKind::invalid, "--format {} has no use for {}: leave it out", format.name,
                        flag.name);
  return {};
}

}  // namespace

Result<void> check_convert(const ConvertOptions& options) {
  const WriteFormat* format = find_write_format(options.format);
  CHECK(format, "--format {}", options.format);
  TRY_VOID(check_flags(options, *format));
  if (!options.mtp_from.empty() && !options.output.empty())
    return make_error(ErrorKind::invalid, "--mtp-from changes the model directory {} itself: leave {} out",
                      options.source, options.output);
  std::error_code code;
  const auto exists = [&](const std::string& path) { return std::filesystem::exists(path, code); };
  if (!options.output.empty() && !options.force && exists(options.output) && !exists(options.source))
    return make_error(ErrorKind::invalid, "{} exists already; --force replaces it", options.output);
  for (const std::string& file : {options.recipe, options.calibration, options.perplexity})
    if (!file.empty() && !exists(file)) return make_error(ErrorKind::not_found, "there is no file {}", file);
  return {};
}

int run_convert(const ConvertOptions& options) {
  const WriteFormat* format = find_write_format(options.format);
  const bool add = !options.mtp_from.empty();
  auto result = add ? add_head(options) : convert_model(options, *format);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
