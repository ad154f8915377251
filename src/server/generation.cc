#include "server/generation.h"

#include <exception>

#include "base/clock.h"
#include "base/log.h"

namespace anabranch::server {
namespace {

constexpr const char* kHeartbeat = ": still working\n\n";  // a comment: clients skip it

const char* id_prefix(AnswerKind kind) {
  if (kind == AnswerKind::chat) return "chatcmpl-";
  return kind == AnswerKind::completion ? "cmpl-" : "msg_";
}

bool is_anthropic(AnswerKind kind) {
  return kind == AnswerKind::message || kind == AnswerKind::token_count;
}

HttpResponse token_count_response(size_t tokens) {
  HttpResponse response;
  response.body = fmt::format("{{\"input_tokens\": {}}}", tokens);
  return response;
}

// Runs on a worker: nothing may escape.
std::variant<Prepared, ApiError> prepare_safely(Preparer& preparer, AnswerKind kind,
                                                const std::string& body) {
  try {
    return preparer.prepare(kind, body);
  } catch (const std::exception& e) {
    log_error("preparing a request failed: {}", e.what());
    return ApiError{500, "Internal error while preparing the request", "", "internal_error"};
  }
}

}  // namespace

Generations::Generations(Engine& engine, WorkerPool& workers, Post post, PrepareOptions options)
    : engine_(engine), workers_(workers), post_(std::move(post)), preparer_(engine, std::move(options)) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
}

Generations::Generation* Generations::find(uint64_t key) {
  const auto it = generations_.find(key);
  return it == generations_.end() ? nullptr : &it->second;
}

void Generations::start(AnswerKind kind, std::string body, std::shared_ptr<ResponseStream> out) {
  const uint64_t key = next_key_++;
  Generation& generation = generations_[key];
  generation.head.kind = kind;
  generation.head.id = fmt::format("{}{:016x}{:08x}", id_prefix(kind), random_(), random_() >> 32);
  generation.head.created = unix_seconds();
  generation.head.model = engine_.info().name;
  out->on_client_left([this, key] { client_left(key); });
  generation.out = std::move(out);
  workers_.submit([this, key, kind, body = std::make_shared<std::string>(std::move(body))] {
    auto prepared =
        std::make_shared<std::variant<Prepared, ApiError>>(prepare_safely(preparer_, kind, *body));
    post_([this, key, prepared] {
      if (auto* error = std::get_if<ApiError>(prepared.get()))
        fail(key, *error);
      else
        submit(key, std::get<Prepared>(std::move(*prepared)));
    });
  });
}

void Generations::submit(uint64_t key, Prepared prepared) {
  Generation* generation = find(key);
  if (!generation) return;  // the client has left
  if (generation->head.kind == AnswerKind::token_count) {
    generation->out->respond(token_count_response(prepared.prompt.size()));
    generations_.erase(key);
    return;
  }
  generation->options = std::move(prepared.options);
  if (prepared.remember) generation->remember = prepared.rules;
  const GenerationOptions& options = generation->options;
  const AnswerKind kind = generation->head.kind;
  const int prompt_tokens = static_cast<int>(prepared.prompt.size());
  const bool thinking_open = prepared.rules.thinking_open;
  generation->text =
      std::make_unique<text::OutputText>(engine_.tokenizer(), options.stop, std::move(prepared.rules));

  Request request;
  request.prompt = std::move(prepared.prompt);
  request.sampling = options.sampling;
  request.sampling.seed = options.seed ? *options.seed : random_();
  request.logprobs = options.logprobs;
  if (options.logprobs >= 0) generation->logprobs.emplace(generation->head.kind, engine_.tokenizer());
  request.max_tokens = options.max_tokens;
  request.speculation = options.speculation;
  request.cache = options.cache;
  request.cache_salt = options.cache_salt;
  request.keep_at = std::move(prepared.keep_at);
  request.stop = options.stop;
  request.stop_in_thoughts = kind == AnswerKind::completion;
  request.thinking_open = thinking_open;
  request.thinking = std::move(prepared.thinking);
  generation->head.thinking = std::move(prepared.think_report);
  if (const auto& thinking = generation->head.thinking)
    log_debug("{} {}: {}", generation->head.id, thinking->enabled ? "thinks" : "does not think",
              thinking->reason);
  auto accepted = engine_.submit(std::move(request), [this, key, post = post_](const Event& event) {
    post([this, key, event] { receive(key, event); });
  });
  if (!accepted.ok()) return fail(key, to_api_error(accepted.error()));
  generation->request = *accepted;
  generation->submitted = true;
  generation->streaming = options.stream;
  if (options.stream) {
    generation->head.usage_field = options.include_usage;
    const bool message = kind == AnswerKind::message;
    generation->out->start("text/event-stream; charset=utf-8", message ? kPingEvent : kHeartbeat);
    if (kind == AnswerKind::chat) generation->out->write(first_chunk(generation->head));
    if (message) generation->out->write(generation->message.start(generation->head, prompt_tokens));
  }
}

