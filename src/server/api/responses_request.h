// Reads the JSON body of /v1/responses: a conversation of items becomes the messages of a chat request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "server/api/api_request.h"
#include "server/api/response_store.h"
#include "server/api/responses_tools.h"
#include "server/api/sealed_text.h"

namespace anabranch::server {

// What requests refer to, and where answers are kept. Thread-safe, as its parts are.
struct ResponseContext {
  explicit ResponseContext(const std::string& key_file) : sealer(key_file) {}
  ResponseStore store;
  Sealer sealer;
};

struct ResponsesRequest {
  ChatRequest chat;
  ResponseTools tools;
  Json echo;          // the fields of the request that the answer repeats
  Json input_items;   // each with an id
  Json conversation;  // the messages without "instructions": what a later request goes on from
  bool store = true;
  bool sealed_thoughts = false;  // the client asks for reasoning.encrypted_content
  bool shorten = false;          // "truncation": "auto"
};

std::variant<ResponsesRequest, ApiError> parse_responses_request(std::string_view body,
                                                                 const RequestDefaults& defaults,
                                                                 ResponseContext& context);

// The messages without the oldest turns, the instructions at the beginning kept: from the turn-th user
// message on (from 0). Null if there is no such message.
Json from_turn(const Json& messages, size_t turn);

}  // namespace anabranch::server
