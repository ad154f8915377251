// Every answer under way: from a request's body through worker and engine to its stream.
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

#include "engine/engine.h"
#include "server/anthropic_format.h"
#include "server/http_types.h"
#include "server/logprobs_json.h"
#include "server/openai_format.h"
#include "server/prepare.h"
#include "server/worker_pool.h"
#include "text/output_text.h"

namespace anabranch::server {

class Generations {
 public:
  Generations(Engine& engine, WorkerPool& workers, Post post, PrepareOptions options);

  void start(AnswerKind kind, std::string body, std::shared_ptr<ResponseStream> out);
  const RequestDefaults& defaults() const { return preparer_.defaults(); }
  // Ends every answer with an error.
  void cancel_all();

 private:
  struct Generation {
    AnswerHead head;
    GenerationOptions options;
    std::shared_ptr<ResponseStream> out;
    std::unique_ptr<text::OutputText> text;
    std::optional<LogprobsJson> logprobs;       // if asked for
    std::optional<text::OutputRules> remember;  // by which; none: it is not to be remembered
    std::vector<int> sampled;                   // if it is
    RequestId request = 0;
    bool submitted = false;             // to the engine, and not ended yet
    bool streaming = false;             // the stream has started
    text::ParsedOutput answer;          // whole answers only
    std::vector<MessageBlock> blocks;   // the same, of a message
    MessageStream message;              // the other messages
    std::vector<std::string> call_ids;  // of the answer's calls so far

    Json take_logprobs() { return logprobs ? logprobs->take() : nullptr; }
  };

  void submit(uint64_t key, Prepared prepared);
  void receive(uint64_t key, const Event& event);
  void deliver(Generation& generation, const std::vector<text::OutputEvent>& events);
  std::string new_call_id(AnswerKind kind);
  void answer(Generation& generation, FinishReason finish, const Usage& usage);
  void remember(const Generation& generation);
  void finish(uint64_t key, Generation& generation, const Event& event);
  void fail(uint64_t key, const ApiError& error);
  void client_left(uint64_t key);
  Generation* find(uint64_t key);

  Engine& engine_;
  WorkerPool& workers_;
  const Post post_;
  Preparer preparer_;       // used by workers
  std::mt19937_64 random_;  // of ids and seeds
  uint64_t next_key_ = 1;
  std::unordered_map<uint64_t, Generation> generations_;
};

}  // namespace anabranch::server
