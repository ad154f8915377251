#include "cli/server_prompt.h"

#include "server/api/api_request.h"

namespace anabranch::cli {

Result<Prepared> prepare_as_server(const Engine& engine, Preparer& preparer, const Json& body,
                                   const SamplingParams& sampling, const ThinkFlags& thinking,
                                   const std::vector<std::string>& stop,
                                   const std::function<bool()>& cancelled) {
  TRY_VOID(check_chat_template(engine, thinking));
  auto read =
      server::read_chat_request(body, server::request_defaults(engine, sampling, thinking_wish(thinking)));
  if (const auto* error = std::get_if<server::ApiError>(&read))
    return Error{ErrorKind::invalid, error->message};
  ChatRequest& request = std::get<ChatRequest>(read);
  request.options.sampling = sampling;
  request.options.stop = stop;
  auto prepared = preparer.chat(std::move(request), cancelled);
  if (const auto* error = std::get_if<RequestError>(&prepared)) return error->error;
  return std::get<Prepared>(std::move(prepared));
}

Prompt take_prompt(Prepared& prepared) {
  Prompt prompt;
  prompt.tokens = std::move(prepared.prompts.front());
  prompt.images = std::move(prepared.images);
  prompt.keep_at = std::move(prepared.keep_at);
  prompt.rules = prepared.rules;
  prompt.thinking = std::move(prepared.thinking);
  return prompt;
}

}  // namespace anabranch::cli
