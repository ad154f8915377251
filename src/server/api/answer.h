// One answer, from the request to its end. live() runs all of it.
//
// Used on the I/O thread only. Work that takes long runs on pools. What an answer holds while it waits is in
// local variables of coroutines, so destroying the task of live() ends the answer at the point where it
// waits. The task must be destroyed before the answer.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/task.h"
#include "chat/logprobs_json.h"
#include "engine/engine.h"
#include "output/output_text.h"
#include "server/api/answer_services.h"
#include "server/api/deadline.h"
#include "server/api/prepare.h"
#include "server/api/request_model.h"
#include "server/api/responses/compaction.h"
#include "server/api/turn_recorder.h"
#include "server/http/api_keys.h"
#include "server/http/types.h"

namespace anabranch::server {

class Answer {
 public:
  // services: must outlive it.
  // key: identifies this answer in Answers and Embedder.
  Answer(AnswerServices& services, uint64_t key, AnswerKind kind, const HttpRequest& request, KeyUse use,
         std::shared_ptr<ResponseStream> out);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Answers the request. Its `held` is released when the body has been parsed.
  Task<> live(std::shared_ptr<const HttpRequest> request);

  // Ends the answer early with an error for the client; the answer is destroyed afterwards.
  void fail(const ApiError& error);
  // Ends the answer early because its client has left; the answer is destroyed afterwards.
  void abandon();

  // The client asks to stop: the text so far becomes the answer.
  void stop();
  // Whether this is a request of /v1/generate with this id and a key of this name.
  bool is_generate(const std::string& id, const std::string& key_name) const;
  const Deadline& deadline() const { return deadline_; }

 private:
  // One of a request's answers. There are n for each of its prompts, ordered by prompt.
  struct Choice {
    RequestId request = 0;
    bool submitted = false;  // to the engine, and not ended yet
    double last_event = 0;   // the time of the last tokens, in monotonic seconds; 0 before the first
    std::unique_ptr<OutputText> text;
    std::optional<LogprobsJson> logprobs;  // if asked for
    TakeLogprobs take_logprobs = [] { return nullptr; };
    std::vector<int> sampled;  // if the turn is to be remembered
    std::vector<int> echoed;   // the prompt, until its log probabilities have come
    bool begun = false;        // tokens or the end have arrived
    AnswerEnd end;             // its `calls` counts those so far
  };
  // The engine's events, in the order in which they come.
  struct Arrived {
    size_t choice;
    Event event;
  };

  // The parts of live(), in the order in which it runs them.
  Callback<RequestHints> read_hints(std::shared_ptr<const HttpRequest> request);
  std::optional<ApiError> take_hints(const RequestHints& hints);
  Callback<ApiResult<ModelLease>> load_model(const std::string& name);
  ApiResult<void> choose_adapter(const std::string& name);
  Task<ApiResult<PreparedRequest>> prepare(std::shared_ptr<const HttpRequest> request);
  void embed(EmbeddingRequest texts);
  Callback<Result<void>> keep_request(std::shared_ptr<ConversationKeeper> keeper,
                                      std::vector<NewMessage> added);
  void take(ReadyRequest& ready);
  void note_settings();
  void begin(size_t choices);
  Task<ApiResult<Prepared>> compact(std::shared_ptr<PlannedCompaction> planned);
  Task<> run_calls();
  Task<ApiResult<Prepared>> prepare_next_turn();
  ApiResult<void> submit(const Prepared& prepared);
  Task<ApiResult<void>> receive_turn();
  bool end_turn();
  void note_turn(Json message);
  Callback<std::string> keep_answer();
  void end(std::string rest);

