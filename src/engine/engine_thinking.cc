#include <algorithm>

#include "base/white_space.h"
#include "engine/engine_impl.h"
#include "output/output_format.h"

namespace anabranch {

void EngineImpl::describe_thoughts() {
  const auto& tokenizer = *loaded_.tokenizer;
  const auto format = text::find_output_format(loaded_.chat_template.get(), tokenizer);
  for (int id = 0; id < tokenizer.vocab_size(); id++) {
    const auto bytes = tokenizer.token_bytes(id);
    token_traits_.push_back(token_traits(bytes));
    if (!bytes.empty() && text::is_blank(bytes)) think_tokens_.blanks.push_back(id);
  }
  think_tokens_.ends = loaded_.eos;
  think_tokens_.traits = token_traits_;
  for (const auto opener : text::call_openers(format.tools))
    if (const auto id = tokenizer.find(opener)) call_tokens_.push_back(*id);
  std::sort(call_tokens_.begin(), call_tokens_.end());
  if (!format.reasoning) return;
  const auto& tags = *format.reasoning;
  const auto open = tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token);
  const auto close = tokenizer.find(tags.close);
  if (!open || !close) return;
  think_tokens_.open = open;
  think_tokens_.close = close;
}

// What grammars are made of.
void EngineImpl::describe_vocabulary() {
  const auto& tokenizer = *loaded_.tokenizer;
  GrammarVocab vocab{std::vector<std::string>(static_cast<size_t>(loaded_.model->spec().vocab)), loaded_.eos};
  const int known = std::min(tokenizer.vocab_size(), loaded_.model->spec().vocab);
  for (int id = 0; id < known; id++)
    if (!tokenizer.is_special(id)) vocab.tokens[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  // A byte that no text has: only Token(id) in a grammar means these.
  for (const int mark :
       text::mark_tokens(text::find_output_format(loaded_.chat_template.get(), tokenizer), tokenizer))
    if (mark < known)
      vocab.tokens[static_cast<size_t>(mark)] = "\xff" + std::string(tokenizer.token_bytes(mark));
  grammars_ = std::make_unique<GrammarCompiler>(std::move(vocab), GrammarLimits{.seconds = 10});
}

Result<void> EngineImpl::check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                                         std::span<const int> tokens) const {
  AnswerGrammar answer(std::move(grammar), think_tokens_);
  size_t fits = 0;
  try {
    for (; fits < tokens.size(); fits++) answer.accept(tokens[fits]);
  } catch (const std::exception& e) {
    return make_error(ErrorKind::invalid, "no answer can begin like the text so far: after \"{}\", {}",
                      tokenizer().decode(tokens.first(fits), false), e.what());
  }
  return {};
}

// What a thought that is cut ends with, where the request does not say.
constexpr const char* kClosing = "\n\nThat is enough thought. I will give the answer now.\n";

ThinkRules EngineImpl::think_rules(const Request& request) const {
  const ThinkingOptions& wanted = request.thinking;
  ThinkRules rules;
  rules.open = request.output.thinking_open && think_tokens_.close;
  rules.answer_begun = request.begun > 0;
  rules.watch = !request.ignore_eos;
  rules.loops = wanted.loops;
  if (wanted.calls != CallPolicy::text) rules.calls = call_tokens_;
  rules.may_call = wanted.calls != CallPolicy::none;
  if (request.grammar) {  // it says whether a call may begin the answer
    AnswerGrammar grammar(request.grammar, think_tokens_);
    std::erase_if(rules.calls, [&](int token) { return !grammar.may_begin(token); });
  }
  if (!think_tokens_.close) return rules;
  const auto& tokenizer = *loaded_.tokenizer;
  rules.closing = tokenizer.encode(wanted.closing.empty() ? kClosing : wanted.closing, false);
  rules.closing.push_back(*think_tokens_.close);
  for (const int token : tokenizer.encode("\n\n", false)) rules.closing.push_back(token);
  if (!request.grammar) {
    rules.escape = tokenizer.encode(wanted.answer_start, false);
    rules.fence = tokenizer.encode(wanted.answer_fence, false);
    if (!rules.fence.empty()) rules.fence_end = tokenizer.encode("\n", false);
  }
  // What the context has left is the answer's first: as much as it may take, up to a quarter.
  const int room = info().context_length - static_cast<int>(request.prompt.size());
  const int answer = std::min(request.max_tokens, room / 4);
  const int left = room - answer - static_cast<int>(rules.closing.size() + rules.escape.size());
  rules.budget = std::clamp(left, 0, std::max(0, wanted.budget.value_or(kDefaultThinkingBudget)));
  return rules;
}

}  // namespace anabranch
