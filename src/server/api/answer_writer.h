// Writes the answer to one request in the format of the API that the request used: as a stream, or whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/thinking.h"
#include "engine/engine.h"
#include "output/output_parser.h"
#include "server/api/agent_run.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// The kind of a request: chat, completion, response, input_count and compaction belong to OpenAI's APIs,
// message and token_count to Anthropic's, ollama_... to Ollama's, chat_count and those after it to
// llama-server's, generate to this server's own. The counts are those of prompts.
enum class AnswerKind {
  chat,
  completion,
  response,
  input_count,
  compaction,
  message,
  token_count,
  ollama_chat,
  ollama_generate,
  chat_count,
  llama_completion,
  infill,
  tokenize,
  detokenize,
  apply_template,
  embedding,
  ollama_embed,
  ollama_embedding,
  rerank,
  generate
};

// Fields that every JSON object of an answer repeats.
struct AnswerHead {
  AnswerKind kind = AnswerKind::chat;
  std::string id;  // "chatcmpl-...", "cmpl-...", "resp_...", "msg_...", or for `generate` the request's own
  int64_t created = 0;  // Unix seconds
  std::string model;
  std::optional<ThinkReport> thinking;  // chat only
  double load_s = 0;                    // time that the request waited for its model
  Json transfer;  // "kv_transfer_params" for OpenAI's answers that are not streams; null: none
};

// How one of a request's answers ended.
struct AnswerEnd {
  FinishReason finish = FinishReason::stop;
  int calls = 0;
  std::string stopped;        // why it may not call more tools of MCP servers (AgentRun::stopped)
  std::string not_kept;       // why it could not be stored; empty: it was stored, or nobody asked for that
  std::string stop_sequence;  // empty: none was found
  bool context_full = false;  // it was cut at the end of the context, not by a limit of the request
  Usage usage;
};

// Log probabilities of the tokens since they were last taken, as LogprobsJson writes them, or null.
using TakeLogprobs = std::function<Json()>;

// The members from begin() on are called in this order, each returning what a stream sends now. Answers that
// do not stream return "" until finish().
class AnswerWriter {
 public:
  explicit AnswerWriter(bool stream) : stream_(stream) {}
  virtual ~AnswerWriter() = default;

  bool is_stream() const { return stream_; }
  virtual std::string_view stream_type() const { return "text/event-stream; charset=utf-8"; }
  // Written whenever a stream is silent; clients skip it.
  virtual std::string_view heartbeat() const { return ": still working\n\n"; }

  virtual std::string begin(AnswerHead head, size_t choices) = 0;
  // The engine has begun with the prompt of a choice. usage: that of the prompt.
  virtual std::string started(const Usage&) { return ""; }
  // Progress of prefill: the number of prompt tokens that have been read, and the seconds so far. Called only
  // if the request asked for it.
  virtual std::string prefilled(size_t, const Usage&, int, double) { return ""; }
  // The tokens that the next events come from.
  virtual std::string tokens(size_t, std::span<const int>, const TakeLogprobs&) { return ""; }
  // call_id: the id of a call, for the event that begins it.
  virtual std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                            const TakeLogprobs& logprobs) = 0;
  virtual std::string choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) = 0;
  // call_started: this server begins to run a call of an earlier answer that the user has approved.
  // call_finished: the result of such a call, or of one that needs no approval.
  virtual std::string call_started(const AgentCall&) { return ""; }
  virtual std::string call_finished(const AgentCall&, const mcp::CallResult&) { return ""; }
  // The conversation was compacted into this item, before the model answers.
  virtual std::string compacted(const Json&) { return ""; }
  // Why an answer that is no stream cannot be given; asked before finish().
  virtual std::optional<ApiError> fault(const std::vector<AnswerEnd>&) const { return std::nullopt; }
  // The end of a stream, or the whole body. ends: the ends of all choices. total: their usage, each prompt
  // once. If the answer is stored (ReadyRequest::keeper), it is called on a worker, after the messages were
  // stored.
  virtual std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) = 0;
  // The end of a stream that fails.
  virtual std::string failure(const ApiError& error) = 0;

 private:
  const bool stream_;
};

// The field "anabranch", for values that the APIs have no field for: in an answer, or in a stream's last
// object.
Json extension(const AnswerHead& head, const Usage& usage);

// One server-sent event without a name.
std::string data_event(const Json& json);
// The last event of a stream, in OpenAI's APIs and those that follow them.
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// The "finish_reason": "length", "cancelled", "tool_calls" if the model stopped after making calls, or "stop"
// if it made none.
std::string_view finish_name(FinishReason finish, int calls);

}  // namespace anabranch::server
