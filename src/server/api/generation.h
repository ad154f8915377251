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

#include "base/worker_pool.h"
#include "chat/logprobs_json.h"
#include "engine/engine.h"
#include "output/output_text.h"
#include "server/api/deadline.h"
#include "server/api/embedder.h"
#include "server/api/metrics.h"
#include "server/api/model_pool.h"
#include "server/api/prepare.h"
#include "server/api/request_model.h"
#include "server/api/trace_eraser.h"
#include "server/api/turn_recorder.h"
#include "server/api/wait_pool.h"
#include "server/http/api_keys.h"
#include "server/http/types.h"

namespace anabranch::server {

class Generations {
 public:
  // models, metrics and traces must outlive it.
  // timeout_s: for each request, from its arrival to the end of its answer; 0: no limit.
  // share_states: other workers may go on with the states that requests leave.
  Generations(ModelPool& models, WorkerPool& workers, Post post, After after, double timeout_s,
              Metrics& metrics, std::shared_ptr<ResponseContext> responses, mcp::AgentLimits agent_limits,
              bool share_states, TraceEraser& traces);
  ~Generations();

  // Starts to answer a request. Its `held` is released when the body has been parsed.
  void start(AnswerKind kind, HttpRequest request, KeyUse use, std::shared_ptr<ResponseStream> out);
  // Ends the answer to a request of /v1/generate with this id, which showed the key of this name, as its
  // client wishes. False: there is none.
  bool cancel(const std::string& id, const std::string& key_name);
  // Ends every answer with an error.
  void cancel_all();
  // For what waits for MCP servers.
  WaitPool& mcp_workers() { return mcp_workers_; }

 private:
  // One of a request's answers: n to each of its prompts, prompt by prompt.
  struct Choice {
    RequestId request = 0;
    bool submitted = false;  // to the engine, and not ended yet
    double last_event = 0;   // the time of the last tokens, in monotonic seconds; 0 before the first
    std::unique_ptr<OutputText> text;
    std::optional<LogprobsJson> logprobs;  // if asked for
    TakeLogprobs take_logprobs = [] { return nullptr; };
    std::vector<int> sampled;  // if the turn is to be remembered
    std::vector<int> echoed;   // the prompt, until its log probabilities have come
    bool begun = false;        // tokens have come, or the end
    AnswerEnd end;             // calls: so far
  };
  struct Generation {
    AnswerHead head;
    std::string host;    // this server, as the request names it
    std::string sender;  // as sender_of(), for pools
    double started = 0;  // monotonic seconds
    Deadline deadline;
    ModelLease model;  // null until it is loaded
    GenerationOptions options;
    std::shared_ptr<ResponseStream> out;
    std::shared_ptr<const void> client = std::make_shared<char>();  // nobody else holds it
    std::vector<Choice> choices;
    size_t running = 0;        // of these
    size_t logprobs_held = 0;  // alternatives kept for the end of a whole answer
    OutputRules rules;
    std::optional<uint64_t> remember;  // as of Prepared
    std::vector<std::string> echo;     // as of ReadyRequest
    std::shared_ptr<AnswerWriter> writer;
    std::shared_ptr<ConversationKeeper> keeper;  // as of ReadyRequest
    std::shared_ptr<AgentRun> agent;             // likewise
    TurnRecorder recorder;                       // of this turn of the model's, if one of these is there
    std::vector<NewMessage> unkept;              // turns that have ended
    Usage spent;                                 // in earlier turns
    bool turned = false;                         // a turn has ended, or calls were begun
    bool streaming = false;                      // the stream has started
    bool finishing = false;                      // a worker has the writer, to write its end
    bool unwanted = false;                       // its client asked for its end
    KeyUse use;
    std::shared_ptr<AnswerNote> note = std::make_shared<AnswerNote>();  // for the logs

    void send(const std::string& text) {
      if (!text.empty()) out->write(text);
    }
  };

