// `generate`: one prompt, one answer.
#include <fmt/core.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "chat/logprobs_json.h"
#include "chat/speculation_json.h"
#include "cli/conversation.h"
#include "cli/image_files.h"
#include "cli/print.h"
#include "cli/prompts.h"
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

// An error about a flag's value, with the flag's name.
Error of_flag(const char* flag, const std::string& value, const Error& error) {
  const bool is_named = value.find_first_of("{[\n") != value.npos ||  // the value itself, not a file's name
                        error.message.find(value) != error.message.npos;
  return {error.kind, fmt::format("{}{}: {}", flag, is_named ? "" : " " + value, error.message)};
}

// The text of a flag that takes either a file or the text itself; `is_text` decides which.
Result<std::string> text_of_flag(const char* flag, const std::string& value, bool is_text) {
  constexpr size_t kMostBytes = 1u << 20;
  if (is_text) return value;
  auto text = read_file(value, kMostBytes);
  if (!text) return of_flag(flag, value, text.error());
  return text;
}

Result<Json> checked_schema(const std::string& text) {
  TRY(Json schema, parse_json(text));
  GrammarRules rules;
  TRY_VOID(add_schema(schema, rules));
  return schema;
}

// The format that the flags require of the answer.
Result<ResponseFormat> response_format(const GenerateOptions& options) {
  ResponseFormat format;
  const std::string &grammar = options.grammar, &schema = options.json_schema;
  if (!grammar.empty()) {
    format.kind = ResponseFormat::Kind::grammar;
    format.field = "--grammar";
    TRY(format.grammar, text_of_flag("--grammar", grammar, grammar.find("::=") != grammar.npos));
  } else if (!schema.empty()) {
    format.kind = ResponseFormat::Kind::schema;
    format.field = "--json-schema";
    TRY(const std::string text,
        text_of_flag("--json-schema", schema, schema.find_first_of("{[") != schema.npos));
    auto checked = checked_schema(text);
    if (!checked) return of_flag("--json-schema", schema, checked.error());
    format.schema = std::move(*checked);
  }
  return format;
}

// The answer's log probabilities, in the format of /v1/chat/completions.
Json logprobs_json(const Answer& answer, const Tokenizer& tokenizer) {
  LogprobsJson json(LogprobsFormat::chat, tokenizer);
  json.push(answer.tokens, answer.logprobs);
  return answer.tokens.empty() ? Json::array() : json.take()["content"];
}

Result<Prepared> prepare(const GenerateOptions& options, const Engine& engine, Preparer& preparer,
                         const std::string& text, const std::vector<Json>& images, GenerationOptions wanted) {
  if (options.raw) {
    if (!options.system.empty() || options.thinking.mode != "auto" || !images.empty())
      return make_error(ErrorKind::invalid,
                        "--system, --thinking and --image need the chat template: leave out --raw");
    wanted.thinking.budget = options.thinking.max_tokens;
    return prepare_text(preparer, text, std::move(wanted));
  }
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back(user_message(text, images));
  return prepare_chat(engine, preparer, {{"messages", std::move(messages)}}, options.thinking,
                      std::move(wanted));
}

// Adds the flag's name to an error that the engine found in a flag's value.
Error flag_error(const GenerateOptions& options, const Error& error) {
  const std::string quoted = fmt::format("'{}': ", error.field);
  if (!error.field.starts_with("--") || !error.message.starts_with(quoted)) return error;
  const std::string& value = error.field == "--grammar" ? options.grammar : options.json_schema;
  return of_flag(error.field.c_str(), value, {error.kind, error.message.substr(quoted.size())});
}

// A single prompt is seldom continued, so the prefix cache is written to disk only if a flag asks for it.
Result<std::unique_ptr<Engine>> load_engine(const GenerateOptions& options) {
  EngineOptions engine = options.engine;
  if (engine.cache.directory.empty() && !engine.cache.disk_bytes) engine.cache.disk_bytes = 0;
  CacheFlags cache = options.cache;
  if (!cache.disk_worth_s) cache.disk_worth_s = 0;  // whoever names a folder wants the cached state there
  return make_engine(engine, options.spec, cache);
}

Result<int> generate(const GenerateOptions& options) {
  TRY(const auto images, image_parts(options.images));
  TRY(const std::string text, read_prompt(options));
  if (text.empty())
    return make_error(ErrorKind::invalid,
                      "the prompt is empty: give it as a word in quotes, with --prompt-file FILE, or on "
                      "standard input");
  TRY(ResponseFormat format, response_format(options));
  TRY(const auto engine, load_engine(options));

  Preparer preparer(*engine, {});
  GenerationOptions wanted = generation_options(options.sampling, *engine, 0);
  TRY(auto adapters, applied_adapters(*engine, options.adapters));
  apply_adapters(wanted, std::move(adapters));
  wanted.ignore_eos = options.ignore_eos;
  wanted.logprobs = options.logprobs;
  wanted.format = std::move(format);
  const auto prepared = prepare(options, *engine, preparer, text, images, std::move(wanted));
  if (!prepared) return flag_error(options, prepared.error());
  TRY(const Answer answer, run_prompt(*engine, *prepared, options.json, catch_interrupts()));
  if (options.json) {
    Json json = to_json(answer);
    if (const auto& report = prepared->think_report)
      json["thinking"] = {{"enabled", report->enabled}, {"reason", report->reason}};
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
  TRY_VOID(check_adapters(options.adapters));
  TRY_VOID(response_format(options));
  return {};
}

int run_generate(const GenerateOptions& options) {
  auto result = generate(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
