#include "decode/think_control.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace anabranch {
namespace {

bool contains(const std::vector<int>& sorted, int token) {
  return std::binary_search(sorted.begin(), sorted.end(), token);
}

ThoughtTracker tracker(const ThinkTokens& tokens, const ThinkRules& rules) {
  using Begin = ThoughtTracker::Begin;
  const Begin begin = rules.open                              ? Begin::thought
                      : rules.answer_begun || rules.in_answer ? Begin::answer
                                                              : Begin::turn;
  if (tokens.messages) return {*tokens.messages, *tokens.close, begin, rules.headers_answer};
  return {tokens.open, tokens.close, begin, rules.blanks_before};
}

}  // namespace

const char* name_of(ThinkCut cut) {
  switch (cut) {
    case ThinkCut::none:
      return "none";
    case ThinkCut::budget:
      return "thinking_budget";
    case ThinkCut::loop:
      return "thinking_loop";
    case ThinkCut::end_of_turn:
      return "end_of_turn_in_thought";
    case ThinkCut::tool_call:
      return "tool_call_in_thought";
    case ThinkCut::answer_fence:
      return "answer_in_thought";
    case ThinkCut::answer_loop:
      return "answer_loop";
  }
  return "";
}

ThinkControl::ThinkControl(const ThinkTokens& tokens, ThinkRules rules)
    : tokens_(tokens),
      rules_(std::move(rules)),
      thought_loops_(rules_.loops == LoopRule::near ? kThinkingNearLoops : kThinkingLoops, tokens.traits),
      answer_loops_(kAnswerLoops, tokens.traits),
      thought_(tracker(tokens, rules_)) {
  CHECK(!rules_.open || tokens_.close, "a thought was opened for a model without tags");
  CHECK(!tokens_.close || std::count(rules_.closing.begin(), rules_.closing.end(), *tokens_.close) == 1,
        "the text that closes a thought needs the closing tag, once");
  if (rules_.watch && thinking() && rules_.budget <= 0) close(ThinkCut::budget);
}

std::span<const int> ThinkControl::forced() const {
  return std::span<const int>(forced_).subspan(next_forced_);
}

bool ThinkControl::allows(int token) const {
  if (!rules_.watch || !forced().empty()) return true;
  if (!rules_.may_call && contains(rules_.calls, token)) return false;
  if (thinking()) return true;
  // With closings, a thought that is opened has room for the tag and one more token.
  if (thought_.opens(token)) return used() + rules_.count_closings < rules_.budget;
  if (!answering() && thinking_tokens_ >= rules_.most && contains(tokens_.blanks, token)) return false;
  return thinking_tokens_ == 0 || answer_begun() || !contains(tokens_.ends, token);
}

void ThinkControl::close(ThinkCut why) {
  cut_ = why;
  forced_ = rules_.closing;
  next_forced_ = 0;
  if (!answer_begun()) forced_.insert(forced_.end(), rules_.escape.begin(), rules_.escape.end());
}

int ThinkControl::decide(int drawn) {
  if (!forced().empty()) return forced().front();
  if (!thinking() || !rules_.watch) return drawn;
  if (contains(tokens_.ends, drawn)) {
    if (!answer_begun()) close(ThinkCut::end_of_turn);
  } else if (contains(rules_.calls, drawn)) {
    close(ThinkCut::tool_call);
    forced_ = rules_.closing;
    forced_.push_back(drawn);
  }
  return forced().empty() ? drawn : forced().front();
}

bool ThinkControl::ends_with_fence(int token) {
  if (rules_.fence.empty() || answer_begun()) return false;
  if (rules_.fence[fence_tokens_] != token) fence_tokens_ = 0;
  if (rules_.fence[fence_tokens_] == token) fence_tokens_++;
  if (fence_tokens_ < rules_.fence.size()) return false;
  fence_tokens_ = 0;
  return true;
}

Ending ThinkControl::accept(int token, Ending before) {
  follow(token);
  return cut_ == ThinkCut::answer_loop ? Ending::stop : before;
}

void ThinkControl::follow(int token) {
  const bool was_forced = !forced().empty();
  if (was_forced) next_forced_++;
  const bool was_thinking = thinking();
  const bool thought = thought_.accept(token, contains(tokens_.blanks, token));
  if (thought_.before())
    before_++;
  else
    (thought ? thinking_tokens_ : answer_tokens_)++;
  if (thinking() && !was_thinking) {
    thinking_tokens_ += std::exchange(before_, 0);
    chosen_++;
    thought_loops_.reset();
    fence_tokens_ = 0;
  }
  if (!was_forced && was_thinking && !thinking() && !rules_.next.empty()) {
    forced_ = rules_.next;
    next_forced_ = token == forced_.front() ? 1 : 0;  // the model began the next message itself
  }
  if (!rules_.watch || was_forced || was_thinking != thinking()) return;
  const bool loop = rules_.loops != LoopRule::none &&
                    (thinking() ? thought_loops_ : answer_loops_).push(token).kind != Repetition::Kind::none;
  if (!thinking()) {
    if (loop) cut_ = ThinkCut::answer_loop;
    return;
  }
  chosen_++;
  if (ends_with_fence(token)) {
    rules_.escape = rules_.fence;
    rules_.escape.insert(rules_.escape.end(), rules_.fence_end.begin(), rules_.fence_end.end());
    close(ThinkCut::answer_fence);
  } else if (loop || used() >= rules_.budget) {
    close(loop ? ThinkCut::loop : ThinkCut::budget);
  }
}

}  // namespace anabranch
