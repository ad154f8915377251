// Where a chat prompt is likely to part from the next ones, so that what a model made of its beginning is
// worth keeping up to there.
#pragma once

#include <span>
#include <vector>

#include "text/chat_template.h"

namespace anabranch::text {

// prompt: the tokens that `messages` and `tools` render to. Lengths of its beginnings, ascending: up to the
// first message that is not the system's (other conversations share that much), and up to where the answer's
// opening begins (the next turn repeats that much, however the answer is rendered then: templates drop old
// reasoning). Fewer when the template cannot be rendered without what comes after.
std::vector<int> stable_lengths(const ChatTemplate& chat, const Tokenizer& tokenizer, const Json& messages,
                                const Json& tools, const ChatOptions& options, std::span<const int> prompt);

}  // namespace anabranch::text
