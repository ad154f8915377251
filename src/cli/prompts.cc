#include "cli/prompts.h"

#include <filesystem>
#include <future>

#include "base/log.h"
#include "server/api/openai/request.h"
#include "server/api/sampler_fields.h"

namespace anabranch::cli {
namespace {

// Errors of preparation name fields of requests; this replaces them by the flags of the command line.
Error in_own_words(Error error) {
  if (error.code == "context_length_exceeded")
    error.message = fmt::format(
        "the prompt has {}{} tokens, but the context is {} tokens long and the answer needs room too: "
        "shorten it, or raise --context as far as the model allows",
        error.needed > error.limit ? "more than " : "", error.limit, error.limit);
  else if (error.code == "cancelled")
    error.message = "interrupted";
  else if (error.field == "ignore_eos")
    error.message = "--ignore-eos cannot be combined with --json-schema and --grammar, which have an end";
  return error;
}

Result<void> check_chat_template(const Engine& engine, const ThinkFlags& thinking) {
  const auto* chat = engine.chat_template();
  if (!chat)
    return make_error(ErrorKind::unsupported,
                      "{} brings no chat template: give one with --chat-template-file, or use `generate "
                      "--raw` to continue plain text",
                      engine.info().name);
  if (thinking.mode == "on" && !chat->mentions("enable_thinking"))
    return make_error(ErrorKind::unsupported, "{}'s chat template knows no thinking: leave --thinking out",
                      engine.info().name);
  return {};
}

// Adds the compiled grammar, if something restricts the answer.
Result<Prepared> finished(const Preparer& preparer, Result<Prepared> prepared) {
  if (prepared && prepared->constrained) {
    std::promise<Result<Prepared>> made;
    const auto client = std::make_shared<char>();  // stands for a client that waits
    preparer.compile(std::move(*prepared), {client},
                     [&](Result<Prepared> whole) { made.set_value(std::move(whole)); });
    prepared = made.get_future().get();
  }
  if (!prepared) return in_own_words(prepared.error());
  return prepared;
}

}  // namespace

SamplingParams sampling_params(const SamplingOptions& options, const Engine& engine, uint64_t default_seed) {
  SamplingParams params = engine.default_sampling();
  if (options.temperature) params.temperature = *options.temperature;
  if (options.top_p) params.top_p = *options.top_p;
  if (options.top_k) params.top_k = *options.top_k;
  if (options.min_p) params.min_p = *options.min_p;
  if (options.repetition_penalty) params.repetition_penalty = *options.repetition_penalty;
  if (options.presence_penalty) params.presence_penalty = *options.presence_penalty;
  if (options.frequency_penalty) params.frequency_penalty = *options.frequency_penalty;
  for (const server::SamplerField& field : server::sampler_fields())
    if (const auto it = options.others.find(field.name); it != options.others.end() && it->second)
      field.set(params, *it->second);
  if (!options.dry_sequence_breakers.empty()) params.dry.breakers = options.dry_sequence_breakers;
  params.seed = options.seed.value_or(default_seed);
  return params;
}

GenerationOptions generation_options(const SamplingOptions& options, const Engine& engine,
                                     uint64_t default_seed) {
  GenerationOptions out;
  out.sampling = sampling_params(options, engine, default_seed);
  out.max_tokens = options.max_tokens;
  out.min_tokens = options.min_tokens;
  out.stop = options.stop;
  return out;
}

Result<void> check_adapters(const AdapterFlags& paths) {
  if (paths.size() > kMaxAdapters)
    return make_error(ErrorKind::invalid, "--lora is given {} times, but {} adapters can be applied together",
                      paths.size(), kMaxAdapters);
  for (const std::string& path : paths)
    if (std::error_code failed; !std::filesystem::exists(path, failed))
      return make_error(ErrorKind::not_found, "--lora {}: there is no such file or directory", path);
  return {};
}

Result<std::vector<AppliedAdapter>> applied_adapters(Engine& engine, const AdapterFlags& paths) {
  std::vector<AppliedAdapter> applied;
  for (const std::string& path : paths) {
    TRY(auto adapter, engine.load_adapter(path));
    applied.push_back({std::move(adapter)});
  }
  return applied;
}

ThinkingWish thinking_wish(const ThinkFlags& flags) {
  ThinkingWish wish;
  wish.budget = flags.max_tokens;
  const bool none = flags.mode == "auto" && flags.max_tokens == 0;
  wish.mode = flags.mode == "on"            ? ThinkMode::on
              : flags.mode == "off" || none ? ThinkMode::off
                                            : ThinkMode::automatic;
  wish.said_by = none ? "--max-thinking-tokens 0" : "--thinking " + flags.mode;
  return wish;
}

Result<Prepared> prepare_chat(const Engine& engine, Preparer& preparer, const Json& body,
                              const ThinkFlags& thinking, GenerationOptions options,
                              const std::function<bool()>& cancelled) {
  TRY_VOID(check_chat_template(engine, thinking));
  options.thinking = thinking_wish(thinking);
  auto request =
      server::read_chat_request(body, server::request_defaults(engine, options.sampling, options.thinking));
  if (!request) return Error{ErrorKind::invalid, request.error().message};
  request->options = std::move(options);
  return finished(preparer, preparer.chat(std::move(*request), cancelled));
}

Result<Prepared> prepare_text(Preparer& preparer, TextOrTokens text, GenerationOptions options) {
  CompletionRequest request;
  request.options = std::move(options);
  request.prompts.push_back(std::move(text));
  return finished(preparer, preparer.completion(std::move(request), {}));
}

}  // namespace anabranch::cli
