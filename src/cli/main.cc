// The command line: flags to plain options, then one function per sub-command.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

#include "base/log.h"
#include "cli/conversation.h"

namespace anabranch::cli {
namespace {

void add_model_flags(CLI::App& app, ModelOptions& o) {
  app.add_option("-m,--model", o.model, "Model directory, .gguf or .safetensors file")->required();
  app.add_option("-t,--threads", o.threads,
                 "Threads to compute with (default: one per fast core; see doctor)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--context", o.context, "Context length at most (default: the model's, as memory allows)")
      ->check(CLI::Range(0, 1 << 27));
  app.add_flag("--precise", o.precise, "Keep activations and keys/values in fp32 (slower)");
  app.add_flag("--reference", o.reference,
               "Run the plain MLX operations instead of our kernels (very slow; to compare)");
}

// CLI::Range lets NaN through.
CLI::Validator number_in(float low, float high) {
  return CLI::Range(low, high) & CLI::Validator(
                                     [](const std::string& text) {
                                       return std::isnan(std::strtof(text.c_str(), nullptr)) ? "not a number"
                                                                                             : "";
                                     },
                                     "");
}

void add_sampling_flags(CLI::App& app, SamplingOptions& o) {
  app.add_option("--temp", o.temperature, "Temperature; 0 = greedy (default: the model's recommendation)")
      ->check(number_in(0.0f, 100.0f));
  app.add_option("--top-p", o.top_p, "Keep the likeliest tokens up to this probability")
      ->check(number_in(0.0f, 1.0f));
  app.add_option("--top-k", o.top_k, "Keep this many tokens; 0 = all")->check(CLI::Range(0, 1 << 24));
  app.add_option("--min-p", o.min_p, "Keep tokens at least this likely, relative to the best")
      ->check(number_in(0.0f, 1.0f));
  app.add_option("--repetition-penalty", o.repetition_penalty,
                 "Divide the logits of tokens that were there before, prompt included; 1 = off")
      ->check(number_in(0.01f, 100.0f));
  app.add_option("--presence-penalty", o.presence_penalty,
                 "Take this off the logits of tokens that the answer has already")
      ->check(number_in(-2.0f, 2.0f));
  app.add_option("--frequency-penalty", o.frequency_penalty,
                 "Take this off the logits of tokens for each time that the answer has them")
      ->check(number_in(-2.0f, 2.0f));
  app.add_option("--seed", o.seed,
                 "Seed: the same one gives the same text (default: 0, in chat a random one)");
  app.add_option("-n,--max-tokens", o.max_tokens, "Tokens to generate at most; -1 = up to the context")
      ->check(CLI::Range(-1, 1 << 27));
  app.add_option("--stop", o.stop, "Stop before this text (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_spec_flags(CLI::App& app, SpecOptions& o) {
  app.add_option(
         "--spec", o.source,
         "Draft tokens that the model then verifies, which changes the speed and nothing else: from "
         "earlier text (ngram), the model's MTP head (mtp), a draft model (draft), its own first layers "
         "(exit) or some of its layers (skip); auto picks what pays")
      ->check(CLI::IsMember({"auto", "off", "ngram", "mtp", "draft", "exit", "skip"}));
  app.add_option("--spec-depth", o.depth, "Tokens to draft at a time (default: what pays)")
      ->check(CLI::Range(1, kMaxDraft));
  app.add_option("--draft", o.draft, "A smaller model with the same tokenizer to draft with");
  app.add_flag("--lossy-skip", o.lossy_skip,
               "Leave out the layers that `calibrate` found least needed, unverified: faster and worse");
}

void add_thinking_flag(CLI::App& app, std::string& thinking) {
  app.add_option("--thinking", thinking, "Let the model think first (default: as its template does)")
      ->check(CLI::IsMember({"on", "off"}));
}

int run(int argc, char** argv) {
  CLI::App app{"Anabranch: runs hybrid language models (Qwen3.5-class) and transformers on this machine",
               "anabranch"};
  app.require_subcommand(1);
  app.set_version_flag("--version", ANABRANCH_VERSION);
  bool verbose = false, quiet = false;
  app.add_flag("-v,--verbose", verbose, "Say more on stderr");
  app.add_flag("-q,--quiet", quiet, "Only errors on stderr");
  app.fallthrough();

  GenerateOptions generate;
  auto* g = app.add_subcommand("generate", "Answer one prompt");
  add_model_flags(*g, generate.model);
  add_sampling_flags(*g, generate.sampling);
  add_spec_flags(*g, generate.spec);
  add_thinking_flag(*g, generate.thinking);
  g->add_option("prompt", generate.prompt, "The prompt (default: standard input)");
  g->add_option("-f,--prompt-file", generate.prompt_file, "Read the prompt from a file");
  g->add_option("-s,--system", generate.system, "System message");
  g->add_flag("--raw", generate.raw, "Continue the text as it is, without a chat template");
  g->add_flag("--ignore-eos", generate.ignore_eos, "Go on past the end of the turn (for measuring)");
  auto* json =
      g->add_flag("--json", generate.json, "End with one JSON object: text, token ids, counts, speeds");
  g->add_option("--logprobs", generate.logprobs,
                "With --json: each token's log probability, and that of so many alternatives")
      ->needs(json)
      ->check(CLI::Range(0, kMaxLogprobs));

  ChatOptions chat;
  auto* c = app.add_subcommand("chat", "Talk in the terminal");
  add_model_flags(*c, chat.model);
  add_sampling_flags(*c, chat.sampling);
  add_spec_flags(*c, chat.spec);
  chat.sampling.max_tokens = -1;
  add_thinking_flag(*c, chat.thinking);
  c->add_option("-s,--system", chat.system, "System message");

  ServeOptions serve;
  auto* s = app.add_subcommand("serve", "Serve the OpenAI API");
  add_model_flags(*s, serve.model);
  add_spec_flags(*s, serve.spec);
  s->add_option("--host", serve.host, "Address to listen on");
  s->add_option("-p,--port", serve.port, "Port to listen on; 0 = any free one")->check(CLI::Range(0, 65535));

  ConvertOptions convert;
  auto* v = app.add_subcommand("convert", "Quantise a model, or add a prediction head to one");
  v->add_option("source", convert.source, "Model directory or file")->required();
  v->add_option("output", convert.output, "Directory to write (not with --mtp-from)");
  v->add_option("--bits", convert.bits,
                "Bits per weight where no rule says otherwise (default 4); 0 = dense (see --dtype)")
      ->check(CLI::IsMember({0, 2, 3, 4, 5, 6, 8}));
  v->add_option("--group", convert.group, "Weights per scale")->check(CLI::IsMember({32, 64, 128}));
  v->add_option("--dtype", convert.dtype, "Type of what stays dense")->check(CLI::IsMember({"bf16", "f16"}));
  v->add_option("--recipe", convert.recipe, "JSON file of rules, tensor by tensor (docs/convert.md)");
  v->add_option("--shard-mb", convert.shard_mb, "Largest file in MB")->check(CLI::Range(1, 1 << 20));
  v->add_flag("--force", convert.force,
              "Replace the output directory (with --mtp-from: the head) if it exists");
  auto* mtp = v->add_option("--mtp-from", convert.mtp_from,
                            "Only add this checkpoint's prediction head (mtp.*) to the model directory given "
                            "as source");
  for (const char* other : {"--bits", "--group", "--dtype", "--recipe", "--shard-mb"})
    mtp->excludes(v->get_option(other));

  BenchOptions bench;
  auto* b = app.add_subcommand("bench", "Measure prefill and decode speed");
  add_model_flags(*b, bench.model);
  b->add_option("--pp", bench.prefill, "Prompt lengths to prefill; 0 = none")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 24));
  b->add_option("--tg", bench.decode, "Tokens to decode; 0 = none")->check(CLI::Range(0, 1 << 20));
  b->add_option("--rows", bench.rows, "Tokens that one pass takes, logits for each (a draft's verification)")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxDraft + 1));
  b->add_option("--depth", bench.depths, "Context lengths to decode at")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 24));
  b->add_option("--reps", bench.reps, "Repetitions; the median is reported")->check(CLI::Range(1, 1000));
  b->add_option("--chunk", bench.chunk, "Tokens per prefill step")->check(CLI::Range(1, 1 << 20));
  b->add_option("--prompts", bench.prompts,
                "Answer these prompts instead (JSON lines with \"prompt\"), once for each kind of --spec")
      ->delimiter(',');
  b->add_option("--spec", bench.kinds, "Kinds of speculation to compare: off, auto, ngram, mtp:3, ...")
      ->delimiter(',');
  b->add_option("--draft", bench.draft, "A draft model");
  b->add_option("--temp", bench.sampling.temperature, "Temperature of the answers")
      ->check(number_in(0.0f, 100.0f));
  b->add_option("--top-p", bench.sampling.top_p, "Their nucleus")->check(number_in(0.0f, 1.0f));
  b->add_flag("--profile", bench.profile, "Show where the time goes, stage by stage");
  b->add_flag("--json", bench.json, "Print JSON instead of a table");

  EvalOptions eval;
  auto* e = app.add_subcommand("eval", "Measure perplexity on a text");
  add_model_flags(*e, eval.model);
  e->add_option("--text", eval.text, "Text file (UTF-8)")->required();
  e->add_option("--window", eval.window, "Tokens per independent window")->check(CLI::Range(2, 1 << 20));
  e->add_flag("--json", eval.json, "Print JSON");

  CalibrateOptions calibrate;
  auto* k =
      app.add_subcommand("calibrate", "Measure what a model's own drafts should be made of, and keep it");
  add_model_flags(*k, calibrate.model);
  k->add_option("--text", calibrate.text,
                "Text file (UTF-8) to measure on (default: the model answers some prompts)");
  k->add_option("--output", calibrate.output, "File to write (default: speculation.json beside the model)");
  k->add_flag("--json", calibrate.json, "Print JSON instead of tables");

  DoctorOptions doctor;
  auto* d = app.add_subcommand("doctor", "Say what this machine offers and what would be used");
  d->add_option("-m,--model", doctor.model, "Also look at this model");
  d->add_flag("--json", doctor.json, "Print JSON");

  CLI11_PARSE(app, argc, argv);
  set_log_level(quiet ? LogLevel::error : verbose ? LogLevel::debug : LogLevel::warning);
  if (*g) return run_generate(generate);
  if (*c) return run_chat(chat);
  if (*s) {
    if (!quiet && !verbose) set_log_level(LogLevel::info);
    return run_serve(serve);
  }
  if (*v) return run_convert(convert);
  if (*b) return bench.prompts.empty() ? run_bench(bench) : run_speculation_bench(bench);
  if (*e) return run_eval(eval);
  if (*k) return run_calibrate(calibrate);
  return run_doctor(doctor);
}

}  // namespace
}  // namespace anabranch::cli

int main(int argc, char** argv) {
  try {
    return anabranch::cli::run(argc, argv);
  } catch (const std::exception& e) {
    return anabranch::cli::fail({anabranch::ErrorKind::internal, e.what()});
  }
}
