#include "decode/answer_grammar.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/clock.h"

namespace anabranch {
namespace {

// The processor time that a request may use in its grammar: kOnce, plus kForMask per mask. A usual mask takes
// microseconds. The limit exists because all streams of the step wait for it.
constexpr double kOnce = 1, kForMask = 0.002;  // seconds

}  // namespace

AnswerGrammar::AnswerGrammar(std::shared_ptr<const CompiledGrammar> grammar, const ThinkTokens& tokens,
                             const ThinkControl& control)
    : matcher_(std::move(grammar)), tokens_(tokens), control_(control) {}

template <class Work>
auto AnswerGrammar::timed(Work work) {
  const double start = thread_seconds();
  auto out = work();
  seconds_ += thread_seconds() - start;
  if (seconds_ > kOnce + kForMask * masks_)
    throw std::runtime_error(fmt::format(
        "the grammar takes too long to follow: {:.1f} s for {} tokens; make it simpler", seconds_, masks_));
  return out;
}

bool AnswerGrammar::may_begin(int token) {
  return timed([&] { return matcher_.allows(token); });
}

void AnswerGrammar::mask(std::span<float> logits) {
  if (control_.thinking()) return;
  masks_++;
  const auto words = timed([&] { return matcher_.mask(); });
  // Tokens that are allowed in addition to the grammar's, before the answer begins.
  std::vector<std::pair<int, float>> others;
  const auto keep = [&](int token) {
    if (static_cast<size_t>(token) < logits.size())
      others.emplace_back(token, logits[static_cast<size_t>(token)]);
  };
  if (!control_.answer_begun() && tokens_.open) keep(*tokens_.open);
  if (!control_.answering())
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

Ending AnswerGrammar::accept(int token, Ending before) {
  if (control_.answer_tokens() > answered_) {
    answered_ = control_.answer_tokens();
    follow(token);
  }
  return before == Ending::stop && !complete() ? Ending::length : before;
}

void AnswerGrammar::follow(int token) {
  if (!timed([&] { return matcher_.accept(token); }))
    throw std::runtime_error("a token does not continue the grammar");
}

size_t AnswerGrammar::fitting(std::span<const int> draft) {
  if (!control_.answering()) return draft.size();  // where the answer begins is not known yet
  return timed([&] { return matcher_.count_accepted(draft); });
}

}  // namespace anabranch
