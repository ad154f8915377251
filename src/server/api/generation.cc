#include "server/api/generation.h"

#include <exception>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "server/api/request_model.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxLogprobsHeld = 1'000'000;             // some 500 bytes each while they are written
constexpr const char* kAnswerLoop = "answer_loop";         // Usage::cut: the answer repeated itself
constexpr const char* kHeartbeat = ": still working\n\n";  // a comment: clients skip it

constexpr size_t kShortBody = 256u << 10;

bool is_long(const HttpRequest& request) {
  return request.body.size() > kShortBody;
}

// Returns freed memory to the system when it is destroyed, after the objects made from a long body.
struct ReturnMemory {
  explicit ReturnMemory(bool wanted) : wanted(wanted) {}
  ~ReturnMemory() {
    if (wanted) return_free_memory();
  }
  const bool wanted;
};

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

ApiError internal_error(const std::exception& e) {
  log_error("preparing a request failed: {}", e.what());
  return {500, "Internal error while preparing the request", "", "internal_error"};
}

// Turns exceptions into an error, because jobs of a worker must not throw.
template <class Work>
std::variant<Prepared, ApiError> safely(Work work) {
  try {
    return work();
  } catch (const std::exception& e) {
    return internal_error(e);
  }
}

// The first answer uses the request's seed, so it equals the answer with n = 1. The others use seeds that are
// far from it and from each other (SplitMix64: Steele et al. 2014, "Fast splittable pseudorandom number
// generators").
uint64_t choice_seed(uint64_t seed, uint64_t choice) {
  if (choice == 0) return seed;
  uint64_t z = seed + choice * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Sums the usage of all answers; each prompt counts once.
Usage add_up(Usage total, const Usage& usage, bool first_of_prompt) {
  if (first_of_prompt) {
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
  }
  total.completion_tokens += usage.completion_tokens;
  total.thinking_tokens += usage.thinking_tokens;
  total.speculation += usage.speculation;
  total.grammar_tokens += usage.grammar_tokens;
  total.grammar_s += usage.grammar_s;
  return total;
}

}  // namespace

Generations::Generations(ModelPool& models, WorkerPool& workers, Post post, Metrics& metrics)
    : models_(models), workers_(workers), post_(std::move(post)), metrics_(metrics) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
}

Generations::Generation* Generations::find(uint64_t key) {
  const auto it = generations_.find(key);
  return it == generations_.end() ? nullptr : &it->second;
}

void Generations::start(AnswerKind kind, HttpRequest request, std::shared_ptr<ResponseStream> out) {
  const uint64_t key = next_key_++;
  Generation& generation = generations_[key];
  generation.started = now_seconds();
  generation.head.kind = kind;
  generation.head.id = fmt::format("{}{:016x}{:08x}", id_prefix(kind), random_(), random_() >> 32);
  generation.head.created = unix_seconds();
  out->on_client_left([this, key] { client_left(key); });
  generation.out = std::move(out);
  auto whole = std::make_shared<HttpRequest>(std::move(request));
  if (!is_long(*whole)) return choose_model(key, model_named_in(whole->body), whole);
  long_workers_.submit([this, key, whole, post = post_] {
    post([this, key, whole, wanted = model_named_in(whole->body)] { choose_model(key, wanted, whole); });
  });
}

void Generations::choose_model(uint64_t key, const std::string& wanted,
                               std::shared_ptr<HttpRequest> request) {
  if (!find(key)) return;  // the client has left: nothing is loaded for it
  models_.acquire(wanted,
                  [this, key, request = std::move(request)](std::variant<ModelLease, ApiError> taken) {
                    Generation* generation = find(key);
                    if (!generation) return;  // the client has left
                    if (const auto* error = std::get_if<ApiError>(&taken)) return fail(key, *error);
                    generation->model = std::get<ModelLease>(std::move(taken));
                    generation->head.model = generation->model->name;
                    prepare_request(key, request);
                  });
}