  // Parts of prepare() and prepare_next_turn().
  struct Reading;
  Callback<ApiResult<PreparedRequest>> read(std::shared_ptr<Reading> reading);
  Callback<Nothing> fetch(std::shared_ptr<Reading> reading);
  Callback<Result<Prepared>> read_next_turn();
  Callback<Result<Prepared>> compile(Prepared prepared);
  // A part of compact().
  Callback<Result<CompactedChat>> replace(std::shared_ptr<PlannedCompaction> planned, std::string summary);
  // Parts of run_calls().
  struct CallLimits {
    double until;  // monotonic seconds
    int calls;     // number that may still run
    size_t bytes;  // limit of their output
    // Why no further call may run, as text for the model; empty: one may.
    std::string refusal() const;
  };
  Callback<mcp::CallResult> run_and_keep(const AgentCall& call, const CallLimits& limits);
  // Parts of receive_turn().
  Sink event_sink(size_t index);
  Callback<Nothing> next_event();
  ApiResult<void> receive(size_t index, const Event& event);
  ApiResult<void> finish_choice(size_t index, const Event& event);
  void deliver(size_t index, const std::vector<OutputEvent>& events);
  void echo(size_t index, const Event& event);
  void count_prompt(size_t index, const Usage& usage);
  bool holds_too_much(const Event& event);
  void observe(Choice& choice, const Event& event);
  void remember(const Choice& choice);
  void note_slot(const Event& end);
  std::string new_call_id();
  // Used by several of these.
  ApiError queue_full(const Error& error) const;
  NewMessage recorded(const char* status, const Usage& usage);
  std::vector<AnswerEnd> ends() const;
  Usage total_usage() const;
  void cancel();
  void keep_cut();
  JobOwner job(size_t bytes = 0) const { return {sender_, bytes}; }
  std::weak_ptr<const void> alive() const { return alive_; }
  void send(const std::string& text) {
    if (!text.empty()) out_->write(text);
  }

  AnswerServices& services_;
  const uint64_t key_;
  AnswerHead head_;
  const std::string host_;    // this server, as the request names it
  const std::string sender_;  // as sender_of(), for pools
  const double started_;      // monotonic seconds
  Deadline deadline_;
  KeyUse use_;
  const std::shared_ptr<ResponseStream> out_;
  // Only the answer owns this pointer, so other threads can tell from a weak_ptr whether the answer is gone.
  const std::shared_ptr<Answer*> alive_ = std::make_shared<Answer*>(this);
  const std::shared_ptr<AnswerNote> note_ = std::make_shared<AnswerNote>();  // for logs and traces
  ModelLease model_;                                                         // null until it is loaded
  AvailableAdapters adapters_;  // of the model, until the request is read

  std::shared_ptr<AnswerWriter> writer_;  // null before the request is prepared, and while its end is written
  std::shared_ptr<ConversationKeeper> keeper_;  // see ReadyRequest; null while the end is kept
  std::shared_ptr<AgentRun> agent_;             // see ReadyRequest
  std::vector<std::string> echo_;               // see ReadyRequest
  GenerationOptions options_;
  OutputRules rules_;                         // of this turn
  std::shared_ptr<const ChatRequest> asked_;  // see Prepared
  std::vector<int> prompt_;                   // if asked_ is set
  int begun_ = 0;                             // see Prepared
  ReadAhead::Found ahead_;                    // of the prompt
  std::optional<EndedTurn> ended_turn_;       // if its next prompt is to be read ahead
  std::optional<uint64_t> remember_;          // see Prepared
  std::optional<SlotPrompt> slot_;            // the first choice's, if slots are kept
  std::vector<Choice> choices_;
  size_t running_ = 0;        // number of choices that have not ended
  size_t logprobs_held_ = 0;  // alternatives kept for the end of a whole answer
  std::deque<Arrived> arrived_;
  Callback<Nothing>::Done wake_;  // set while the answer waits for an event
  TurnRecorder recorder_;         // records the model's current turn, if it is stored or belongs to an agent
  std::vector<NewMessage> unkept_;      // turns that have ended and are not stored yet
  Usage spent_;                         // in earlier turns
  std::optional<std::string> summary_;  // the text so far, while the model summarizes (compact())
  bool streaming_ = false;              // the stream has started
  bool unwanted_ = false;               // stop() was called
  bool calls_begun_ = false;            // calls of tools that this server runs have begun
};

}  // namespace anabranch::server
