#include "decode/answer_grammar.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/clock.h"

namespace anabranch {
namespace {

constexpr double kMostSeconds = 2;  // for one mask; the usual one takes microseconds

}  // namespace

AnswerGrammar::AnswerGrammar(std::shared_ptr<const CompiledGrammar> grammar, const ThinkTokens& tokens)
    : matcher_(std::move(grammar)), tokens_(tokens) {}

void AnswerGrammar::mask(std::span<float> logits, const ThinkControl& control) {
  if (control.thinking()) return;
  const double start = now_seconds();
  const auto words = matcher_.mask();
  const double seconds = now_seconds() - start;
  masks_++;
  seconds_ += seconds;
  if (seconds > kMostSeconds) throw std::runtime_error("the grammar takes seconds for one token");
  // What may come beside the grammar's own, where no answer has begun.
  std::vector<std::pair<int, float>> others;
  const auto keep = [&](int token) {
    if (static_cast<size_t>(token) < logits.size())
      others.emplace_back(token, logits[static_cast<size_t>(token)]);
  };
  if (control.answer_tokens() == 0 && tokens_.open) keep(*tokens_.open);
  if (!control.answering())
    for (const int token : tokens_.blanks) keep(token);
  bool any = false;
  for (size_t i = 0; i < logits.size(); i++) {
    const bool allowed = i / 32 < words.size() && (words[i / 32] >> (i % 32) & 1u);
    any |= allowed;
    if (!allowed) logits[i] = -std::numeric_limits<float>::infinity();
  }
  if (!any) throw std::runtime_error("no token continues the grammar");
  for (const auto& [token, logit] : others) logits[static_cast<size_t>(token)] = logit;
}

void AnswerGrammar::accept(int token) {
  const double start = now_seconds();
  if (!matcher_.accept(token)) throw std::runtime_error("a token does not continue the grammar");
  seconds_ += now_seconds() - start;
}

size_t AnswerGrammar::fitting(std::span<const int> draft, const ThinkControl& control) {
  if (!control.answering()) return draft.size();  // where the answer begins is not known yet
  const double start = now_seconds();
  const size_t count = matcher_.count_accepted(draft);
  seconds_ += now_seconds() - start;
  return count;
}

}  // namespace anabranch