void Generations::prepare_request(uint64_t key, std::shared_ptr<HttpRequest> request) {
  const Generation& generation = *find(key);
  const bool slow = is_long(*request);
  // The client may leave before the worker begins, so the job holds it weakly.
  (slow ? long_workers_ : workers_)
      .submit([this, key, kind = generation.head.kind, client = std::weak_ptr<const void>(generation.client),
               model = generation.model, request = std::move(request), slow]() mutable {
        const ReturnMemory after(slow);
        if (client.expired()) return request.reset();
        auto prepared = std::make_shared<std::variant<Prepared, ApiError>>(safely([&] {
          return prepare(kind, request->body, model->defaults, model->preparer,
                         [&] { return client.expired(); });
        }));
        request.reset();
        const auto* made = std::get_if<Prepared>(prepared.get());
        if (!made || !made->constrained || kind == AnswerKind::token_count)
          return taker(key)(std::move(*prepared));
        if (client.expired()) return;
        form_workers_.submit([this, key, client, model, prepared] {
          if (!client.expired()) compile(key, client, model, std::get<Prepared>(std::move(*prepared)));
        });
      });
}

// Runs on a worker. The grammar may be compiled on another thread afterwards.
void Generations::compile(uint64_t key, std::weak_ptr<const void> client, ModelLease model,
                          Prepared prepared) {
  const auto take = taker(key);
  try {
    model->preparer.compile(std::move(prepared), std::move(client),
                            [take](std::variant<Prepared, RequestError> made) {
                              if (const auto* error = std::get_if<RequestError>(&made))
                                return take(to_api_error(*error));
                              take(std::get<Prepared>(std::move(made)));
                            });
  } catch (const std::exception& e) {
    take(internal_error(e));
  }
}

// Returns a function that any thread may call, even after this object is destroyed.
std::function<void(std::variant<Prepared, ApiError>)> Generations::taker(uint64_t key) {
  return [this, key, post = post_](std::variant<Prepared, ApiError> prepared) {
    auto shared = std::make_shared<std::variant<Prepared, ApiError>>(std::move(prepared));
    post([this, key, shared] {
      if (auto* error = std::get_if<ApiError>(shared.get()))
        fail(key, *error);
      else
        submit(key, std::get<Prepared>(std::move(*shared)));
    });
  };
}

void Generations::submit(uint64_t key, Prepared prepared) {
  Generation* generation = find(key);
  if (!generation) return;  // the client has left
  if (generation->head.kind == AnswerKind::token_count) {
    generation->out->respond(token_count_response(prepared.prompts[0].size()));
    generations_.erase(key);
    return;
  }
  generation->options = std::move(prepared.options);
  generation->remember = prepared.remember;
  generation->rules = prepared.rules;
  generation->head.thinking = std::move(prepared.think_report);
  if (const auto& thinking = generation->head.thinking)
    log_debug("{} {}: {}", generation->head.id, thinking->enabled ? "thinks" : "does not think",
              thinking->reason);
  const GenerationOptions& options = generation->options;
  Engine& engine = *generation->model->engine;
  Request request;
  request.sampling = options.sampling;
  const uint64_t seed = options.seed ? *options.seed : random_();
  request.logprobs = options.logprobs;
  request.max_tokens = options.max_tokens;
  request.speculation = options.speculation;
  request.ignore_eos = options.ignore_eos;
  request.priority = options.priority;
  request.cache = options.cache;
  request.cache_salt = options.cache_salt;
  request.keep_at = std::move(prepared.keep_at);
  request.stop = options.stop;
  request.output = prepared.rules;
  request.begun = prepared.begun;
  request.thinking = std::move(prepared.thinking);
  request.grammar = std::move(prepared.grammar);
  generation->choices.resize(prepared.prompts.size() * options.choices);
  for (size_t i = 0; i < generation->choices.size(); ++i) {
    Choice& choice = generation->choices[i];
    choice.text = std::make_unique<OutputText>(engine.tokenizer(), options.stop, prepared.rules);
    if (options.logprobs >= 0)
      choice.logprobs.emplace(
          generation->head.kind == AnswerKind::chat ? LogprobsForm::chat : LogprobsForm::completion,
          engine.tokenizer());
    request.prompt = prepared.prompts[i / options.choices];
    choice.sampled.assign(request.prompt.end() - prepared.begun, request.prompt.end());
    request.sampling.seed = choice_seed(seed, i % options.choices);
    auto accepted = engine.submit(request, [this, key, i, post = post_](const Event& event) {
      post([this, key, i, event] { receive(key, i, event); });
    });
    if (!accepted.ok()) return fail(key, to_api_error(accepted.error()));
    choice.request = *accepted;
    choice.submitted = true;
    ++generation->running;
  }
  if (options.stream) begin_stream(*generation);
}

