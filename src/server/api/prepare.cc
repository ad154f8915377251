#include "server/api/prepare.h"

#include <iterator>

#include "server/api/anthropic/format.h"
#include "server/api/anthropic/prepare.h"
#include "server/api/embedder.h"
#include "server/api/generate/prepare.h"
#include "server/api/llama/prepare.h"
#include "server/api/ollama/format.h"
#include "server/api/ollama/prepare.h"
#include "server/api/openai/prepare.h"
#include "server/api/prepare_parts.h"
#include "server/api/responses/prepare.h"

namespace anabranch::server {
namespace {

ApiResult<PreparedRequest> prepare_embedding(std::string_view body, EmbeddingApi api,
                                             const PrepareContext& context) {
  if (const std::string& adapter = context.defaults.adapters.named; !adapter.empty())
    return ApiError{
        400,
        fmt::format("'{}' is an adapter, and embeddings are those of a model without adapters: ask for "
                    "'{}'",
                    adapter, context.model),
        "model", "unsupported_value"};
  const ModelInfo& info = context.engine.info();
  RequestEncoder texts(context.engine.tokenizer(), context.preparer.most_counted(),
                       static_cast<size_t>(info.context_length), context.cancelled);
  TRY(auto request, parse_embedding_request(body, api, info, texts));
  if (request.keep_s) context.keep_model(*request.keep_s);
  if (request.prompts.empty()) return respond(no_embeddings(request.format, context.model));
  return PreparedRequest(std::move(request));
}

// How requests of a kind are prepared, and how errors are written for their clients.
struct Preparation {
  AnswerKind kind;
  ApiResult<PreparedRequest> (*prepare)(std::string_view body, const PrepareContext& context);
  HttpResponse (*write_error)(const ApiError& error) = error_response;
};

// prepare_...() of a kind with one more argument.
template <auto function, auto argument>
ApiResult<PreparedRequest> with(std::string_view body, const PrepareContext& context) {
  return function(body, argument, context);
}

using enum AnswerKind;
constexpr Preparation kPreparations[] = {
    {chat, prepare_chat},
    {completion, prepare_completion},
    {response, with<prepare_response, false>},
    {input_count, with<prepare_response, true>},
    {compaction, prepare_compaction},
    {message, with<prepare_message, false>, message_error_response},
    {token_count, with<prepare_message, true>, message_error_response},
    {ollama_chat, with<prepare_ollama, false>, ollama_error_response},
    {ollama_generate, with<prepare_ollama, true>, ollama_error_response},
    {chat_count, prepare_chat_count},
    {llama_completion, with<prepare_llama, false>},
    {infill, with<prepare_llama, true>},
    {tokenize, prepare_tokens},
    {detokenize, prepare_detokenize},
    {apply_template, prepare_template},
    {embedding, with<prepare_embedding, EmbeddingApi::openai>},
    {ollama_embed, with<prepare_embedding, EmbeddingApi::ollama>, ollama_error_response},
    {ollama_embedding, with<prepare_embedding, EmbeddingApi::ollama_one>, ollama_error_response},
    {rerank, with<prepare_embedding, EmbeddingApi::rerank>},
    {generate, prepare_generate},
};

static_assert(std::size(kPreparations) == static_cast<size_t>(generate) + 1, "each kind has a row");

consteval bool rows_are_in_order() {
  for (size_t i = 0; i < std::size(kPreparations); ++i)
    if (kPreparations[i].kind != static_cast<AnswerKind>(i)) return false;
  return true;
}
static_assert(rows_are_in_order(), "row i has kind i");

const Preparation& preparation_of(AnswerKind kind) {
  return kPreparations[static_cast<size_t>(kind)];
}

}  // namespace

ApiResult<PreparedRequest> prepare(AnswerKind kind, std::string_view body, const PrepareContext& context) {
  return preparation_of(kind).prepare(body, context);
}

HttpResponse error_response_for(AnswerKind kind, const ApiError& error) {
  return preparation_of(kind).write_error(error);
}

}  // namespace anabranch::server
