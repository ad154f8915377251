#include "server/api/generation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "chat/engine_request.h"
#include "server/api/generation_parts.h"
#include "server/api/openai_format.h"
#include "server/api/session_json.h"
#include "server/api/state_pages.h"
#include "server/http/admission.h"
#include "server/http/request_record.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxLogprobsHeld = 1'000'000;      // some 500 bytes each while they are written
constexpr const char* kAnswerLoop = "answer_loop";  // Usage::cut: the answer repeated itself
const char* id_prefix(AnswerKind kind) {
  if (kind == AnswerKind::chat) return "chatcmpl-";
  if (kind == AnswerKind::response) return "resp_";
  if (kind == AnswerKind::generate) return "gen-";
  return kind == AnswerKind::completion || kind == AnswerKind::llama_completion ? "cmpl-" : "msg_";
}

LogprobsForm logprobs_form(AnswerKind kind) {
  if (kind == AnswerKind::generate) return LogprobsForm::ids;
  return kind == AnswerKind::completion ? LogprobsForm::completion : LogprobsForm::chat;
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

}  // namespace

Generations::Generations(ModelPool& models, WorkerPool& workers, Post post, After after, double timeout_s,
                         Metrics& metrics, std::shared_ptr<ResponseContext> responses,
                         mcp::AgentLimits agent_limits, bool share_states, TraceEraser& traces)
    : models_(models),
      workers_(workers),
      post_(std::move(post)),
      timeout_s_(timeout_s),
      metrics_(metrics),
      responses_(std::move(responses)),
      agent_limits_(agent_limits),
      share_states_(share_states),
      traces_(traces),
      watch_(after, [this] { return end_late_ones(); }),
      embedder_(post_, after) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
}

Generations::~Generations() {
  generations_.clear();  // what is waited for on behalf of clients ends
  for (WaitPool* pool : {&image_workers_, &mcp_workers_}) pool->close();
  for (WorkerPool* pool : {&long_workers_, &stored_workers_, &form_workers_, &keep_workers_}) pool->close();
}

Generations::Generation* Generations::find(uint64_t key) {
  const auto it = generations_.find(key);
  return it == generations_.end() ? nullptr : &it->second;
}

Generations::Generation* Generations::find_generate(const std::string& id, const std::string& key_name) {
  const auto it = std::ranges::find_if(generations_, [&](const auto& entry) {
    const Generation& other = entry.second;
    return other.head.kind == AnswerKind::generate && other.head.id == id && other.use.name() == key_name;
  });
  return it == generations_.end() ? nullptr : &it->second;
}

void Generations::start(AnswerKind kind, HttpRequest request, KeyUse use,
                        std::shared_ptr<ResponseStream> out) {
  const uint64_t key = next_key_++;
  Generation& generation = generations_[key];
  generation.started = now_seconds();
  generation.head.kind = kind;
  generation.head.id = random_id(id_prefix(kind));
  generation.head.created = unix_seconds();
  generation.use = std::move(use);
  generation.sender = sender_of(generation.use.name(), request.address);
  generation.note->id = generation.head.id;
  if (const std::string* host = request.header("host")) generation.host = *host;
  out->on_client_left([this, key] { client_left(key); });
  generation.out = std::move(out);
  auto whole = std::make_shared<HttpRequest>(std::move(request));
  if (!is_long(whole->body.size())) return choose_model(key, read_hints(kind, whole->body), whole);
  long_workers_.submit(
      job_of(generation, whole->body.size()),
      [this, key, kind, whole, post = post_, client = std::weak_ptr<const void>(generation.client)] {
        if (client.expired()) return;
        post([this, key, whole, hints = read_hints(kind, whole->body)] { choose_model(key, hints, whole); });
      });
}

void Generations::choose_model(uint64_t key, const RequestHints& hints,
                               std::shared_ptr<HttpRequest> request) {
  Generation* waiting = find(key);
  if (!waiting) return;  // the client has left: nothing is loaded for it
  if (auto error = refuse_misspelt(waiting->head.kind, hints.unknown)) return fail(key, std::move(*error));
  if (!hints.unknown.names.empty())
    waiting->out->add_header("X-Anabranch-Ignored-Fields", hints.unknown.names);
  Deadline& deadline = waiting->deadline;
  for (const double seconds : {timeout_s_, hints.timeout_s}) deadline.limit(waiting->started, seconds);
  if (deadline.is_set()) watch_.start();
  if (waiting->head.kind == AnswerKind::generate && is_request_id(hints.request_id)) {
    if (find_generate(hints.request_id, waiting->use.name()))
      return fail(key, {409, fmt::format("A running request has the id '{}'", hints.request_id), "request_id",
                        "request_id_in_use"});
    waiting->note->id = waiting->head.id = hints.request_id;
  }
  models_.acquire(hints.model, [this, key, request = std::move(request)](ApiResult<ModelLease> taken) {
    Generation* generation = find(key);
    if (!generation) return;  // the client has left
    if (!taken) return fail(key, taken.error());
    generation->model = std::move(*taken);
    generation->head.model = generation->model->name;
    generation->head.load_s = now_seconds() - generation->started;
    prepare_request(key, request);
  });
}

