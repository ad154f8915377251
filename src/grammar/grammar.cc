#include "grammar/grammar.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>

#include "grammar/compiled_grammar.h"

namespace anabranch {
namespace {

DLTensor as_tensor(std::vector<uint32_t>& words, int64_t& shape) {
  DLTensor tensor{};
  tensor.data = words.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  shape = static_cast<int64_t>(words.size());
  tensor.shape = &shape;
  return tensor;
}

}  // namespace

struct GrammarMatcher::Impl {
  explicit Impl(std::shared_ptr<const CompiledGrammar> compiled)
      : grammar(std::move(compiled)),
        matcher(grammar->grammar),
        words(xgrammar::GetBitmaskSize(grammar->grammar.GetTokenizerInfo().GetVocabSize())) {}

  // Otherwise the library logs a warning for tokens without text.
  bool take(int token) {
    const auto info = grammar->grammar.GetTokenizerInfo();
    const auto& tokens = info.GetDecodedVocab();
    const auto& ends = matcher.GetStopTokenIds();
    if (token < 0 || static_cast<size_t>(token) >= tokens.size() || matcher.IsTerminated()) return false;
    if (tokens[static_cast<size_t>(token)].empty() &&
        std::find(ends.begin(), ends.end(), token) == ends.end())
      return false;
    return matcher.AcceptToken(token);
  }

  std::shared_ptr<const CompiledGrammar> grammar;
  xgrammar::GrammarMatcher matcher;
  std::vector<uint32_t> words;
  bool filled = false;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
    : impl_(std::make_unique<Impl>(std::move(grammar))) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;
GrammarMatcher::~GrammarMatcher() = default;

std::span<const uint32_t> GrammarMatcher::mask() {
  if (!impl_->filled) {
    if (impl_->matcher.IsTerminated()) {
      std::fill(impl_->words.begin(), impl_->words.end(), 0u);
    } else {
      int64_t shape;
      DLTensor tensor = as_tensor(impl_->words, shape);
      if (!impl_->matcher.FillNextTokenBitmask(&tensor))
        std::fill(impl_->words.begin(), impl_->words.end(), ~0u);
    }
    impl_->filled = true;
  }
  return impl_->words;
}

bool GrammarMatcher::allows(int token) {
  const auto words = mask();
  const size_t word = static_cast<size_t>(token) / 32;
  return token >= 0 && word < words.size() && (words[word] >> (token % 32) & 1u);
}

bool GrammarMatcher::accept(int token) {
  if (!impl_->take(token)) return false;
  impl_->filled = false;
  return true;
}

size_t GrammarMatcher::count_accepted(std::span<const int> tokens) {
  size_t count = 0;
  while (count < tokens.size() && impl_->take(tokens[count])) count++;
  if (count > 0) impl_->matcher.Rollback(static_cast<int>(count));
  return count;
}

bool GrammarMatcher::complete() const {
  return impl_->matcher.IsCompleted() || impl_->matcher.IsTerminated();
}

}  // namespace anabranch