// An Anthropic stream's first event has the number of cached tokens, so receive() sends it later.
void Generations::begin_stream(Generation& generation) {
  generation.streaming = true;
  generation.head.usage_field = generation.options.include_usage;
  const bool message = generation.head.kind == AnswerKind::message;
  ResponseStream& out = *generation.out;
  out.start("text/event-stream; charset=utf-8", message ? kPingEvent : kHeartbeat);
  if (generation.head.kind == AnswerKind::chat)
    for (size_t i = 0; i < generation.choices.size(); ++i)
      out.write(first_chunk(generation.head, static_cast<int>(i)));
}

void Generations::receive(uint64_t key, size_t index, const Event& event) {
  Generation* generation = find(key);
  if (!generation) return;
  if (event.started) {
    if (generation->streaming && generation->head.kind == AnswerKind::message)
      generation->out->write(generation->message.start(generation->head, event.usage));
    return;
  }
  Choice& choice = generation->choices[index];
  observe(*generation, choice, event);
  if (holds_too_much(*generation, event))
    return fail(key,
                {400,
                 fmt::format("The answer has more than {} log probabilities: ask for a stream, for fewer "
                             "of them, or for fewer tokens",
                             kMaxLogprobsHeld),
                 "logprobs", "limit_exceeded"});
  if (choice.logprobs) choice.logprobs->push(event.tokens, event.logprobs);
  if (generation->remember)
    choice.sampled.insert(choice.sampled.end(), event.tokens.begin(), event.tokens.end());
  deliver(*generation, index, choice.text->push(event.tokens));
  if (event.finish != FinishReason::none) finish_choice(key, *generation, index, event);
}

// Only answers that do not stream keep log probabilities until the end.
bool Generations::holds_too_much(Generation& generation, const Event& event) const {
  if (generation.streaming || generation.options.logprobs < 0) return false;
  generation.logprobs_held += event.tokens.size() * (generation.options.logprobs + 1);
  return generation.logprobs_held > kMaxLogprobsHeld;
}

void Generations::observe(const Generation& generation, Choice& choice, const Event& event) {
  if (event.tokens.empty()) return;
  const double now = now_seconds();
  if (choice.last_event == 0)
    metrics_.first_token(generation.head.kind, now - generation.started);
  else
    metrics_.token_gap(now - choice.last_event);
  choice.last_event = now;
}

void Generations::deliver(Generation& generation, size_t index, const std::vector<OutputEvent>& events) {
  using Kind = OutputEvent::Kind;
  Choice& choice = generation.choices[index];
  const bool message = generation.head.kind == AnswerKind::message;
  for (const OutputEvent& event : events) {
    const bool begins = event.kind == Kind::call_begin;
    if (begins) choice.call_ids.push_back(new_call_id(generation.head.kind));
    const std::string call_id = begins ? choice.call_ids.back() : "";
    if (generation.options.stream && message)
      generation.out->write(generation.message.event(event, call_id));
    else if (message)
      add_event(generation.blocks, event, call_id);
    else if (!generation.options.stream)
      choice.answer.add(event);
    else if (event.kind != Kind::call_end)
      generation.out->write(
          event_chunk(generation.head, static_cast<int>(index), event, call_id, choice.take_logprobs()));
  }
}

// As OpenAI's and Anthropic's: "call_" or "toolu_", and 24 letters and digits.
std::string Generations::new_call_id(AnswerKind kind) {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id = kind == AnswerKind::message ? "toolu_" : "call_";
  for (int i = 0; i < 24; ++i) id += kAlphabet[random_() % kAlphabet.size()];
  return id;
}

