// Runs all answers: parses and prepares the request on a worker, submits it to the engine, and sends the
// events.
//
// Ownership: owns the answers; used on the I/O thread only. The engine's sinks hold a key, not an answer, so
// an answer can be forgotten at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>

#include "chat/logprobs_json.h"
#include "engine/engine.h"
#include "output/output_text.h"
#include "server/api/anthropic_format.h"
#include "server/api/metrics.h"
#include "server/api/openai_format.h"
#include "server/api/prepare.h"
#include "server/api/worker_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

struct ApiOptions {
  PrepareOptions prompts;
  ThinkingWish thinking;            // where requests say nothing
  bool strict_model_names = false;  // refuse requests for another model than the loaded one
};

class Generations {
 public:
  // metrics must outlive it.
  Generations(Engine& engine, WorkerPool& workers, Post post, Metrics& metrics, ApiOptions options);

  // Starts to answer a request. Its `held` is released when the body has been parsed.
  void start(AnswerKind kind, HttpRequest request, std::shared_ptr<ResponseStream> out);
  const RequestDefaults& defaults() const { return defaults_; }
  // Ends every answer with an error.
  void cancel_all();

 private:
  // One of a request's answers: n to each of its prompts, prompt by prompt.
  struct Choice {
    RequestId request = 0;
    bool submitted = false;  // to the engine, and not ended yet
    double last_event = 0;   // the time of the last tokens, in monotonic seconds; 0 before the first
    std::unique_ptr<OutputText> text;
    std::optional<LogprobsJson> logprobs;  // if asked for
    std::vector<int> sampled;              // if the turn is to be remembered
    ParsedOutput answer;                   // whole answers only
    std::vector<std::string> call_ids;     // of the answer's calls so far
    FinishReason finish = FinishReason::none;
    Usage usage;

    Json take_logprobs() { return logprobs ? logprobs->take() : nullptr; }
  };
  struct Generation {
    AnswerHead head;
    double started = 0;  // monotonic seconds
    GenerationOptions options;
    std::shared_ptr<ResponseStream> out;
    std::shared_ptr<const void> client = std::make_shared<char>();  // nobody else holds it
    std::vector<Choice> choices;
    size_t running = 0;        // of these
    size_t logprobs_held = 0;  // alternatives kept for the end of a whole answer
    OutputRules rules;
    std::optional<uint64_t> remember;  // as of Prepared
    bool streaming = false;            // the stream has started
    std::vector<MessageBlock> blocks;  // of a whole message
    MessageStream message;             // of the other messages
  };

  void compile(uint64_t key, std::weak_ptr<const void> client, Prepared prepared);
  std::function<void(std::variant<Prepared, ApiError>)> taker(uint64_t key);
  void submit(uint64_t key, Prepared prepared);
  void begin_stream(Generation& generation);
  void receive(uint64_t key, size_t index, const Event& event);
  void deliver(Generation& generation, size_t index, const std::vector<OutputEvent>& events);
  std::string new_call_id(AnswerKind kind);
  void finish_choice(uint64_t key, Generation& generation, size_t index, const Event& event);
  void finish(Generation& generation);
  bool holds_too_much(Generation& generation, const Event& event) const;
  void observe(const Generation& generation, Choice& choice, const Event& event);
  void remember(const Generation& generation, const Choice& choice);
  void cancel(const Generation& generation);
  void fail(uint64_t key, const ApiError& error);
  void client_left(uint64_t key);
  Generation* find(uint64_t key);

  Engine& engine_;
  WorkerPool& workers_;
  const Post post_;
  Metrics& metrics_;
  const RequestDefaults defaults_;
  Preparer preparer_;       // used by workers; remember() by the I/O thread
  std::mt19937_64 random_;  // of ids and seeds
  uint64_t next_key_ = 1;
  std::unordered_map<uint64_t, Generation> generations_;
  // Compiling a grammar may take a second, so it has threads of its own. The jobs of workers_ and
  // long_workers_ submit to this pool, so it must be destroyed after them.
  WorkerPool form_workers_{2};
  // Long requests have a thread of their own, so that short ones never wait for them.
  WorkerPool long_workers_{1, true};
};

}  // namespace anabranch::server