void Generations::submit(uint64_t key, ReadyRequest ready) {
  Generation* generation = find(key);
  if (!generation) return;  // the client has left
  if (!ready.writer) {
    begin_turn(key, *generation, ready.prepared);
    return;
  }
  if (ready.keeper && !ready.begun) return begin_keeping(key, *generation, std::move(ready));
  generation->writer = std::move(ready.writer);
  generation->keeper = std::move(ready.keeper);
  generation->agent = std::move(ready.agent);
  generation->echo = std::move(ready.echo);
  generation->head.thinking = ready.prepared.think_report;
  generation->note->model = generation->head.model;
  generation->out->note(generation->note);
  if (generation->agent && generation->agent->has_waiting()) {
    begin_answer(*generation, 1);
    return run_calls(key, *generation);
  }
  if (begin_turn(key, *generation, ready.prepared))
    begin_answer(*generation, generation->choices.size());
  else
    return;
  if (generation->unwanted) stop(*generation);
}

// Stores the request's messages before anything is answered.
void Generations::begin_keeping(uint64_t key, const Generation& generation, ReadyRequest ready) {
  keep_workers_.submit(
      job_of(generation),
      [this, key, sender = generation.sender, client = std::weak_ptr<const void>(generation.client),
       post = post_, shared = std::make_shared<ReadyRequest>(std::move(ready))] {
        if (client.expired()) return;
        const auto begun = shared->keeper->begin(shared->added);
        shared->begun = true;
        post([this, key, sender, shared, begun] {
          if (find(key) && begun) return submit(key, std::move(*shared));
          keep_workers_.submit({sender}, [shared] { shared->keeper->take_back(); });
          if (!begun) fail(key, session_error(begun.error()));
        });
      });
}

void Generations::begin_answer(Generation& generation, size_t choices) {
  AnswerWriter& writer = *generation.writer;
  const std::string first = writer.begin(generation.head, choices);
  if (!writer.is_stream()) return;
  generation.streaming = true;
  generation.out->start(std::string(writer.stream_type()), std::string(writer.heartbeat()));
  generation.send(first);
}

// The model has the word. False: the engine has no room; the request has failed.
bool Generations::begin_turn(uint64_t key, Generation& generation, const Prepared& prepared) {
  generation.options = prepared.options;
  generation.remember = prepared.remember;
  generation.rules = prepared.rules;
  if (const auto& thinking = prepared.think_report)
    log_debug("{} {}: {}", generation.head.id, thinking->enabled ? "thinks" : "does not think",
              thinking->reason);
  const GenerationOptions& options = generation.options;
  Engine& engine = *generation.model->engine;
  const uint64_t seed = options.seed ? *options.seed : random_();
  if (options.to_decode && share_states_)
    generation.head.transfer = transfer_json(engine, options.cache_salt, prepared.prompts, generation.host);
  generation.choices.clear();
  generation.choices.resize(prepared.prompts.size() * options.choices);
  for (size_t i = 0; i < generation.choices.size(); ++i) {
    Choice& choice = generation.choices[i];
    choice.text = std::make_unique<OutputText>(engine.tokenizer(), options.stop, prepared.rules);
    if (options.logprobs >= 0) {
      choice.logprobs.emplace(logprobs_form(generation.head.kind), engine.tokenizer());
      choice.take_logprobs = [&choice] { return choice.logprobs->take(); };
    }
    Request request = engine_request(prepared, i / options.choices, choice_seed(seed, i % options.choices));
    request.priority = generation.use.priority().value_or(options.priority);
    request.name_states = generation.keeper != nullptr;
    request.prompt_logprobs = !generation.echo.empty() && options.logprobs >= 0;
    if (request.prompt_logprobs) choice.echoed = request.prompt;
    choice.sampled.assign(request.prompt.end() - prepared.begun, request.prompt.end());
    auto accepted = engine.submit(std::move(request), [this, key, i, post = post_, keeper = generation.keeper,
                                                       sender = generation.sender](const Event& event) {
      post([this, key, i, event, keeper, sender] {
        // Also of an answer that was given up: what it left in the cache goes with its conversation.
        if (keeper && !event.states.empty()) note(sender, keeper, event.states);
        receive(key, i, event);
      });
    });
    if (!accepted.ok()) {
      fail(key, queue_full(accepted.error(), engine));
      return false;
    }
    choice.request = *accepted;
    choice.submitted = true;
    ++generation.running;
  }
  return true;
}

