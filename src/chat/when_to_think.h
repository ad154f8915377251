// Whether a request is worth a thought, where the client leaves the choice to the server.
#pragma once

#include <string>
#include <string_view>

namespace anabranch::text {

struct ThinkQuestion {
  std::string_view user;  // the last user message
  int prompt_tokens = 0;  // of the whole prompt, with what the system, tools and earlier turns brought
};
struct ThinkChoice {
  bool think = true;
  std::string reason;  // for logs and reports
};

// Only for a client that did not choose. In this order:
//  1. A short question that looks something up, in a long prompt: think. Small models find a needle by first
//     quoting the place it stands. Where the long text is, with the system or in the message itself, is all
//     one.
//  2. Greetings and thanks, a times-table sum, and a short question of a few kinds for one plain fact (the
//     capital of a place, who wrote or invented something, who or where somebody or something with a name is,
//     how old it is, when it was built or born): do not think. "What is" alone says nothing.
//  3. Everything else: think. A needless thought costs tokens, a missing one the answer.
ThinkChoice when_to_think(const ThinkQuestion& question);

}  // namespace anabranch::text
