// Conversations as plain values. A session is a tree of messages: an edited or repeated message stands beside
// the first one, below the same parent. The session's `head` is the leaf of the branch that goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace anabranch {

using MessageId = int64_t;                  // ascending in a store: a message's is above its parent's
inline constexpr MessageId kNoMessage = 0;  // as parent: at the root; as head: the session is empty

struct NewMessage {
  Json message;                 // as in chat requests: "role", "content" (text), "reasoning_content",
                                // "tool_calls", "tool_call_id"; "images": [{"at", "url", "detail"}], each
                                // with the number of the text's bytes before it and a data URL
  Json about = Json::object();  // what is known besides: "model", "usage", "seconds", "status", ...
};

struct SessionMessage {
  MessageId id = kNoMessage, parent = kNoMessage;
  Json message, about;              // as of NewMessage
  int64_t created_at = 0;           // Unix seconds
  std::vector<MessageId> siblings;  // all messages with this parent, itself among them, ascending
};

struct SessionPage {
  std::vector<SessionMessage> messages;  // one below the other
  bool more = false;                     // there are others above them
};

// A piece of a message in which a search found its words.
struct SnippetPart {
  std::string text;
  bool match = false;
};

struct Session {
  std::string id;     // "conv_" and 24 hexadecimal digits
  std::string owner;  // name of the API key whose requests made it; empty: none
  std::string title;
  std::string model;  // that answered last
  Json settings = Json::object();
  Json metadata = Json::object();
  int64_t created_at = 0, updated_at = 0;  // Unix seconds
  MessageId head = kNoMessage;
  int64_t messages = 0;              // of all branches
  int64_t bytes = 0;                 // of text and JSON
  std::vector<SnippetPart> snippet;  // of a search; else empty
};

// Whose sessions are meant: those of an API key's name, or everybody's.
using Owner = std::optional<std::string>;

struct SessionQuery {
  Owner owner;
  int limit = 50;
  std::string after;      // a session's id: those behind it in the list; empty: from the start
  std::string text;       // words that a message has, or a part of the title; empty: all sessions
  bool unlisted = false;  // also those that no client made by name (NewSession::listed)
};

struct SessionList {
  std::vector<Session> sessions;  // the last changed first; of a search: by title, then by the newest match
  bool more = false;              // there are further ones
};

struct NewSession {
  std::string owner;
  std::string title;  // empty: made of the first message of a user
  Json settings = Json::object(), metadata = Json::object();
  // False: it came about because a response was stored (the Responses API's "store").
  bool listed = true;
  std::vector<NewMessage> messages;  // one below the other
};

// What is absent stays as it is.
struct SessionChange {
  std::optional<std::string> title;
  std::optional<Json> settings, metadata;
  // The branch that this message is on goes on from now on: the head becomes the newest leaf below it.
  std::optional<MessageId> head;
};

// An answer of the Responses API that requests may refer to.
struct StoredResponse {
  std::string id;
  std::string session;
  MessageId message = kNoMessage;  // the last one of its conversation
  Json response;                   // as it was sent
  Json input_items;                // of its request, each with an id
};

struct Retention {
  double days = 0;     // since the last change; 0: for ever
  uint64_t bytes = 0;  // of each owner's; the ones that were changed longest ago go first; 0: no limit
};

}  // namespace anabranch
