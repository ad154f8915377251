// Conversations as plain values. A session is a tree of messages: an edited or repeated message is a sibling
// of the first one, below the same parent. The session's `head` is the leaf of the branch that is continued.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace anabranch {

using MessageId = int64_t;  // ascending within a store: a message's id is larger than its parent's
inline constexpr MessageId kNoMessage = 0;  // as parent: at the root; as head: the session is empty

struct NewMessage {
  Json message;                 // as in chat requests: "role", "content" (text), "reasoning_content",
                                // "tool_calls", "tool_call_id"; "images": [{"at", "url", "detail"}], each
                                // with the number of the text's bytes before it and a data URL
  Json about = Json::object();  // what is known besides: "model", "usage", "seconds", "status", ...
};

struct SessionMessage {
  MessageId id = kNoMessage, parent = kNoMessage;
  Json message, about;              // see NewMessage
  int64_t created_at = 0;           // Unix seconds
  std::vector<MessageId> siblings;  // all messages with this parent, itself among them, ascending
};

struct SessionPage {
  std::vector<SessionMessage> messages;  // each one is the parent of the next
  bool more = false;                     // there are earlier messages above them
};

// A piece of a message's text around a match of a search.
struct SnippetPart {
  std::string text;
  bool match = false;
};

struct Session {
  std::string id;     // "conv_" and 24 hexadecimal digits
  std::string owner;  // name of the API key that created it; empty: none
  std::string title;
  std::string model;  // the model that answered last
  Json settings = Json::object();
  Json metadata = Json::object();
  int64_t created_at = 0, updated_at = 0;  // Unix seconds
  MessageId head = kNoMessage;
  int64_t messages = 0;              // in all branches
  int64_t bytes = 0;                 // of text and JSON
  std::vector<SnippetPart> snippet;  // in results of a search; otherwise empty
};

// Selects the sessions of an API key, by its name; unset: everybody's.
using Owner = std::optional<std::string>;

struct SessionQuery {
  Owner owner;
  int limit = 50;
  std::string after;      // a session's id: list the sessions after it; empty: from the start
  std::string text;       // words in a message, or a part of the title; empty: all sessions
  bool unlisted = false;  // also sessions that clients did not create themselves (NewSession::listed)
};

struct SessionList {
  std::vector<Session> sessions;  // the last changed first; in a search: titles first, then by newest match
  bool more = false;              // the list continues
};

struct NewSession {
  std::string owner;
  std::string title;  // empty: made from the first user message
  Json settings = Json::object(), metadata = Json::object();
  // False: created because a response was stored (the Responses API's "store").
  bool listed = true;
  std::vector<NewMessage> messages;  // each one is the parent of the next
};

// Unset fields stay unchanged.
struct SessionChange {
  std::optional<std::string> title;
  std::optional<Json> settings, metadata;
  // Continues the branch with this message: the head becomes the newest leaf below it.
  std::optional<MessageId> head;
};

// An answer of the Responses API to which later requests may refer.
struct StoredResponse {
  std::string id;
  std::string session;
  MessageId message = kNoMessage;  // the last message of its conversation
  Json response;                   // as it was sent
  Json input_items;                // of its request; each has an id
};

struct Retention {
  double days = 0;     // since the last change; 0: unlimited
  uint64_t bytes = 0;  // for each owner; the sessions changed longest ago are removed first; 0: no limit
};

}  // namespace anabranch
