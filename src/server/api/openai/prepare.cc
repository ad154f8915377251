#include "server/api/openai/prepare.h"

#include "server/api/infill_prompt.h"
#include "server/api/openai/format.h"
#include "server/api/openai/request.h"
#include "server/api/prepare_parts.h"

namespace anabranch::server {
namespace {

// Replaces each prompt by a fill-in-the-middle prompt made of it and the suffix.
ApiResult<void> put_suffix(CompletionRequest& completion, RequestEncoder texts) {
  for (TextOrTokens& prompt : completion.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    if (!text) return ApiError{400, "'suffix' needs prompts that are texts", "suffix", "invalid_value"};
    TRY(prompt, infill_prompt(*text, completion.suffix, {}, texts));
  }
  return {};
}

std::vector<std::string> texts_of(const std::vector<TextOrTokens>& prompts, const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (const TextOrTokens& prompt : prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    texts.push_back(text ? *text : tokenizer.decode(std::get<std::vector<int>>(prompt), false));
  }
  return texts;
}

}  // namespace

ApiResult<PreparedRequest> prepare_completion(std::string_view body, const PrepareContext& context) {
  TRY(auto completion, parse_completion_request(body, context.defaults));
  if (!completion.suffix.empty()) TRY_VOID(put_suffix(completion, encoder_of(context)));
  auto writer = std::make_shared<OpenAiWriter>(completion.options.stream, completion.options.include_usage);
  std::vector<std::string> echo;
  if (completion.echo) echo = texts_of(completion.prompts, context.engine.tokenizer());
  auto prepared =
      ready(context.preparer.completion(std::move(completion), context.cancelled), std::move(writer));
  if (auto* made = ready_in(prepared)) made->echo = std::move(echo);
  return prepared;
}

ApiResult<PreparedRequest> prepare_chat(std::string_view body, const PrepareContext& context) {
  CustomTools custom;
  TRY(auto chat, parse_chat_request(body, context.defaults, &custom));
  auto writer =
      std::make_shared<OpenAiWriter>(chat.options.stream, chat.options.include_usage, std::move(custom));
  return ready(context.preparer.chat(std::move(chat), context.cancelled), std::move(writer));
}

ApiResult<PreparedRequest> prepare_chat_count(std::string_view body, const PrepareContext& context) {
  TRY(auto request, parse_chat_request(body, context.defaults));
  return count(context.preparer.count(std::move(request), context.cancelled),
               {{"object", "response.input_tokens"}});
}

ApiResult<PreparedRequest> prepare_template(std::string_view body, const PrepareContext& context) {
  TRY(auto request, parse_chat_request(body, context.defaults));
  TRY(const auto prepared, context.preparer.count(std::move(request), context.cancelled));
  return respond(Json{{"prompt", context.engine.tokenizer().decode(prepared.prompts[0], false)}});
}

}  // namespace anabranch::server
