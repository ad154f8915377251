#include "server/api/llama/prepare.h"

#include "server/api/llama/format.h"
#include "server/api/llama/request.h"
#include "server/api/openai/request.h"
#include "server/api/prepare_parts.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_llama(std::string_view body, bool infill, const PrepareContext& context) {
  const Tokenizer& tokenizer = context.engine.tokenizer();
  RequestEncoder texts = encoder_of(context);
  TRY(auto request, (infill ? parse_infill_request : parse_llama_request)(body, context.defaults, texts));
  const bool stream = request.completion.options.stream;
  auto result = context.preparer.completion(std::move(request.completion), context.cancelled);
  request.completion = {};
  std::vector<std::string> prompts;
  if (result)
    for (const auto& ids : result->prompts) prompts.push_back(tokenizer.decode(ids, false));
  return ready(std::move(result),
               std::make_shared<LlamaWriter>(stream, std::move(request), std::move(prompts)));
}

ApiResult<PreparedRequest> prepare_tokens(std::string_view body, const PrepareContext& context) {
  const Tokenizer& tokenizer = context.engine.tokenizer();
  const int length = context.engine.info().context_length;
  TRY(const auto json, parse_body(body));
  if (JsonFields(json).find("messages")) {
    TRY(auto chat, read_chat_request(json, context.defaults));
    TRY(const auto prepared, context.preparer.count(std::move(chat), context.cancelled));
    return respond(vllm_tokens_json(json, prepared.prompts[0], tokenizer, length));
  }
  RequestEncoder texts(tokenizer, context.preparer.most_counted(), 0, context.cancelled);
  return respond(tokenize(json, texts, length));
}

ApiResult<PreparedRequest> prepare_detokenize(std::string_view body, const PrepareContext& context) {
  return respond(detokenize(body, context.engine.tokenizer()));
}

}  // namespace anabranch::server
