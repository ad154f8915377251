#include "server/api/answers.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/log.h"
#include "server/api/answer_parts.h"

namespace anabranch::server {

Answers::Answers(ModelPool& models, WorkerPool& workers, Post post, const After& after, double timeout_s,
                 Metrics& metrics, std::shared_ptr<ResponseContext> responses, mcp::AgentLimits agent_limits,
                 bool share_states, TraceEraser& traces, Slots& slots)
    : services_{.models = models,
                .workers = workers,
                .post = post,
                .timeout_s = timeout_s,
                .metrics = metrics,
                .responses = std::move(responses),
                .agent_limits = agent_limits,
                .share_states = share_states,
                .traces = traces,
                .slots = slots,
                .embedder = Embedder(post, after),
                .ahead = ReadAhead(
                    models, workers, post, after, metrics, [this] { return !running_.empty(); },
                    [this](const EndedTurn& turn, const std::vector<std::string>& states) {
                      note_traces(services_, turn.sender, turn.keeper, states);
                    })},
      watch_(after, [this] { return end_late_ones(); }) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  services_.random.seed(seed);
  services_.watch_deadlines = [this] { watch_.start(); };
  services_.runs_generate = [this](const std::string& id, const std::string& key_name) {
    return find_generate(id, key_name) != nullptr;
  };
}

Answers::~Answers() {
  running_.clear();  // ends all work that waits on behalf of clients
  services_.ahead.stop();
  services_.close_pools();
}

void Answers::start(AnswerKind kind, HttpRequest request, KeyUse use, std::shared_ptr<ResponseStream> out) {
  const uint64_t key = next_key_++;
  out->on_client_left([this, key] { client_left(key); });
  auto running = std::make_unique<Running>(services_, key, kind, request, std::move(use), std::move(out));
  running->life = run(key, std::make_shared<const HttpRequest>(std::move(request)));
  Task<>& life = running->life;
  running_.emplace(key, std::move(running));
  life.start();
}

Task<> Answers::run(uint64_t key, std::shared_ptr<const HttpRequest> request) {
  Answer& answer = running_.at(key)->answer;
  try {
    co_await answer.live(std::move(request));
  } catch (const std::exception& e) {
    log_error("an answer failed: {}", e.what());
    answer.fail({500, "Internal error while answering", "", "internal_error"});
  }
  // Destroyed later, because this coroutine belongs to the answer.
  ended_.push_back(std::move(running_.extract(key).mapped()));
  services_.post([this] { ended_.clear(); });
  services_.ahead.look();
}

void Answers::fail(uint64_t key, const ApiError& error) {
  running_.at(key)->answer.fail(error);
  running_.erase(key);
  services_.ahead.look();
}

void Answers::client_left(uint64_t key) {
  const auto it = running_.find(key);
  if (it == running_.end()) return services_.embedder.forget(key);
  it->second->answer.abandon();
  running_.erase(it);
  services_.ahead.look();
}

bool Answers::end_late_ones() {
  return fail_late_ones(
      running_, [](const auto& running) -> const Deadline& { return running->answer.deadline(); },
      [this](uint64_t key, const ApiError& error) { fail(key, error); });
}

Answer* Answers::find_generate(const std::string& id, const std::string& key_name) {
  const auto it = std::ranges::find_if(
      running_, [&](const auto& entry) { return entry.second->answer.is_generate(id, key_name); });
  return it == running_.end() ? nullptr : &it->second->answer;
}

bool Answers::stop(const std::string& id, const std::string& key_name) {
  Answer* answer = find_generate(id, key_name);
  if (answer) answer->stop();
  return answer != nullptr;
}

void Answers::fail_all() {
  services_.embedder.cancel_all();
  while (!running_.empty())
    fail(running_.begin()->first, {503, "The server is shutting down", "", "shutting_down"});
}

}  // namespace anabranch::server
