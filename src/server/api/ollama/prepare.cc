#include "server/api/ollama/prepare.h"

#include "server/api/ollama/format.h"
#include "server/api/ollama/request.h"
#include "server/api/prepare_parts.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_ollama(std::string_view body, bool generate,
                                          const PrepareContext& context) {
  TRY(auto request, parse_ollama_request(body, generate, context.defaults));
  if (request.keep_s) context.keep_model(*request.keep_s);
  auto writer = std::make_shared<OllamaWriter>(request.stream);
  if (auto* chat = std::get_if<ChatRequest>(&request.asks))
    return ready(request.truncate ? prepare_shortened(*chat, context)
                                  : context.preparer.chat(std::move(*chat), context.cancelled),
                 std::move(writer));
  if (auto* completion = std::get_if<CompletionRequest>(&request.asks))
    return ready(context.preparer.completion(std::move(*completion), context.cancelled), std::move(writer));
  return respond(ollama_loaded(context.model, generate, request.keep_s == 0));
}

}  // namespace anabranch::server
