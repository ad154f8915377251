#include "server/api/prepare.h"

#include "base/clock.h"

#include "server/api/anthropic/format.h"
#include "server/api/anthropic/request.h"
#include "server/api/embedder.h"
#include "server/api/generate/format.h"
#include "server/api/generate/request.h"
#include "server/api/llama/format.h"
#include "server/api/ollama/format.h"
#include "server/api/ollama/request.h"
#include "server/api/openai/format.h"
#include "server/api/responses/compaction.h"
#include "server/api/responses/format.h"
#include "server/api/session_json.h"
#include "server/api/shorten.h"

namespace anabranch::server {
namespace {

ApiResult<PreparedRequest> ready(Result<Prepared> result, std::shared_ptr<AnswerWriter> writer) {
  TRY(auto prepared, std::move(result));
  return PreparedRequest(ReadyRequest{std::move(prepared), std::move(writer)});
}

ReadyRequest* ready_in(ApiResult<PreparedRequest>& prepared) {
  return prepared ? std::get_if<ReadyRequest>(&*prepared) : nullptr;
}

ApiResult<PreparedRequest> respond(const Json& json) {
  return PreparedRequest(json_response(json));
}

// The answer to a request for the length of its prompt. json: its other members.
ApiResult<PreparedRequest> count(const Result<Prepared>& result, Json json) {
  if (!result) return result.error();
  json["input_tokens"] = result->prompts[0].size();
  return respond(json);
}

// An encoder for prompts, each of which must fit into the context.
RequestEncoder encoder_of(const PrepareContext& context) {
  const auto most = static_cast<size_t>(context.engine.info().context_length);
  return {context.engine.tokenizer(), most > 0 ? most : SIZE_MAX, most, context.cancelled};
}

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

ApiResult<PreparedRequest> prepare_generate(std::string_view body, const PrepareContext& context) {
  TRY(auto completion, parse_generate_request(body, context.defaults));
  const GenerationOptions& options = completion.options;
  auto writer = std::make_shared<GenerateWriter>(options.stream, options.stop_tokens);
  return ready(context.preparer.completion(std::move(completion), context.cancelled), std::move(writer));
}

ApiResult<PreparedRequest> prepare_chat(std::string_view body, const PrepareContext& context) {
  CustomTools custom;
  TRY(auto chat, parse_chat_request(body, context.defaults, &custom));
  auto writer =
      std::make_shared<OpenAiWriter>(chat.options.stream, chat.options.include_usage, std::move(custom));
  return ready(context.preparer.chat(std::move(chat), context.cancelled), std::move(writer));
}

// Limits the text of tool results to one byte for each token of the context, which leaves room for the rest
// of the conversation.
mcp::AgentLimits agent_limits(const PrepareContext& context) {
  mcp::AgentLimits limits = context.agent_limits;
  limits.output_bytes =
      std::min(limits.output_bytes, static_cast<size_t>(context.engine.info().context_length));
  return limits;
}

ApiResult<PreparedRequest> prepare_message(std::string_view body, bool counting,
                                           const PrepareContext& context) {
  AgentTools tools{context.responses->servers};
  tools.allowed = context.may_use_tools;
  tools.owner = context.owner;
  tools.list = context.defaults.list_tools;
  TRY(auto chat, parse_messages_request(body, context.defaults, counting, &tools, context.cancelled));
  if (counting) return count(context.preparer.count(std::move(chat), context.cancelled), Json::object());
  auto writer = std::make_shared<MessageWriter>(chat.options.stream, chat.left_out_tools, tools);
  std::shared_ptr<AgentRun> agent;
  if (!tools.toolbox.empty()) {
    chat.options.max_tokens = most_tokens(chat.options.max_tokens, context.agent_limits);
    agent = std::make_shared<AgentRun>(std::move(tools), chat, std::vector<AgentCall>(),
                                       agent_limits(context), now_seconds());
  }
  auto prepared = ready(context.preparer.chat(std::move(chat), context.cancelled), writer);
  if (auto* made = ready_in(prepared)) {
    made->agent = std::move(agent);
    if (context.engine.stats().cache) writer->set_marks(made->prepared.marked);
  }
  return prepared;
}

bool is_too_long(const Result<Prepared>& result) {
  return !result && result.error().code == "context_length_exceeded";
}

// Leaves out as little of the oldest part as needed for the prompt to fit. room: tokens that must be left for
// the answer. last: a message that is added to the rest; null: none.
Result<Prepared> prepare_shortened(const ChatRequest& chat, const PrepareContext& context, int room = 1,
                                   const Json& last = nullptr) {
  const auto prepare = [&](ChatRequest request) {
    if (!last.is_null()) request.messages.push_back(last);
    return context.preparer.chat(std::move(request), context.cancelled);
  };
  const int length = context.engine.info().context_length;
  const auto too_long = [&](const Result<Prepared>& result) {
    return is_too_long(result) || (result && length > 0 && std::ssize(result->prompts[0]) + room > length);
  };
  auto best = prepare(chat);
  if (!too_long(best)) return best;
  for (size_t low = 1, high = steps_to_shorten(chat.messages) + 1; low < high;) {
    const size_t step = low + (high - low) / 2;
    auto result = prepare(shortened(chat, step));
    if (too_long(result)) {
      low = step + 1;
    } else {
      best = std::move(result);
      high = step;
    }
  }
  if (is_too_long(best) || !too_long(best)) return best;
  return Error{
      ErrorKind::exhausted,
      fmt::format("The last turn has {} tokens, and with {} for the answer does not fit into the context "
                  "of {}. Shorten it",
                  best->prompts[0].size(), room, length),
      "input", "context_length_exceeded"};
}

ApiResult<PreparedRequest> prepare_response(std::string_view body, bool counting,
                                            const PrepareContext& context) {
  TRY(auto request, parse_responses_request(body, context.defaults, *context.responses, context.owner,
                                            context.cancelled, context.may_use_tools));
  if (counting)
    return count(context.preparer.count(std::move(request.chat), context.cancelled),
                 {{"object", "response.input_tokens"}});
  ReadyRequest out;
  if (!request.tools.agent.toolbox.empty()) {
    mcp::AgentLimits limits = agent_limits(context);
    limits.calls = std::min(limits.calls, request.max_tool_calls);
    request.chat.options.max_tokens = most_tokens(request.chat.options.max_tokens, limits);
    out.agent = std::make_shared<AgentRun>(std::move(request.tools.agent), request.chat,
                                           std::move(request.approved), limits, now_seconds());
  }
  if (!out.agent || !out.agent->has_waiting()) {
    TRY(out.prepared, request.shorten ? prepare_shortened(request.chat, context)
                                      : context.preparer.chat(request.chat, context.cancelled));
  }
  out.keeper = request.keeper;
  out.added = std::move(request.added);
  const bool stream = request.chat.options.stream;
  request.chat = {};  // the writer needs the rest
  request.earlier_users.clear();
  out.writer = std::make_shared<ResponsesWriter>(stream, std::move(request), context.responses);
  return PreparedRequest(std::move(out));
}

ApiResult<PreparedRequest> prepare_compaction(std::string_view body, const PrepareContext& context) {
  TRY(const auto json, parse_body(body));
  TRY(auto request, parse_responses_request(dump_json(body_to_compact(json)), context.defaults,
                                            *context.responses, context.owner, context.cancelled));
  Json users = ask_for_summary(request, context.engine.info().context_length);
  auto result =
      prepare_shortened(request.chat, context, request.chat.options.max_tokens, summary_instruction());
  if (result) {  // nobody goes on from the summary as an answer
    result->asked = nullptr;
    result->remember.reset();
  }
  return ready(std::move(result),
               std::make_shared<CompactionWriter>(std::move(users), context.responses, context.owner));
}

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

// The prompt of a chat: its length, or the text that the chat template makes.
ApiResult<PreparedRequest> prepare_prompt(std::string_view body, bool counting,
                                          const PrepareContext& context) {
  TRY(auto request, parse_chat_request(body, context.defaults));
  const auto result = context.preparer.count(std::move(request), context.cancelled);
  if (counting) return count(result, {{"object", "response.input_tokens"}});
  if (!result) return result.error();
  return respond({{"prompt", context.engine.tokenizer().decode(result->prompts[0], false)}});
}

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
  if (request.prompts.empty()) return respond(no_embeddings(request.form, context.model));
  return PreparedRequest(std::move(request));
}

// The answer to /tokenize.
ApiResult<Json> tokens_of(std::string_view body, const PrepareContext& context) {
  const Tokenizer& tokenizer = context.engine.tokenizer();
  const int length = context.engine.info().context_length;
  TRY(const auto json, parse_body(body));
  if (JsonFields(json).find("messages")) {
    TRY(auto chat, read_chat_request(json, context.defaults));
    const auto result = context.preparer.count(std::move(chat), context.cancelled);
    if (!result) return ApiError(result.error());
    return vllm_tokens_json(json, result->prompts[0], tokenizer, length);
  }
  RequestEncoder texts(tokenizer, context.preparer.most_counted(), 0, context.cancelled);
  return tokenize(json, texts, length);
}

ApiResult<PreparedRequest> reply(const ApiResult<Json>& json) {
  if (!json) return json.error();
  return respond(*json);
}

}  // namespace

