// Decides whether a chat thinks, if the client leaves the choice to the server.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

struct ThinkDecision {
  bool think = true;
  std::string reason;  // for logs and reports
};

// The first rule that applies decides:
//  1. Needle: a short question that looks something up in a long prompt. Think: small models find the place
//     by quoting it first. The long text may be in the message itself, the system prompt or earlier turns.
//  2. Greetings and thanks, one operation of the times table, and short questions for a capital or for the
//     author of something (who wrote, painted, composed or invented it). Do not think.
//  3. Everything else. Think: a needless thought costs tokens, a missing one may cost the answer.
// user: the last user message. prompt_tokens: the length of the whole prompt, with system prompt, tools and
// earlier turns.
ThinkDecision when_to_think(std::string_view user, int prompt_tokens);

}  // namespace anabranch
