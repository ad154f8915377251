#include "server/api/answer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "chat/engine_request.h"
#include "server/api/answer_parts.h"
#include "server/api/session_json.h"
#include "server/api/state_pages.h"
#include "server/http/admission.h"
#include "server/http/request_record.h"

// In live(): decl = the value of expr; or the answer fails with expr's error, and live() returns.
#define TRY_OR_FAIL_(tmp, decl, expr)         \
  auto tmp = (expr);                          \
  if (!tmp.ok()) co_return fail(tmp.error()); \
  decl = std::move(tmp).value()
#define TRY_OR_FAIL(decl, expr) TRY_OR_FAIL_(ANABRANCH_CONCAT(try_result_, __LINE__), decl, expr)

namespace anabranch::server {
namespace {

constexpr size_t kNotedModel = 200;  // bytes of a model's name that traces show

const char* id_prefix(AnswerKind kind) {
  if (kind == AnswerKind::chat) return "chatcmpl-";
  if (kind == AnswerKind::response || kind == AnswerKind::compaction) return "resp_";
  if (kind == AnswerKind::generate) return "gen-";
  return kind == AnswerKind::completion || kind == AnswerKind::llama_completion ? "cmpl-" : "msg_";
}

LogprobsFormat logprobs_format(AnswerKind kind) {
  if (kind == AnswerKind::generate) return LogprobsFormat::ids;
  return kind == AnswerKind::completion ? LogprobsFormat::completion : LogprobsFormat::chat;
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

std::string host_of(const HttpRequest& request) {
  const std::string* host = request.header("host");
  return host ? *host : "";
}

}  // namespace

Answer::Answer(AnswerServices& services, uint64_t key, AnswerKind kind, const HttpRequest& request,
               KeyUse use, std::shared_ptr<ResponseStream> out)
    : services_(services),
      key_(key),
      host_(host_of(request)),
      sender_(sender_of(use.name(), request.address)),
      started_(now_seconds()),
      use_(std::move(use)),
      out_(std::move(out)) {
  head_.kind = kind;
  head_.id = random_id(id_prefix(kind));
  head_.created = unix_seconds();
  note_->id = head_.id;
  out_->note(note_);
}

Task<> Answer::live(std::shared_ptr<const HttpRequest> request) {
  const RequestHints hints = co_await read_hints(request);
  if (const auto error = take_hints(hints)) co_return fail(*error);
  const auto adapter = services_.models.find_adapter(hints.model);
  TRY_OR_FAIL(model_, co_await load_model(hints.model));
  if (const auto chosen = choose_adapter(adapter.value_or("")); !chosen) co_return fail(chosen.error());
  TRY_OR_FAIL(PreparedRequest prepared, co_await prepare(std::move(request)));
  if (auto* response = std::get_if<HttpResponse>(&prepared)) co_return out_->respond(std::move(*response));
  if (auto* texts = std::get_if<EmbeddingRequest>(&prepared)) co_return embed(std::move(*texts));

  ReadyRequest ready = std::get<ReadyRequest>(std::move(prepared));
  if (ready.keeper) {
    // The request's messages are stored before anything is answered.
    const auto kept = co_await keep_request(ready.keeper, std::move(ready.added));
    if (!kept) co_return fail(session_error(kept.error()));
  }
  take(ready);
  bool begun = false;
  if (ready.compaction) {
    TRY_OR_FAIL(ready.prepared, co_await compact(std::exchange(ready.compaction, nullptr)));
    begun = true;
  }
  for (;;) {
    if (agent_ && agent_->has_waiting()) {
      // This server runs these calls: they are from the previous turn, or the request approved them.
      if (!begun) begin(1);
      begun = true;
      co_await run_calls();
      if (!agent_->goes_on(now_seconds())) break;
      TRY_OR_FAIL(ready.prepared, co_await prepare_next_turn());
    }
    // The prepared prompt is not needed any more while the answer is generated, so it is freed.
    if (const auto submitted = submit(std::exchange(ready.prepared, {})); !submitted)
      co_return fail(submitted.error());
    if (!begun) begin(choices_.size());
    begun = true;
    if (unwanted_) stop();
    const auto received = co_await receive_turn();
    if (!received) co_return fail(received.error());
    if (!end_turn()) break;
  }
  if (const auto fault = writer_->fault(ends())) co_return fail(*fault);
  // The answer is stored before the client learns that it is complete.
  std::string rest;
  if (keeper_)
    rest = co_await keep_answer();
  else
    rest = writer_->finish(ends(), total_usage());
  end(std::move(rest));
  if (ended_turn_) services_.ahead.add(std::move(*ended_turn_));
}

// Applies the fields that are needed before the whole body is read.
std::optional<ApiError> Answer::take_hints(const RequestHints& hints) {
  note_->asked_model = hints.model.substr(0, kNotedModel);
  if (auto error = refuse_misspelt(head_.kind, hints.unknown)) return error;
  if (!hints.unknown.names.empty()) out_->add_header("X-Anabranch-Ignored-Fields", hints.unknown.names);
  for (const double seconds : {services_.timeout_s, hints.timeout_s}) deadline_.limit(started_, seconds);
  if (deadline_.is_set()) services_.watch_deadlines();
  if (head_.kind == AnswerKind::generate && is_request_id(hints.request_id)) {
    if (services_.runs_generate(hints.request_id, use_.name()))
      return ApiError{409, fmt::format("A running request has the id '{}'", hints.request_id), "request_id",
                      "request_id_in_use"};
    note_->id = head_.id = hints.request_id;
  }
  return std::nullopt;
}

Callback<ApiResult<ModelLease>> Answer::load_model(const std::string& name) {
  return Callback<ApiResult<ModelLease>>([this, name](auto done) {
    services_.models.acquire(name, [this, done, alive = std::weak_ptr(alive_)](ApiResult<ModelLease> taken) {
      if (alive.expired()) return;  // the client has left
      if (taken) {
        head_.model = (*taken)->name;
        head_.load_s = now_seconds() - started_;
      }
      done(std::move(taken));
    });
  });
}

// Takes the model's adapters as they are now. name: of the one that the request names as its model; empty: it
// names none.
ApiResult<void> Answer::choose_adapter(const std::string& name) {
  adapters_ = {name, services_.models.adapters().of(model_->name)};
  if (name.empty()) return {};
  if (std::ranges::find(adapters_.known, name, &ServedAdapter::name) ==
      adapters_.known.end())  // it was unloaded while the request waited
    return ApiError{404,
                    fmt::format("There is no adapter '{}' here: GET /v1/models lists those that are", name),
                    "model", "model_not_found"};
  head_.model = name;
  return {};
}

void Answer::embed(EmbeddingRequest texts) {
  services_.ahead.give_way(model_->name, {}, nullptr);
  note_->id.clear();  // embeddings have none
  services_.embedder.start(key_, std::move(model_), std::move(texts), std::move(use_),
                           {started_, head_.load_s, deadline_}, out_, note_);
}

Callback<Result<void>> Answer::keep_request(std::shared_ptr<ConversationKeeper> keeper,
                                            std::vector<NewMessage> added) {
  return Callback<Result<void>>([this, keeper = std::move(keeper), added = std::move(added)](auto done) {
    services_.keep_workers.submit(
        job(), [&services = services_, owner = job(), keeper, added, done, alive = alive()] {
          if (alive.expired()) return;
          const auto begun = keeper->begin(added);
          services.post([&services, owner, keeper, begun, done, alive] {
            if (alive.expired() || !begun)
              services.keep_workers.submit(owner, [keeper] { keeper->take_back(); });
            done(begun);
          });
        });
  });
}

void Answer::take(ReadyRequest& ready) {
  writer_ = std::move(ready.writer);
  keeper_ = std::move(ready.keeper);
  agent_ = std::move(ready.agent);
  echo_ = std::move(ready.echo);
  head_.thinking = ready.prepared.think_report;
  note_->model = head_.model;
}

void Answer::note_settings() {
  note_->max_tokens = options_.max_tokens;
  note_->temperature = options_.sampling.temperature;
  note_->top_p = options_.sampling.top_p;
  if (note_->submitted == 0) note_->submitted = now_seconds();
}

// Begins the answer with its head, which a stream sends now.
void Answer::begin(size_t choices) {
  const std::string first = writer_->begin(head_, choices);
  if (!writer_->is_stream()) return;
  streaming_ = true;
  out_->start(std::string(writer_->stream_type()), std::string(writer_->heartbeat()));
  send(first);
}

// Starts the model's turn. Errors: the engine has no room.
ApiResult<void> Answer::submit(const Prepared& prepared) {
  options_ = prepared.options;
  remember_ = prepared.remember;
  rules_ = prepared.rules;
  asked_ = prepared.asked;
  prompt_ = asked_ ? prepared.prompts[0] : std::vector<int>();
  begun_ = prepared.begun;
  slot_.reset();
  if (services_.slots.enabled() && options_.cache && options_.adapters.empty() && prepared.images.empty())
    slot_ = SlotPrompt{prepared.prompts[0], prepared.keep_at, options_.cache_salt, {}};
  ahead_ = services_.ahead.give_way(model_->name, prepared.prompts[0], asked_.get());
  if (const auto& thinking = prepared.think_report)
    log_debug("{} {}: {}", head_.id, thinking->enabled ? "thinks" : "does not think", thinking->reason);
  Engine& engine = *model_->engine;
  const uint64_t seed = options_.seed ? *options_.seed : services_.random();
  if (options_.to_decode && services_.share_states)
    head_.transfer = transfer_json(engine, options_.cache_salt, prepared.prompts, host_);
  note_settings();
  choices_.clear();
  choices_.resize(prepared.prompts.size() * options_.choices);
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    choice.text = std::make_unique<OutputText>(engine.tokenizer(), options_.stop, prepared.rules);
    if (options_.logprobs >= 0) {
      choice.logprobs.emplace(logprobs_format(head_.kind), engine.tokenizer());
      choice.take_logprobs = [&choice] { return choice.logprobs->take(); };
    }
    Request request = engine_request(prepared, i / options_.choices, choice_seed(seed, i % options_.choices));
    request.priority = use_.priority().value_or(options_.priority);
    request.name_states = keeper_ || slot_;
    request.prompt_logprobs = !echo_.empty() && options_.logprobs >= 0;
    if (request.prompt_logprobs) choice.echoed = request.prompt;
    choice.sampled.assign(request.prompt.end() - prepared.begun, request.prompt.end());
    auto accepted = engine.submit(std::move(request), event_sink(i));
    if (!accepted) return queue_full(accepted.error());
    choice.request = *accepted;
    choice.submitted = true;
    ++running_;
  }
  return {};
}

// Passes the engine's events for a choice, which arrive on another thread, to the I/O thread.
Sink Answer::event_sink(size_t index) {
  return [post = services_.post, &services = services_, alive = std::weak_ptr(alive_), index,
          keeper = keeper_, sender = sender_](const Event& event) {
    post([&services, alive, index, keeper, sender, event] {
      // An answer that was given up needs this, too: its cache entries are deleted together with its
      // conversation.
      if (keeper && !event.states.empty()) note_traces(services, sender, keeper, event.states);
      const auto answer = alive.lock();
      if (!answer) return;
      Answer& self = **answer;
      self.arrived_.push_back({index, event});
      if (self.wake_) std::exchange(self.wake_, nullptr)({});
    });
  };
}

Callback<Nothing> Answer::next_event() {
  return Callback<Nothing>([this](Callback<Nothing>::Done done) { wake_ = std::move(done); });
}

// Receives events until all choices have ended.
Task<ApiResult<void>> Answer::receive_turn() {
  while (running_ > 0) {
    if (arrived_.empty()) (void)co_await next_event();
    const Arrived arrived = std::move(arrived_.front());
    arrived_.pop_front();
    auto taken = receive(arrived.choice, arrived.event);
    if (!taken) co_return taken;
  }
  co_return ApiResult<void>();
}

// Called when all choices have ended. Records the messages to store. Returns whether the model has called
// tools that this server runs; these calls come next.
bool Answer::end_turn() {
  if (!streaming_)
    for (const Choice& choice : choices_) remember(choice);
  const Choice& choice = choices_[0];
  const bool cut = choice.end.finish == FinishReason::length;
  if (!keeper_ && !agent_) {
    if (asked_) note_turn(recorder_.take());
    return false;
  }
  unkept_.push_back(recorded(cut ? "incomplete" : "completed", choice.end.usage));
  NewMessage& turn = unkept_.back();
  note_turn(turn.message);
  if (!agent_) return false;
  const Json calls = agent_->add_turn(turn.message, choice.end.usage.completion_tokens);
  if (!calls.empty()) turn.about["mcp_calls"] = calls;
  if (cut || !agent_->has_waiting()) return false;
  spent_ = add_up(spent_, choice.end.usage, true);
  return true;
}

// Notes what the next prompt begins with, if the turn ended by itself.
void Answer::note_turn(Json message) {
  ended_turn_.reset();
  const Choice& choice = choices_[0];
  if (!asked_ || choice.end.finish != FinishReason::stop) return;
  // Most clients of these APIs do not send thoughts back.
  const bool shows_thoughts = head_.kind == AnswerKind::message || head_.kind == AnswerKind::response;
  if (!shows_thoughts) message.erase("reasoning_content");
  std::vector<int> tokens = std::exchange(prompt_, {});
  tokens.insert(tokens.end(), choice.sampled.begin() + begun_, choice.sampled.end());
  ended_turn_.emplace(model_->name, asked_, std::move(message), std::move(tokens), sender_, keeper_);
  for (const auto& [adapter, scale] : options_.adapters) ended_turn_->adapters.push_back({adapter, scale});
}

// How the choices ended, and their usage.
std::vector<AnswerEnd> Answer::ends() const {
  std::vector<AnswerEnd> ends;
  for (const Choice& choice : choices_) ends.push_back(choice.end);
  // If the answer consists of approved calls only, the model had no turn.
  if (ends.empty()) ends.emplace_back();
  if (agent_) ends[0].stopped = agent_->stopped();
  return ends;
}

Usage Answer::total_usage() const {
  Usage usage = spent_;
  for (size_t i = 0; i < choices_.size(); ++i)
    usage = add_up(usage, choices_[i].end.usage, i % options_.choices == 0);
  return usage;
}

// Stores the answer on a worker. Returns the rest of it to send. From here on the answer has no deadline: it
// is stored whole, even if its client leaves.
Callback<std::string> Answer::keep_answer() {
  deadline_ = {};
  return Callback<std::string>([this, usage = total_usage()](auto done) {
    services_.keep_workers.submit(
        job(),
        [&services = services_, done, ends = ends(), usage, messages = std::exchange(unkept_, {}),
         keeper = std::exchange(keeper_, nullptr), writer = std::exchange(writer_, nullptr)]() mutable {
          // A complete answer is sent even if it could not be stored; then it says so.
          if (const auto added = keeper->add(messages); !added) {
            log_warning("an answer could not be kept: {}", added.error().message);
            ends[0].not_kept = added.error().message;
          }
          services.post([done, rest = writer->finish(ends, usage)] { done(rest); });
        });
  });
}

// Sends the end of a stream, or the whole answer.
void Answer::end(std::string rest) {
  const Usage usage = total_usage();
  note_->prompt_tokens = usage.prompt_tokens;
  note_->cached_tokens = usage.cached_tokens;
  note_->completion_tokens = usage.completion_tokens;
  for (const AnswerEnd& each : ends()) note_->finish.emplace_back(finish_name(each.finish, each.calls));
  const double took_s = now_seconds() - started_;
  services_.usual_s = services_.usual_s > 0 ? 0.9 * services_.usual_s + 0.1 * took_s : took_s;
  if (streaming_) {
    send(rest);
    return out_->finish(false);
  }
  HttpResponse response;
  response.body = std::move(rest);
  out_->respond(std::move(response));
}

void Answer::stop() {
  unwanted_ = true;  // for choices that are not submitted yet
  for (const Choice& choice : choices_)
    if (choice.submitted) model_->engine->cancel(choice.request);
}

bool Answer::is_generate(const std::string& id, const std::string& key_name) const {
  return head_.kind == AnswerKind::generate && head_.id == id && use_.name() == key_name;
}

void Answer::cancel() {
  for (const Choice& choice : choices_) {
    if (!choice.submitted) continue;
    model_->engine->cancel(choice.request);
    services_.metrics.answered(head_.kind, "cancelled");
  }
}

void Answer::fail(const ApiError& error) {
  note_->error = error.code.empty() ? std::to_string(error.status) : error.code;
  cancel();
  keep_cut();
  if (!streaming_) return out_->respond(error_response_for(head_.kind, error));
  if (writer_) send(writer_->failure(error));
  out_->finish(true);
}

void Answer::abandon() {
  cancel();
  keep_cut();
  log_debug("client left: {} cancelled", head_.id);
}

// Adds an estimate of the waiting time to the error, made from how long the latest answers took.
ApiError Answer::queue_full(const Error& error) const {
  ApiError full = error;
  if (full.status != 429) return full;
  constexpr double kMostSeconds = 600;
  const EngineStats stats = model_->engine->stats();
  const double rounds = static_cast<double>(stats.queued) / std::max(1, stats.running);
  full.retry_after_s = static_cast<int>(std::ceil(std::clamp(services_.usual_s * rounds, 1.0, kMostSeconds)));
  return full;
}

}  // namespace anabranch::server
