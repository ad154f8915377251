#include "cli/agent_loop.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/print.h"

namespace anabranch::cli {
namespace {

// ids: the calls' ids, in order.
Json assistant_message(const Answer& answer, const std::vector<std::string>& ids) {
  Json message = {{"role", "assistant"}, {"content", answer.text}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (size_t i = 0; i < answer.calls.size(); i++)
    message["tool_calls"].push_back(
        {{"id", ids[i]},
         {"type", "function"},
         {"function", {{"name", answer.calls[i].name}, {"arguments", answer.calls[i].arguments}}}});
  return message;
}

std::string text_of(const ToolCall& call) {
  return call.name + " " + call.arguments;
}

// Runs the calls of an answer. Each gets a message, also those that did not run because of the limits or
// Ctrl-C. failed: calls that failed before; gets these calls' outcomes, too.
void run_calls(ToolDesk& desk, const Answer& answer, const std::vector<std::string>& ids,
               mcp::AgentBudget& budget, Json& messages, mcp::FailedCalls& failed,
               const std::atomic<bool>& interrupt) {
  for (size_t i = 0; i < answer.calls.size(); i++) {
    const auto limit = budget.exceeded(now_seconds());
    std::string text = interrupt ? "Error: the user stopped this" : limit ? "Error: not run: " + *limit : "";
    if (text.empty()) {
      auto outcome = desk.run(answer.calls[i], budget);
      text = std::move(outcome.text);
      failed.add(text_of(answer.calls[i]), outcome.failed);
    }
    messages.push_back({{"role", "tool"}, {"tool_call_id", ids[i]}, {"content", text}});
  }
}

// Whether the model only repeats calls that have failed. It would go on until it reaches a limit.
bool only_repeats(const Answer& answer, const mcp::FailedCalls& failed) {
  return std::ranges::all_of(answer.calls,
                             [&](const ToolCall& call) { return failed.contains(text_of(call)); });
}

}  // namespace

Result<Answer> answer_with_tools(Partner& partner, ToolDesk* desk, Json& messages, AnswerOptions wanted,
                                 const std::atomic<bool>& interrupt) {
  mcp::AgentBudget budget(desk ? desk->limits() : mcp::AgentLimits{}, now_seconds());
  size_t calls = messages.size();  // ids are unique within the conversation
  mcp::FailedCalls failed;
  for (bool last = false;;) {
    wanted.may_call = !last;  // the tools may stay in the prompt, so that the cached states fit
    if (desk && !last) {
      desk->refresh();
      wanted.tools = desk->functions();
    }
    TRY(Answer answer, partner.answer(messages, wanted, interrupt));
    if (last) answer.calls.clear();  // of a server that does not know that none may be called
    budget.add_step(answer.usage.completion_tokens);
    std::vector<std::string> ids;
    for (size_t i = 0; i < answer.calls.size(); i++) ids.push_back(fmt::format("call_{}", ++calls));
    messages.push_back(assistant_message(answer, ids));
    if (!desk || last || answer.calls.empty()) return answer;
    last = only_repeats(answer, failed);
    if (last) say(stderr, "the model repeats calls that failed: it answers without tools now\n");
    run_calls(*desk, answer, ids, budget, messages, failed, interrupt);
    if (interrupt) return answer;
    if (const auto limit = budget.exceeded(now_seconds())) {
      say(stderr, "stopped: {}\n", *limit);
      return answer;
    }
  }
}

}  // namespace anabranch::cli
