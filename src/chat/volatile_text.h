// Text in system prompts that clients change from call to call (dates, attribution headers). A prompt with
// such text no longer matches the cached states behind it.
#pragma once

#include <span>
#include <vector>

#include "base/json.h"
#include "tokenizer/regex.h"

namespace anabranch {

struct VolatileRule {
  Regex pattern;
  bool drop = false;  // leave the text out; otherwise it moves after the last user message
};

// Text that known clients put into system prompts, that changes with each request and carries no information
// for the model: Claude Code's "x-anthropic-billing-header: cc_version=...; cch=...;".
std::vector<VolatileRule> known_volatile_text();

// Applies the rules, in order, to the text of system and developer messages. messages: as sent by clients,
// any JSON. Without a user message, text that would move stays where it is.
void split_volatile_text(Json& messages, std::span<const VolatileRule> rules);

}  // namespace anabranch
