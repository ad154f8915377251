#include "cli/flag_groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cli/flags.h"
#include "decode/speculation.h"
#include "server/api/sampler_fields.h"

namespace anabranch::cli {

void add_model_flags(CLI::App& app, ModelOptions& o) {
  const Group group(app, "Model");
  app.add_option("-m,--model", o.model,
                 "Model directory, .gguf or .safetensors file, or a name on the hub such as ORG/NAME")
      ->required();
  app.add_option("-t,--threads", o.threads,
                 "Threads to compute with (default: one per fast core; see doctor)")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--precise", o.precise, "Keep activations and keys/values in fp32 (slower)");
  app.add_flag("--overcommit", o.overcommit,
               "Load weights that are larger than the free memory (the system will swap)");
  app.add_flag("--reference", o.reference,
               "Run the plain MLX operations instead of our kernels (very slow; to compare)");
  add_device_flag(app, o.device);
  app.add_option("--devices", o.devices,
                 "Split the model among these GPUs of the machine, such as 0,1; its answers stay the same")
      ->delimiter(',')
      ->check(CLI::Range(0, 63));
  app.add_option(
         "--expert-memory", o.expert_bytes,
         "CUDA: memory of the device for the experts of a mixture, such as 8GB; the others stay in the "
         "machine's (default: all that fit)")
      ->transform(size_flag());
}

void add_context_flag(CLI::App& app, ModelOptions& o) {
  const Group group(app, "Model");
  app.add_option("--chat-template-file", o.chat_template, "Jinja template to use instead of the model's own");
  app.add_option("--prefill-chunk", o.prefill_chunk,
                 "Tokens of a prompt that are read in one pass (default: what suits the device)")
      ->check(CLI::Range(0, 1 << 16));
  app.add_option("--context", o.context, "Context length at most (default: the model's, as memory allows)")
      ->check(CLI::Range(0, 1 << 27));
}

CLI::Validator number_in(float low, float high) {
  return CLI::Range(low, high) & CLI::Validator(
                                     [](const std::string& text) {
                                       return std::isnan(std::strtof(text.c_str(), nullptr)) ? "not a number"
                                                                                             : "";
                                     },
                                     "");
}

void add_sampler_flags(CLI::App& app, SamplingOptions& o) {
  const Group group(app, "Sampling");
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
  for (const server::SamplerField& field : server::sampler_fields()) {
    if (!field.help) continue;
    std::string flag = fmt::format("--{}", field.name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    auto* option = app.add_option(flag, o.others[field.name], field.help);
    if (field.whole())
      option->type_name("INT")->check(
          CLI::Range(static_cast<int>(field.least), static_cast<int>(field.most)));
    else
      option->check(number_in(static_cast<float>(field.least), static_cast<float>(field.most)));
  }
  app.add_option("--dry-sequence-breaker", o.dry_sequence_breakers,
                 "DRY: a repetition does not reach over this text (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_sampling_flags(CLI::App& app, SamplingOptions& o) {
  const Group group(app, "Sampling");
  add_sampler_flags(app, o);
  app.add_option("--seed", o.seed,
                 "Seed: the same one gives the same text (default: 0, in chat a random one)");
  app.add_option("-n,--max-tokens", o.max_tokens,
                 "Tokens of answer at most, thoughts not counted; -1 = up to the context")
      ->check(CLI::Range(-1, 1 << 27));
  app.add_option("--min-tokens", o.min_tokens, "Tokens of answer at least (unless --max-tokens ends it)")
      ->check(CLI::Range(0, 1 << 27));
  app.add_option("--stop", o.stop, "Stop before this text (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_spec_flags(CLI::App& app, SpecOptions& o) {
  const Group group(app, "Speculation");
  app.add_option(
         "--spec", o.source,
         "Draft tokens that the model then verifies, which changes the speed and nothing else: from "
         "earlier text (ngram), the model's MTP head (mtp), a draft model (draft), its own first layers "
         "(exit) or some of its layers (skip); auto picks what pays")
      ->check(CLI::IsMember({"auto", "off", "ngram", "mtp", "draft", "exit", "skip"}));
  app.add_option("--spec-depth", o.depth, "Tokens to draft at a time (default: what pays)")
      ->check(CLI::Range(1, kMaxDraft));
  app.add_option("--draft", o.draft,
                 "A smaller model with the same tokenizer to draft with (a path or a name)");
  app.add_flag("--lossy-skip", o.lossy_skip,
               "Leave out the layers that `calibrate` found least needed, unverified: faster and worse");
}

void add_cache_flags(CLI::App& app, CacheFlags& o) {
  const Group group(app, "Cache");
  auto* off = app.add_flag("--no-cache", o.off, "Keep no states of prompts and answers for later prompts");
  app.add_option(
         "--cache-dir", o.directory,
         "Where states are kept on disk (default: ~/.cache/anabranch/states; generate keeps none there "
         "without this or --cache-disk)")
      ->excludes(off);
  app.add_option("--cache-ram", o.ram_bytes,
                 "Memory for states, such as 4GB (default: an eighth of the machine's, 8 GB at most)")
      ->transform(size_flag())
      ->excludes(off);
  app.add_option("--cache-disk", o.disk_bytes,
                 "Disk space for states; 0 = none (default: a tenth of what is free, 32 GB at most)")
      ->transform(size_flag())
      ->excludes(off);
  app.add_option(
         "--cache-disk-worth", o.disk_worth_s,
         "Keep a state on disk if computing it again takes so many seconds, and longer than the disk; "
         "0 = every state (default: 0.25; generate: 0)")
      ->check(number_in(0, 3600))
      ->excludes(off);
  app.add_option("--cache-kv", o.kv,
                 "Keys and values of states: as they are (exact, the default), or in 8 bits (q8): half the "
                 "space, but answers after a kept beginning may differ")
      ->check(CLI::IsMember({"exact", "q8"}))
      ->excludes(off);
}

void add_peer_flags(CLI::App& app, PeerFlags& o) {
  const Group group(app, "Cache");
  app.add_flag("--share-states", o.share,
               "Give kept states to other workers of this model that ask for them (behind the API keys)");
  app.add_option("--state-peer", o.peers,
                 "Address of another worker, such as http://10.0.0.5:11436: states that it keeps are fetched "
                 "before a prompt is computed (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--state-peer-timeout", o.timeout_s,
                 "Seconds that a prompt waits for other workers at most; then it is computed here (default: "
                 "2)")
      ->check(number_in(0.01f, 600.0f));
  app.add_option("--state-peer-key-file", o.key_file,
                 "File with the API key for those workers (default: ANABRANCH_API_KEY in the environment)");
}

void add_thinking_flags(CLI::App& app, ThinkFlags& o) {
  const Group group(app, "Thinking");
  app.add_option(
         "--thinking", o.mode,
         "Let the model think first: on, off, or auto (the default): not for greetings, the times table "
         "and short questions for a fact, unless they look something up in a long prompt")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_option(
         "--max-thinking-tokens", o.max_tokens,
         "Tokens of thought at most, beside those of the answer (default: 32768, as the context allows)")
      ->check(CLI::Range(0, 1 << 27));
}

}  // namespace anabranch::cli
