// Text that clients put into system prompts and that changes from call to call (dates, attribution headers):
// where it stands, it parts each prompt from what is kept of the last one.
#pragma once

#include <span>
#include <vector>

#include "base/json.h"
#include "tokenizer/regex.h"

namespace anabranch {

struct VolatileRule {
  Regex pattern;
  bool drop = false;  // leave the text out; otherwise it moves behind the last user message
};

// Text that known clients put into system prompts, that changes with each request and tells the model
// nothing: Claude Code's "x-anthropic-billing-header: cc_version=...; cch=...;".
std::vector<VolatileRule> known_volatile_text();

// Applies the rules, in their order, to the text of system and developer messages. messages: as clients send
// them, any JSON. Without a user message, text that would move stays where it is.
void split_volatile_text(Json& messages, std::span<const VolatileRule> rules);

}  // namespace anabranch