void Generations::finish_choice(uint64_t key, Generation& generation, size_t index, const Event& event) {
  Choice& choice = generation.choices[index];
  choice.submitted = false;  // nothing left to cancel
  if (event.finish == FinishReason::error) {
    log_error("the engine failed a request: {}", event.error);
    metrics_.answered(generation.head.kind, "error");
    return fail(key, {500, "The engine failed: " + event.error, "", "engine_error"});
  }
  if (event.finish == FinishReason::cancelled) {
    metrics_.answered(generation.head.kind, "cancelled");
    return fail(key, {503, "The engine cancelled the request", "", "cancelled"});
  }
  const bool cut = event.finish == FinishReason::length || event.usage.cut == kAnswerLoop;
  deliver(generation, index, choice.text->finish(cut));
  if (!event.usage.cut.empty())
    log_info("{} was cut ({}) after {} tokens of thought and {} in all", generation.head.id, event.usage.cut,
             event.usage.thinking_tokens, event.usage.completion_tokens);
  choice.finish = event.finish;
  choice.usage = event.usage;
  const int calls = static_cast<int>(choice.call_ids.size());
  metrics_.waited_in_queue(event.usage.queue_s);
  metrics_.answered(generation.head.kind, finish_name(choice.finish, calls));
  if (generation.streaming) remember(generation, choice);
  if (generation.streaming && generation.head.kind != AnswerKind::message)
    generation.out->write(finish_chunk(generation.head, static_cast<int>(index), choice.take_logprobs(),
                                       choice.finish, calls, choice.usage));
  if (--generation.running > 0) return;
  finish(generation);
  generations_.erase(key);
}

// The end of a stream, or the whole answer, when all choices have ended.
void Generations::finish(Generation& generation) {
  const bool message = generation.head.kind == AnswerKind::message;
  Choice& first = generation.choices[0];
  const MessageEnd end{first.finish, static_cast<int>(first.call_ids.size()), first.text->stop_found(),
                       first.usage};
  Usage usage;
  for (size_t i = 0; i < generation.choices.size(); ++i)
    usage = add_up(usage, generation.choices[i].usage, i % generation.options.choices == 0);
  ResponseStream& out = *generation.out;
  out.note({generation.head.id, generation.head.model, usage.prompt_tokens, usage.cached_tokens,
            usage.completion_tokens});
  if (generation.options.stream) {
    if (message) {
      out.write(generation.message.finish(generation.head, end));
    } else {
      if (generation.options.include_usage) out.write(usage_chunk(generation.head, usage));
      out.write(kDoneEvent);
    }
    return out.finish(false);
  }
  for (const Choice& choice : generation.choices) remember(generation, choice);
  HttpResponse response;
  if (message) {
    response.body = whole_message(generation.head, generation.blocks, end);
  } else {
    std::vector<WholeChoice> choices;
    for (Choice& choice : generation.choices)
      choices.push_back(
          {choice.answer, choice.call_ids, choice.take_logprobs(), choice.finish, choice.usage.cut});
    response.body = whole_answer(generation.head, std::move(choices), usage);
  }
  out.respond(std::move(response));
}

// Called before the client receives the end of the turn, so that the turn is known when the client sends it
// back. Turns that a stop string or max_tokens cut are not remembered.
void Generations::remember(const Generation& generation, const Choice& choice) {
  if (!generation.remember || choice.finish != FinishReason::stop || !choice.text->stop_found().empty())
    return;
  const TurnEndReason end =
      choice.text->stopped() ? TurnEndReason::last_allowed_call : TurnEndReason::end_of_turn;
  generation.model->preparer.remember(choice.sampled, end, *generation.remember, generation.rules);
  workers_.submit([model = generation.model] { model->preparer.write_turns(); });
}

void Generations::cancel(const Generation& generation) {
  for (const Choice& choice : generation.choices) {
    if (!choice.submitted) continue;
    generation.model->engine->cancel(choice.request);
    metrics_.answered(generation.head.kind, "cancelled");
  }
}

void Generations::fail(uint64_t key, const ApiError& error) {
  Generation* generation = find(key);
  if (!generation) return;
  cancel(*generation);
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
  cancel(*generation);
  log_debug("client left: {} cancelled", generation->head.id);
  generations_.erase(key);
}

void Generations::cancel_all() {
  while (!generations_.empty())
    fail(generations_.begin()->first, {503, "The server is shutting down", "", "shutting_down"});
}

}  // namespace anabranch::server
