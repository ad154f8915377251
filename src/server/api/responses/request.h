// Reads the JSON body of /v1/responses: a conversation of items becomes the messages of a chat request.
#pragma once

#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/common_fields.h"
#include "server/api/conversation_keeper.h"
#include "server/api/responses/tools.h"
#include "server/api/sealed_text.h"
#include "server/api/session_stores.h"

namespace anabranch::server {

// The objects that requests refer to, and the stores of answers. Thread-safe, because its parts are.
struct ResponseContext {
  ResponseContext(std::shared_ptr<SessionStores> sessions, std::shared_ptr<mcp::Servers> mcp_servers,
                  const std::string& key_file, std::shared_ptr<ConsentStore> consents = nullptr)
      : stores(std::move(sessions)),
        servers(std::move(mcp_servers)),
        sealer(key_file),
        consent(consents ? std::move(consents) : ConsentStore::open("").value()) {}
  const std::shared_ptr<SessionStores> stores;
  const std::shared_ptr<mcp::Servers> servers;  // of tools; null: none
  Sealer sealer;
  const std::shared_ptr<ConsentStore> consent;
};

struct ResponsesRequest {
  ChatRequest chat;
  ResponseTools tools;
  Json echo;         // the fields of the request that the answer repeats
  Json input_items;  // each with an id
  // Stores the conversation; null: nothing is to be stored. `added`: the messages that this request adds.
  std::shared_ptr<ConversationKeeper> keeper;
  std::vector<NewMessage> added;
  std::vector<AgentCall> approved;  // calls of the last answer, to be run before the model continues
  int max_tool_calls = INT_MAX;     // limit of calls that this server runs
  bool begins = true;               // the conversation has no answer yet
  std::string conversation;         // the session that the request names; empty: none
  bool store = true;                // the response can be referred to later
  bool sealed_thoughts = false;     // the client asks for reasoning.encrypted_content
  bool shorten = false;             // "truncation": "auto"
  // From this number of tokens of its prompt on, and if the prompt does not fit, the conversation is
  // compacted first; none: never ("context_management").
  std::optional<int> compact_above;
  // If it is set: the user's messages of the stored conversation, before any is left out.
  Json earlier_users = Json::array();
  std::string owner;  // name of the request's key; empty: none
};

// owner: the name of the request's key, which sees only its own conversations. To be called on workers: reads
// conversations, and asks MCP servers for their tools. cancelled: whether nobody waits for it any more.
// may_use_tools: if false, a request that names an MCP server fails.
ApiResult<ResponsesRequest> parse_responses_request(std::string_view body, const RequestDefaults& defaults,
                                                    ResponseContext& context, const std::string& owner,
                                                    const mcp::Cancelled& cancelled,
                                                    bool may_use_tools = true);

// Converts a list of items to messages. where: the field with the items. Fails for items that cannot be read,
// and for approvals of calls, which only a request for an answer can have.
// owner: see parse_responses_request().
Json messages_of_items(JsonFields& fields, const char* where, const Json& items, ResponseContext& context,
                       const std::string& owner);

}  // namespace anabranch::server
