// The model, and the tools it calls, until it answers.
#pragma once

#include <atomic>

#include "cli/partner.h"
#include "cli/tool_desk.h"

namespace anabranch::cli {

// Answers the last of `messages` and appends what was said to them: the assistant's message, and before it
// those with calls and the tools' results. desk: null for no tools. On an error nothing is appended that the
// conversation could not go on from. wanted: of each answer; its tools are the desk's. The last answer of the
// model.
Result<Answer> answer_with_tools(Partner& partner, ToolDesk* desk, Json& messages, AnswerOptions wanted,
                                 const std::atomic<bool>& interrupt);

}  // namespace anabranch::cli
