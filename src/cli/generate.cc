// `generate`: one prompt, one answer.
#include <fmt/core.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "chat/logprobs_json.h"
#include "chat/speculation_json.h"
#include "cli/conversation.h"
#include "cli/image_files.h"
#include "cli/print.h"
#include "cli/server_prompt.h"
#include "cli/standard_input.h"
#include "grammar/schema_grammar.h"

namespace anabranch::cli {
namespace {

constexpr size_t kMaxPromptBytes = 64u << 20;

Result<std::string> read_prompt(const GenerateOptions& options) {
  if (!options.prompt_file.empty()) return read_file(options.prompt_file, kMaxPromptBytes);
  if (!options.prompt.empty()) return options.prompt;
  if (isatty(STDIN_FILENO)) say(stderr, "reading the prompt from standard input; end it with Ctrl-D\n");
  TRY(std::string text, read_standard_input(kMaxPromptBytes));
  while (!options.raw && !text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
    case FinishReason::none:
      break;
  }
  return "none";
}

Json to_json(const Answer& answer) {
  const auto& u = answer.usage;
  return {{"text", answer.text},
          {"reasoning", answer.reasoning},
          {"token_ids", answer.tokens},
          {"prompt_tokens", u.prompt_tokens},
          {"cached_tokens", u.cached_tokens},
          {"completion_tokens", u.completion_tokens},
          {"thinking_tokens", u.thinking_tokens},
          {"cut", u.cut.empty() ? Json(nullptr) : Json(u.cut)},
          {"finish_reason", name_of(answer.finish)},
          {"ttft_s", u.ttft_s},
          {"prefill_tok_s", prefill_rate(u)},
          {"decode_tok_s", decode_rate(u)},
          {"speculation", speculation_json(u.speculation)}};
}

// The error of a flag's value, with the flag.
Error of_flag(const char* flag, const std::string& value, const Error& error) {
  const bool is_named = value.find_first_of("{[\n") != value.npos ||  // the value itself, not a file's name
                        error.message.find(value) != error.message.npos;
  return {error.kind, fmt::format("{}{}: {}", flag, is_named ? "" : " " + value, error.message)};
}

Result<std::string> schema_grammar(const std::string& schema) {
  TRY(const Json json, parse_json(schema));
  GrammarRules rules;
  TRY(const std::string element, add_schema(json, rules));
  return rules.text(element);
}

// The text of the grammar that the flags ask for; "": none.
Result<std::string> grammar_text(const GenerateOptions& options) {
  constexpr size_t kMostBytes = 1u << 20;
  if (!options.grammar.empty()) {
    if (options.grammar.find("::=") != std::string::npos) return options.grammar;
    auto text = read_file(options.grammar, kMostBytes);
    if (!text) return of_flag("--grammar", options.grammar, text.error());
    return text;
  }
  if (options.json_schema.empty()) return std::string();
  std::string schema = options.json_schema;
  if (schema.find_first_of("{[") == std::string::npos) {
    auto text = read_file(options.json_schema, kMostBytes);
    if (!text) return of_flag("--json-schema", options.json_schema, text.error());
    schema = std::move(*text);
  }
  auto grammar = schema_grammar(schema);
  if (!grammar) return of_flag("--json-schema", options.json_schema, grammar.error());
  return grammar;
}

// As in /v1/chat/completions.
Json logprobs_json(const Answer& answer, const Tokenizer& tokenizer) {
  LogprobsJson json(LogprobsForm::chat, tokenizer);
  json.push(answer.tokens, answer.logprobs);
  return answer.tokens.empty() ? Json::array() : json.take()["content"];
}

Result<Prompt> chat_prompt(const GenerateOptions& options, const Engine& engine, const std::string& text,
                           const std::vector<Json>& images) {
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back(user_message(text, images));
  if (images.empty()) return make_chat_prompt(engine, messages, options.thinking, options.sampling.stop);
  Preparer preparer(engine, {});
  TRY(Prepared prepared, prepare_as_server(engine, preparer, {{"messages", messages}},
                                           sampling_params(options.sampling, engine, 0), options.thinking,
                                           options.sampling.stop, [] { return interrupt_flag().load(); }));
  Prompt prompt = take_prompt(prepared);
  if (prepared.think_report) prompt.think_report = *prepared.think_report;
  return prompt;
}

// One answer is seldom asked again: its states go to disk only if a flag says so.
CacheFlags cache_of(const GenerateOptions& options) {
  CacheFlags cache = options.cache;
  if (cache.directory.empty() && !cache.disk_bytes) cache.disk_bytes = 0;
  if (!cache.disk_worth_s) cache.disk_worth_s = 0;  // who names a folder wants the state there
  return cache;
}

Result<int> generate(const GenerateOptions& options) {
  TRY(const auto images, image_parts(options.images));
  TRY(const std::string text, read_prompt(options));
  if (text.empty())
    return make_error(ErrorKind::invalid,
                      "the prompt is empty: give it as a word in quotes, with --prompt-file FILE, or on "
                      "standard input");
  TRY(const std::string grammar, grammar_text(options));
  TRY(const auto engine, make_engine(options.model, options.spec, cache_of(options)));

  Prompt prompt;
  if (options.raw) {
    if (!options.system.empty() || options.thinking.mode != "auto" || !images.empty())
      return make_error(ErrorKind::invalid,
                        "--system, --thinking and --image need the chat template: leave out --raw");
    TRY(prompt, make_checked_raw_prompt(*engine, text));
    prompt.thinking.budget = options.thinking.max_tokens;
  } else {
    TRY(prompt, chat_prompt(options, *engine, text, images));
  }
  const Json thinking = {{"enabled", prompt.think_report.enabled}, {"reason", prompt.think_report.reason}};
  Request request;
  request.sampling = sampling_params(options.sampling, *engine, 0);
  request.max_tokens = options.sampling.max_tokens;
  request.stop = options.sampling.stop;
  request.ignore_eos = options.ignore_eos;
  request.logprobs = options.logprobs;
  if (!grammar.empty()) {
    auto compiled = engine->compile_grammar(grammar);
    if (!compiled)
      return options.grammar.empty() ? of_flag("--json-schema", options.json_schema, compiled.error())
                                     : of_flag("--grammar", options.grammar, compiled.error());
    request.grammar = std::move(*compiled);
  }
  TRY(const Answer answer,
      run_prompt(*engine, std::move(prompt), std::move(request), options.json, catch_interrupts()));
  if (options.json) {
    Json json = to_json(answer);
    if (!options.raw) json["thinking"] = thinking;
    if (options.logprobs >= 0) json["logprobs"] = logprobs_json(answer, engine->tokenizer());
    say_json(json);
  } else if (isatty(STDERR_FILENO)) {
    say(stderr, "\033[2m{}\033[0m\n", describe(answer.usage));
  }
  return answer.finish == FinishReason::cancelled ? 130 : 0;
}

}  // namespace

Result<void> check_generate(const GenerateOptions& options) {
  if (!options.prompt_file.empty()) TRY_VOID(read_file(options.prompt_file, kMaxPromptBytes));
  TRY_VOID(image_parts(options.images));
  TRY_VOID(grammar_text(options));
  return {};
}

int run_generate(const GenerateOptions& options) {
  auto result = generate(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
