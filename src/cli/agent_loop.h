// The agent loop: the model and the tools that it calls, until it answers.
#pragma once

#include <atomic>

#include "cli/partner.h"
#include "cli/tool_desk.h"

namespace anabranch::cli {

// Answers the last of `messages`. Appends the messages with calls, the tools' results and the assistant's
// final message. After an error, the messages still form a conversation that can be continued. desk: null for
// no tools. wanted: options for each answer; its tools are replaced by the desk's. Returns the model's last
// answer.
Result<Answer> answer_with_tools(Partner& partner, ToolDesk* desk, Json& messages, AnswerOptions wanted,
                                 const std::atomic<bool>& interrupt);

}  // namespace anabranch::cli
