#include "cli/flag_groups.h"

#include <fmt/core.h>

#include <algorithm>

#include "decode/speculation.h"
#include "server/api/sampler_fields.h"

namespace anabranch::cli {

Flag device_flag(std::string& device) {
  return {"--device", device,
          "What computes: cpu (the default), cuda (an NVIDIA GPU) or metal (a Mac's; never tried)",
          one_of({"cpu", "cuda", "metal"})};
}

Flag image_flag(std::vector<std::string>& files, const char* help) {
  return {"--image", files, help, repeated()};
}

Flag json_flag(bool& json, const char* help) {
  return {"--json", json, help};
}

FlagGroup model_flags(EngineOptions& o) {
  std::vector<Flag> flags = {
      {"-m,--model", o.model_path,
       "Model directory, .gguf or .safetensors file, or a name on the hub such as ORG/NAME", required(),
       OfModel()},
      {"-t,--threads", o.device.threads, "Threads to compute with (default: one per fast core; see doctor)",
       within(0, 1024)},
      {"--precise", o.device.precise, "Keep activations and keys/values in fp32 (slower)"},
      {"--overcommit", o.overcommit,
       "Load weights that are larger than the free memory (the system will swap)"},
      {"--reference", o.device.reference,
       "Run the plain MLX operations instead of our kernels (very slow; to compare)"},
      device_flag(o.device.name),
      {"--devices", o.device.devices,
       "Split the model among these GPUs of the machine, such as 0,1; its answers stay the same", listed(),
       within(0, 63)},
      {"--expert-memory", o.device.expert_bytes,
       "CUDA: memory of the device for the experts of a mixture, such as 8GB; the others stay in the "
       "machine's (default: all that fit)",
       size(), OfModel()},
  };
  return {"Model", std::move(flags)};
}

FlagGroup choice_flags(bool& yes) {
  return {"Model",
          {{"-y,--yes", yes,
            "Without --model: take the first of the models that suit this machine, without asking"}}};
}

FlagGroup context_flags(EngineOptions& o) {
  std::vector<Flag> flags = {
      {"--chat-template-file", o.chat_template_path, "Jinja template to use instead of the model's own"},
      {"--prefill-chunk", o.prefill_chunk,
       "Tokens of a prompt that are read in one pass (default: what suits the device)", within(0, 1 << 16)},
      {"--context", o.context_length, "Context length at most (default: the model's, as memory allows)",
       within(0, 1 << 27), OfModel()},
  };
  return {"Model", std::move(flags)};
}

FlagGroup adapter_flags(AdapterFlags& o) {
  return {"Model",
          {{"--lora", o,
            "Apply this LoRA adapter: a directory of PEFT or MLX, or a GGUF file (may be given several "
            "times: all are "
            "applied, in this order)",
            repeated()}}};
}

FlagGroup sampler_flags(SamplingOptions& o) {
  std::vector<Flag> flags = {
      {"--temp", o.temperature, "Temperature; 0 = greedy (default: the model's recommendation)",
       within(0.0, 100.0)},
      {"--top-p", o.top_p, "Keep the likeliest tokens up to this probability", within(0.0, 1.0)},
      {"--top-k", o.top_k, "Keep this many tokens; 0 = all", within(0, 1 << 24)},
      {"--min-p", o.min_p, "Keep tokens at least this likely, relative to the best", within(0.0, 1.0)},
      {"--repetition-penalty", o.repetition_penalty,
       "Divide the logits of tokens that were there before, prompt included; 1 = off", within(0.01, 100.0)},
      {"--presence-penalty", o.presence_penalty,
       "Take this off the logits of tokens that the answer has already", within(-2.0, 2.0)},
      {"--frequency-penalty", o.frequency_penalty,
       "Take this off the logits of tokens for each time that the answer has them", within(-2.0, 2.0)},
  };
  for (const server::SamplerField& field : server::sampler_fields()) {
    if (!field.help) continue;
    std::string name = fmt::format("--{}", field.name);
    std::replace(name.begin(), name.end(), '_', '-');
    Flag flag(std::move(name), o.others[field.name], field.help);
    if (field.whole()) {
      flag.rules.push_back([](CLI::Option& option) { option.type_name("INT"); });
      flag.rules.push_back(within(static_cast<int>(field.least), static_cast<int>(field.most)));
    } else {
      flag.rules.push_back(within(field.least, field.most));
    }
    flags.push_back(std::move(flag));
  }
  flags.emplace_back("--dry-sequence-breaker", o.dry_sequence_breakers,
                     "DRY: a repetition does not reach over this text (may be given several times)",
                     repeated());
  return {"Sampling", std::move(flags)};
}

FlagGroup sampling_flags(SamplingOptions& o) {
  FlagGroup group = sampler_flags(o);
  group.flags.insert(
      group.flags.end(),
      {
          {"--seed", o.seed, "Seed: the same one gives the same text (default: 0, in chat a random one)"},
          {"-n,--max-tokens", o.max_tokens,
           "Tokens of answer at most, thoughts not counted; -1 = up to the context", within(-1, 1 << 27)},
          {"--min-tokens", o.min_tokens, "Tokens of answer at least (unless --max-tokens ends it)",
           within(0, 1 << 27)},
          {"--stop", o.stop, "Stop before this text (may be given several times)", repeated()},
      });
  return group;
}

FlagGroup spec_flags(EngineOptions& engine, SpecFlags& o) {
  std::vector<Flag> flags = {
      {"--spec", o.source,
       "Draft tokens that the model then verifies, which changes the speed and nothing else: from earlier "
       "text (ngram), the model's MTP head (mtp), a draft model (draft), its own first layers (exit) or some "
       "of its layers (skip); auto picks what pays",
       one_of({"auto", "off", "ngram", "mtp", "draft", "exit", "skip"})},
      {"--spec-depth", o.depth, "Tokens to draft at a time (default: what pays)", within(1, kMaxDraft)},
      {"--draft", engine.draft_path,
       "A smaller model with the same tokenizer to draft with (a path or a name)", OfModel()},
      {"--lossy-skip", engine.lossy_skip,
       "Leave out the layers that `calibrate` found least needed, unverified: faster and worse", OfModel()},
  };
  return {"Speculation", std::move(flags)};
}

FlagGroup cache_flags(EngineOptions& engine, CacheFlags& o) {
  CacheOptions& cache = engine.cache;
  const Rule with_cache = excludes("--no-cache");
  std::vector<Flag> flags = {
      {"--no-cache", o.off, "Do not cache prefixes of prompts and answers for later prompts"},
      {"--cache-dir", cache.directory,
       "Directory of the prefix cache on disk (default: ~/.cache/anabranch/states; generate uses the disk "
       "only with this or --cache-disk)",
       with_cache},
      {"--cache-ram", cache.ram_bytes,
       "Memory for the prefix cache, such as 4GB (default: an eighth of the machine's, 8 GB at most)", size(),
       with_cache},
      {"--cache-disk", cache.disk_bytes,
       "Disk space for the prefix cache; 0 = none (default: a tenth of what is free, 32 GB at most)", size(),
       with_cache},
      {"--cache-disk-worth", o.disk_worth_s,
       "Write an entry of the prefix cache to disk if computing it again takes longer than this many "
       "seconds, and longer than writing and reading it; 0 = every entry (default: 0.25; generate: 0)",
       within(0.0, 3600.0), with_cache},
      {"--cache-kv", named(cache.kv, {{"exact", KvFormat::exact}, {"q8", KvFormat::q8}}),
       "Keys and values in the prefix cache: unchanged (exact, the default), or in 8 bits (q8): half the "
       "space, but answers after a cached prefix may differ",
       with_cache},
  };
  return {"Cache", std::move(flags)};
}

FlagGroup thinking_flags(ThinkFlags& o) {
  std::vector<Flag> flags = {
      {"--thinking", o.mode,
       "Let the model think first: on, off, or auto (the default): not for greetings, the times table and "
       "short questions for a fact, unless they look something up in a long prompt",
       one_of({"auto", "on", "off"})},
      {"--max-thinking-tokens", o.max_tokens,
       "Tokens of thought at most, beside those of the answer (default: 32768, as the context allows)",
       within(0, 1 << 27)},
  };
  return {"Thinking", std::move(flags)};
}

FlagGroup mcp_flags(McpFlags& o) {
  const Rule with_servers = needs("--mcp-config");
  std::vector<Flag> flags = {
      {"--mcp-config", o.config,
       "JSON file of MCP servers (\"mcpServers\"), whose tools the model may use (docs/mcp.md)"},
      {"--mcp-log", o.log, "Append a line of JSON about each call, with its arguments, to this file",
       with_servers},
      {"--mcp-max-steps", o.limits.steps,
       "Turns of the model for one answer, those with calls included (default: 16)", with_servers,
       within(1, 10000)},
      {"--mcp-max-seconds", o.limits.seconds,
       "Seconds for one answer, your consent not counted (default: 600)", with_servers, within(1.0, 86400.0)},
      {"--mcp-max-tokens", o.limits.tokens, "Tokens that the model may write for one answer (default: 32768)",
       with_servers, within(1, 1 << 27)},
      {"--mcp-max-output", o.server_limits.output_bytes,
       "Text of one call's result that the model gets; more is cut (default: 64KB)", with_servers, size(),
       within(256.0, 16777216.0)},
  };
  return {"Tools", std::move(flags)};
}

}  // namespace anabranch::cli