void Generations::receive(uint64_t key, size_t index, const Event& event) {
  Generation* generation = find(key);
  if (!generation) return;
  AnswerWriter& writer = *generation->writer;
  const bool progress = generation->options.progress && generation->streaming;
  if (event.started || event.prefilled > 0) {
    if (event.started) count_prompt(*generation, index, event.usage);
    if (event.started) generation->send(writer.started(event.usage));
    if (progress)
      generation->send(writer.prefilled(index, event.usage,
                                        event.started ? event.usage.cached_tokens : event.prefilled,
                                        now_seconds() - generation->started));
    return;
  }
  Choice& choice = generation->choices[index];
  generation->note->completion_tokens += static_cast<int>(event.tokens.size());
  generation->use.add_tokens(static_cast<int>(event.tokens.size()), now_seconds());
  observe(*generation, choice, event);
  if (holds_too_much(*generation, event))
    return fail(key,
                {400,
                 fmt::format("The answer has more than {} log probabilities: ask for a stream, for fewer "
                             "of them, or for fewer tokens",
                             kMaxLogprobsHeld),
                 "logprobs", "limit_exceeded"});
  if (!choice.begun && !generation->echo.empty()) echo(*generation, index, event);
  choice.begun = true;
  if (choice.logprobs) choice.logprobs->push(event.tokens, event.logprobs);
  if (generation->remember)
    choice.sampled.insert(choice.sampled.end(), event.tokens.begin(), event.tokens.end());
  generation->send(writer.tokens(index, event.tokens, choice.take_logprobs));
  deliver(*generation, index, choice.text->push(event.tokens));
  if (event.finish != FinishReason::none) finish_choice(key, *generation, index, event);
}

// When an answer begins. Each prompt counts once.
void Generations::count_prompt(Generation& generation, size_t index, const Usage& usage) {
  if (index % generation.options.choices != 0) return;
  generation.note->prompt_tokens += usage.prompt_tokens;
  generation.note->cached_tokens += usage.cached_tokens;
  generation.use.add_tokens(usage.prompt_tokens, now_seconds());
}

// Only answers that do not stream keep log probabilities until the end.
bool Generations::holds_too_much(Generation& generation, const Event& event) const {
  if (generation.streaming || generation.options.logprobs < 0) return false;
  generation.logprobs_held +=
      (event.prompt_logprobs.size() + event.tokens.size()) * (generation.options.logprobs + 1);
  return generation.logprobs_held > kMaxLogprobsHeld;
}