ApiResult<PreparedRequest> prepare(AnswerKind kind, std::string_view body, const PrepareContext& context) {
  switch (kind) {
    case AnswerKind::completion:
      return prepare_completion(body, context);
    case AnswerKind::chat:
      return prepare_chat(body, context);
    case AnswerKind::response:
    case AnswerKind::input_count:
      return prepare_response(body, kind == AnswerKind::input_count, context);
    case AnswerKind::compaction:
      return prepare_compaction(body, context);
    case AnswerKind::ollama_chat:
    case AnswerKind::ollama_generate:
      return prepare_ollama(body, kind == AnswerKind::ollama_generate, context);
    case AnswerKind::chat_count:
    case AnswerKind::apply_template:
      return prepare_prompt(body, kind == AnswerKind::chat_count, context);
    case AnswerKind::llama_completion:
    case AnswerKind::infill:
      return prepare_llama(body, kind == AnswerKind::infill, context);
    case AnswerKind::generate:
      return prepare_generate(body, context);
    case AnswerKind::tokenize:
      return reply(tokens_of(body, context));
    case AnswerKind::detokenize:
      return reply(detokenize(body, context.engine.tokenizer()));
    case AnswerKind::embedding:
      return prepare_embedding(body, EmbeddingApi::openai, context);
    case AnswerKind::ollama_embed:
      return prepare_embedding(body, EmbeddingApi::ollama, context);
    case AnswerKind::ollama_embedding:
      return prepare_embedding(body, EmbeddingApi::ollama_one, context);
    case AnswerKind::rerank:
      return prepare_embedding(body, EmbeddingApi::rerank, context);
    case AnswerKind::message:
    case AnswerKind::token_count:
      break;
  }
  return prepare_message(body, kind == AnswerKind::token_count, context);
}

HttpResponse error_response_for(AnswerKind kind, const ApiError& error) {
  switch (kind) {
    case AnswerKind::message:
    case AnswerKind::token_count:
      return message_error_response(error);
    case AnswerKind::ollama_chat:
    case AnswerKind::ollama_generate:
    case AnswerKind::ollama_embed:
    case AnswerKind::ollama_embedding:
      return ollama_error_response(error);
    default:
      return error_response(error);
  }
}

}  // namespace anabranch::server