  void choose_model(uint64_t key, const RequestHints& hints, std::shared_ptr<HttpRequest> request);
  struct Reading;
  static JobOwner job_of(const Generation& generation, size_t bytes = 0) {
    return {generation.sender, bytes};
  }
  void prepare_request(uint64_t key, std::shared_ptr<HttpRequest> request);
  void read(std::shared_ptr<Reading> reading);
  void wait_for_others(const std::shared_ptr<Reading>& reading);
  void compile(uint64_t key, const GrammarClient& client, ModelLease model, ReadyRequest ready);
  void begin_keeping(uint64_t key, const Generation& generation, ReadyRequest ready);
  std::function<void(PreparedRequest)> taker(uint64_t key);
  std::function<void(double)> model_keeper(const std::string& name);
  void submit(uint64_t key, ReadyRequest ready);
  void begin_answer(Generation& generation, size_t choices);
  bool begin_turn(uint64_t key, Generation& generation, const Prepared& prepared);
  void end_turn(uint64_t key, Generation& generation);
  void run_calls(uint64_t key, Generation& generation);
  void next_turn(uint64_t key);
  void receive(uint64_t key, size_t index, const Event& event);
  void deliver(Generation& generation, size_t index, const std::vector<OutputEvent>& events);
  std::string new_call_id(AnswerKind kind);
  void finish_choice(uint64_t key, Generation& generation, size_t index, const Event& event);
  void finish(uint64_t key, Generation& generation);
  void end(Generation& generation, std::string rest);
  NewMessage recorded(Generation& generation, const char* status, const Usage& usage) const;
  void keep_cut(Generation& generation);
  void echo(Generation& generation, size_t index, const Event& event);
  static void count_prompt(Generation& generation, size_t index, const Usage& usage);
  bool holds_too_much(Generation& generation, const Event& event) const;
  void observe(const Generation& generation, Choice& choice, const Event& event);
  void remember(const Generation& generation, const Choice& choice);
  void note(const std::string& sender, std::shared_ptr<ConversationKeeper> keeper,
            std::vector<std::string> traces);
  static void stop(const Generation& generation);
  void cancel(const Generation& generation);
  void fail(uint64_t key, const ApiError& error);
  ApiError queue_full(const Error& error, const Engine& engine) const;
  // As DeadlineWatch's sweep.
  bool end_late_ones();
  void client_left(uint64_t key);
  Generation* find(uint64_t key);
  Generation* find_generate(const std::string& id, const std::string& key_name);

  ModelPool& models_;
  WorkerPool& workers_;
  const Post post_;
  const double timeout_s_;
  double usual_s_ = 0;  // from arrival to end, of the latest answers on average
  Metrics& metrics_;
  const std::shared_ptr<ResponseContext> responses_;
  const mcp::AgentLimits agent_limits_;
  const bool share_states_;
  TraceEraser& traces_;
  std::mt19937_64 random_;  // of ids and seeds
  uint64_t next_key_ = 1;
  std::unordered_map<uint64_t, Generation> generations_;
  DeadlineWatch watch_;
  Embedder embedder_;
  // The pools, which keys and networks share fairly. The destructor closes them.
  // The texts of grammars; and conversations, whose database may be held by others for seconds.
  WorkerPool form_workers_{{.threads = 2, .per_client = 1}}, keep_workers_{1};
  // Requests that go on with conversations, which may be long.
  WorkerPool stored_workers_{{.threads = 4, .per_client = 2}};
  // Long requests never keep short ones waiting, and the longest leave a thread to the rest.
  WorkerPool long_workers_{{.threads = 2, .background = true, .large_bytes = 2u << 20}};
  // MCP servers may take a minute to answer, when they are asked for their tools and when these are called;
  // and web servers that have images may never do.
  WaitPool mcp_workers_, image_workers_{{.threads = 32, .per_owner = 8, .per_place = 4}};
};

}  // namespace anabranch::server