// Begins an answer with its prompt.
void Generations::echo(Generation& generation, size_t index, const Event& event) {
  Choice& choice = generation.choices[index];
  if (choice.logprobs) choice.logprobs->push_prompt(choice.echoed, event.prompt_logprobs);
  choice.echoed = {};
  const std::string& text = generation.echo[index / static_cast<size_t>(generation.options.choices)];
  generation.send(
      generation.writer->event(index, {OutputEvent::Kind::content, text}, "", choice.take_logprobs));
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
  Choice& choice = generation.choices[index];
  for (const OutputEvent& event : events) {
    std::string call_id;
    if (event.kind == OutputEvent::Kind::call_begin) {
      call_id = new_call_id(generation.head.kind);
      ++choice.end.calls;
    }
    if (generation.keeper || generation.agent) generation.recorder.event(event, call_id, now_seconds());
    generation.send(generation.writer->event(index, event, call_id, choice.take_logprobs));
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
  if (event.finish == FinishReason::cancelled && !generation.unwanted) {
    metrics_.answered(generation.head.kind, "cancelled");
    return fail(key, {503, "The engine cancelled the request", "", "cancelled"});
  }
  const bool cut = event.finish == FinishReason::length || event.usage.cut == kAnswerLoop;
  deliver(generation, index, choice.text->finish(cut));
  if (!event.usage.cut.empty())
    log_info("{} was cut ({}) after {} tokens of thought and {} in all", generation.head.id, event.usage.cut,
             event.usage.thinking_tokens, event.usage.completion_tokens);
  AnswerEnd& end = choice.end;
  end.finish = event.finish;
  end.usage = event.usage;
  end.stop_sequence = choice.text->stop_found();
  if (end.finish != FinishReason::cancelled) metrics_.waited_in_queue(event.usage.queue_s);
  if (const int later = event.usage.completion_tokens - 1; later > 0 && end.finish != FinishReason::cancelled)
    metrics_.time_per_token(event.usage.decode_s / later);
  metrics_.answered(generation.head.kind, finish_name(end.finish, end.calls));
  if (generation.streaming) remember(generation, choice);
  generation.send(generation.writer->choice_finished(index, end, choice.take_logprobs));
  if (--generation.running == 0) end_turn(key, generation);
}

// The end of a stream, or the whole answer, when all choices have ended.
void Generations::finish(uint64_t key, Generation& generation) {
  Usage usage = generation.spent;
  std::vector<AnswerEnd> ends;
  // Calls that were approved may be all there is: then the model has not had the word.
  if (generation.choices.empty()) ends.emplace_back();
  for (size_t i = 0; i < generation.choices.size(); ++i) {
    ends.push_back(generation.choices[i].end);
    usage = add_up(usage, ends.back().usage, i % generation.options.choices == 0);
  }
  if (generation.agent) ends[0].stopped = generation.agent->stopped();
  *generation.note = {generation.head.id, generation.head.model, usage.prompt_tokens, usage.cached_tokens,
                      usage.completion_tokens};
  const double took_s = now_seconds() - generation.started;
  usual_s_ = usual_s_ > 0 ? 0.9 * usual_s_ + 0.1 * took_s : took_s;
  if (!generation.keeper) {
    end(generation, generation.writer->finish(ends, usage));
    generations_.erase(key);
    return;
  }
  // The answer is stored before the client learns that it is complete.
  generation.finishing = true;
  keep_workers_.submit(job_of(generation),
                       [this, key, ends, usage, messages = std::exchange(generation.unkept, {}),
                        keeper = generation.keeper, writer = generation.writer, post = post_]() mutable {
                         // An answer that is there is sent, and says so if it could not be kept.
                         if (const auto added = keeper->add(messages); !added) {
                           log_warning("an answer could not be kept: {}", added.error().message);
                           ends[0].not_kept = added.error().message;
                         }
                         post([this, key, rest = writer->finish(ends, usage)] {
                           Generation* generation = find(key);
                           if (!generation) return;  // the client has left
                           end(*generation, rest);
                           generations_.erase(key);
                         });
                       });
}

// Sends the end of a stream, or the whole answer.
void Generations::end(Generation& generation, std::string rest) {
  ResponseStream& out = *generation.out;
  if (generation.streaming) {
    generation.send(rest);
    return out.finish(false);
  }
  for (const Choice& choice : generation.choices) remember(generation, choice);
  HttpResponse response;
  response.body = std::move(rest);
  out.respond(std::move(response));
}

void Generations::stop(const Generation& generation) {
  for (const Choice& choice : generation.choices)
    if (choice.submitted) generation.model->engine->cancel(choice.request);
}

bool Generations::cancel(const std::string& id, const std::string& key_name) {
  Generation* generation = find_generate(id, key_name);
  if (!generation) return false;
  generation->unwanted = true;  // it may not have been submitted yet
  stop(*generation);
  return true;
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
  keep_cut(*generation);
  if (generation->streaming) {
    if (!generation->finishing) generation->send(generation->writer->failure(error));
    generation->out->finish(true);
  } else {
    generation->out->respond(error_response_for(generation->head.kind, error));
  }
  generations_.erase(key);
}

// With the time that the queue takes, from how long the latest answers took.
ApiError Generations::queue_full(const Error& error, const Engine& engine) const {
  ApiError full = error;
  if (full.status != 429) return full;
  constexpr double kMostSeconds = 600;
  const EngineStats stats = engine.stats();
  const double rounds = static_cast<double>(stats.queued) / std::max(1, stats.running);
  full.retry_after_s = static_cast<int>(std::ceil(std::clamp(usual_s_ * rounds, 1.0, kMostSeconds)));
  return full;
}

bool Generations::end_late_ones() {
  const double now = now_seconds();
  std::vector<uint64_t> late;
  bool others = false;
  for (const auto& [key, generation] : generations_) {
    others |= generation.deadline.is_set();
    if (generation.deadline.at <= now && !generation.finishing) late.push_back(key);
  }
  for (const uint64_t key : late) fail(key, timeout_error(find(key)->deadline.allowed_s));
  return others;
}

void Generations::client_left(uint64_t key) {
  Generation* generation = find(key);
  if (!generation) return embedder_.forget(key);
  cancel(*generation);
  keep_cut(*generation);
  log_debug("client left: {} cancelled", generation->head.id);
  generations_.erase(key);
}

void Generations::cancel_all() {
  embedder_.cancel_all();
  while (!generations_.empty())
    fail(generations_.begin()->first, {503, "The server is shutting down", "", "shutting_down"});
}

}  // namespace anabranch::server
