// Parses a request's body, has it prepared for the engine by chat/preparer.h, and makes the writer of the
// answer.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "chat/preparer.h"
#include "server/api/answer_writer.h"
#include "server/api/common_fields.h"
#include "server/api/conversation_keeper.h"
#include "server/api/embedding_request.h"

namespace anabranch::server {

struct PlannedCompaction;
struct ResponseContext;

struct ReadyRequest {
  Prepared prepared;
  std::shared_ptr<AnswerWriter> writer;
  std::vector<std::string> echo = {};  // the text that answers to each prompt begin with; empty: none
  // Stores the request's messages (`added`) and the answer's; null: nothing is stored.
  std::shared_ptr<ConversationKeeper> keeper = {};
  std::vector<NewMessage> added = {};
  // For an answer that calls the tools of MCP servers; otherwise null. If it has calls waiting, `prepared` is
  // empty.
  std::shared_ptr<AgentRun> agent = {};
  // The model first summarizes the conversation (responses/compaction.h); null: it does not. `prepared` is
  // empty, except for think_report.
  std::shared_ptr<PlannedCompaction> compaction = {};
};
// The result of reading a body: work for the engine, embeddings, or an answer without the engine (a count).
using PreparedRequest = std::variant<ReadyRequest, EmbeddingRequest, HttpResponse>;
// The arguments of prepare() besides the body. cancelled: see Preparer.
struct PrepareContext {
  const Engine& engine;
  const RequestDefaults& defaults;
  Preparer& preparer;
  const std::shared_ptr<ResponseContext>& responses;
  const std::shared_ptr<mcp::Servers>& servers;  // of tools; null: none
  const std::function<bool()>& cancelled;
  const mcp::AgentLimits& agent_limits;
  const std::string& model;  // its name
  const std::string& owner;  // name of the request's key; empty: none
  bool may_use_tools;        // of MCP servers: the key has the role
  // Sets for how many seconds the model stays loaded after this request (negative: for ever), if no other
  // comes.
  const std::function<void(double seconds)>& keep_model;
};
ApiResult<PreparedRequest> prepare(AnswerKind kind, std::string_view body, const PrepareContext& context);

// The response for an error before the answer has begun, in the format of the API.
HttpResponse error_response_for(AnswerKind kind, const ApiError& error);

}  // namespace anabranch::server
