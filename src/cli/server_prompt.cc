#include "cli/server_prompt.h"

#include "server/api/api_request.h"

namespace anabranch::cli {

Result<Prepared> prepare_as_server(const Engine& engine, Preparer& preparer, const Json& body,
                                   const SamplingParams& sampling, const ThinkFlags& thinking,
                                   const std::vector<std::string>& stop,
                                   const std::function<bool()>& cancelled) {
  TRY_VOID(check_chat_template(engine, thinking));
  auto request =
      server::read_chat_request(body, server::request_defaults(engine, sampling, thinking_wish(thinking)));
  if (!request) return Error{ErrorKind::invalid, request.error().message};
  request->options.sampling = sampling;
  request->options.stop = stop;
  return preparer.chat(std::move(*request), cancelled);
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