void Generations::receive(uint64_t key, const Event& event) {
  Generation* generation = find(key);
  if (!generation) return;
  const bool was_stopped = generation->text->stopped();
  if (generation->logprobs) generation->logprobs->push(event.tokens, event.logprobs);
  if (generation->remember)
    generation->sampled.insert(generation->sampled.end(), event.tokens.begin(), event.tokens.end());
  deliver(*generation, generation->text->push(event.tokens));
  if (event.finish != FinishReason::none) return finish(key, *generation, event);
  // The engine finds stop strings itself; should it see the text differently, or the last allowed call come,
  // we end the request.
  if (generation->text->stopped() && !was_stopped) engine_.cancel(generation->request);
}

void Generations::deliver(Generation& generation, const std::vector<text::OutputEvent>& events) {
  using Kind = text::OutputEvent::Kind;
  const bool message = generation.head.kind == AnswerKind::message;
  for (const text::OutputEvent& event : events) {
    const bool begins = event.kind == Kind::call_begin;
    if (begins) generation.call_ids.push_back(new_call_id(generation.head.kind));
    const std::string call_id = begins ? generation.call_ids.back() : "";
    if (generation.options.stream && message)
      generation.out->write(generation.message.event(event, call_id));
    else if (message)
      add_event(generation.blocks, event, call_id);
    else if (!generation.options.stream)
      generation.answer.add(event);
    else if (event.kind != Kind::call_end)
      generation.out->write(event_chunk(generation.head, event, call_id, generation.take_logprobs()));
  }
}

// As OpenAI's and Anthropic's: "call_" or "toolu_", and 24 letters and digits.
std::string Generations::new_call_id(AnswerKind kind) {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id = kind == AnswerKind::message ? "toolu_" : "call_";
  for (int i = 0; i < 24; ++i) id += kAlphabet[random_() % kAlphabet.size()];
  return id;
}

void Generations::finish(uint64_t key, Generation& generation, const Event& event) {
  generation.submitted = false;  // nothing left to cancel
  if (event.finish == FinishReason::error) {
    log_error("the engine failed a request: {}", event.error);
    return fail(key, {500, "The engine failed: " + event.error, "", "engine_error"});
  }
  if (event.finish == FinishReason::cancelled && !generation.text->stopped())
    return fail(key, {503, "The engine cancelled the request", "", "cancelled"});
  deliver(generation, generation.text->finish());
  if (!event.usage.cut.empty())
    log_info("{} was cut ({}) after {} tokens of thought and {} in all", generation.head.id, event.usage.cut,
             event.usage.thinking_tokens, event.usage.completion_tokens);
  const FinishReason finish = generation.text->stopped() ? FinishReason::stop : event.finish;
  remember(generation);
  answer(generation, finish, event.usage);
  generations_.erase(key);
}

// The end of a stream, or the whole answer.
void Generations::answer(Generation& generation, FinishReason finish, const Usage& usage) {
  const int calls = static_cast<int>(generation.call_ids.size());
  const MessageEnd end{finish, calls, generation.text->stop_found(), usage};
  const bool message = generation.head.kind == AnswerKind::message;
  ResponseStream& out = *generation.out;
  if (generation.options.stream) {
    if (message) {
      out.write(generation.message.finish(generation.head, end));
    } else {
      out.write(finish_chunk(generation.head, generation.take_logprobs(), finish, calls, usage));
      if (generation.options.include_usage) out.write(usage_chunk(generation.head, usage));
      out.write(kDoneEvent);
    }
    return out.finish(false);
  }
  HttpResponse response;
  response.body = message ? whole_message(generation.head, generation.blocks, end)
                          : whole_answer(generation.head, generation.answer, generation.call_ids,
                                         generation.take_logprobs(), finish, usage);
  out.respond(std::move(response));
}

// Before the client is told the end of the turn, so that it is known when it comes back.
void Generations::remember(const Generation& generation) {
  if (!generation.remember) return;
  preparer_.remember(generation.sampled, generation.options.cache_salt, *generation.remember);
  workers_.submit([this] { preparer_.write_turns(); });
}

void Generations::fail(uint64_t key, const ApiError& error) {
  Generation* generation = find(key);
  if (!generation) return;
  if (generation->submitted) engine_.cancel(generation->request);
  const bool anthropic = is_anthropic(generation->head.kind);
  if (generation->streaming) {
    generation->out->write(anthropic ? message_error_event(error) : "data: " + error_json(error) + "\n\n");
    generation->out->finish(true);
  } else {
    generation->out->respond(anthropic ? message_error_response(error) : error_response(error));
  }
  generations_.erase(key);
}

void Generations::client_left(uint64_t key) {
  Generation* generation = find(key);
  if (!generation) return;
  if (generation->submitted) engine_.cancel(generation->request);
  log_debug("client left: {} cancelled", generation->head.id);
  generations_.erase(key);
}

void Generations::cancel_all() {
  while (!generations_.empty())
    fail(generations_.begin()->first, {503, "The server is shutting down", "", "shutting_down"});
}

}  // namespace anabranch::server
