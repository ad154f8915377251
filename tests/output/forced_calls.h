// A vocabulary of bytes and marks, and the grammar of calls in it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "output/tool_grammar.h"

namespace anabranch {

inline constexpr int kEnd = 256;

// Tokens are bytes, but for the end of a turn and marks from 257 on.
class MarkTokenizer final : public Tokenizer {
 public:
  explicit MarkTokenizer(std::vector<std::string> marks) : marks_(std::move(marks)) {
    for (int i = 0; i < 256; i++) bytes_[i] = static_cast<char>(i);
  }
  std::vector<int> encode(std::string_view text, bool, EncodeLimit* = nullptr) const override {
    std::vector<int> ids;
    while (!text.empty()) {
      size_t size = 1;
      int id = static_cast<unsigned char>(text[0]);
      for (size_t i = 0; i < marks_.size(); i++)
        if (text.substr(0, marks_[i].size()) == marks_[i])
          id = kEnd + 1 + static_cast<int>(i), size = marks_[i].size();
      ids.push_back(id);
      text.remove_prefix(size);
    }
    return ids;
  }
  std::vector<int> encode(std::span<const PromptPiece>, SegmentMemo*, std::string_view,
                          EncodeLimit* = nullptr) const override {
    return {};
  }
  std::string_view token_bytes(int id) const override {
    if (id < kEnd) return {&bytes_[id], 1};
    return id == kEnd ? "" : std::string_view(marks_[static_cast<size_t>(id - kEnd - 1)]);
  }
  bool is_special(int id) const override { return id >= kEnd; }
  std::optional<int> find(std::string_view content) const override {
    for (size_t i = 0; i < marks_.size(); i++)
      if (marks_[i] == content) return kEnd + 1 + static_cast<int>(i);
    return std::nullopt;
  }
  int vocab_size() const override { return kEnd + 1 + static_cast<int>(marks_.size()); }
  std::optional<int> bos() const override { return std::nullopt; }
  std::optional<int> eos() const override { return kEnd; }
  bool add_bos() const override { return false; }
  std::string decode(std::span<const int>, bool) const override { return ""; }

 private:
  char bytes_[256];
  std::vector<std::string> marks_;
};

inline const Json kTools = parse_json(R"([
  {"type": "function", "function": {"name": "add", "strict": true, "parameters": {"type": "object",
    "properties": {"n": {"type": "integer"}, "unit": {"enum": ["m", "km"]}}, "required": ["n"]}}},
  {"type": "function", "function": {"name": "note", "parameters": {"type": "object",
    "properties": {"text": {"type": "string", "maxLength": 3}}, "required": ["text"]}}}])")
                               .value();

// A model's way to write calls, and the grammar of some.
class Calls {
 public:
  Calls(OutputFormat format, std::vector<std::string> marks, const Json& tools = kTools)
      : format_(format), tokenizer_(std::move(marks)), tools_(tools) {
    std::vector<std::string> tokens(static_cast<size_t>(tokenizer_.vocab_size()));
    for (int id = 0; id < kEnd; id++) tokens[static_cast<size_t>(id)] = tokenizer_.token_bytes(id);
    for (const int id : mark_tokens(format_, tokenizer_))
      tokens[static_cast<size_t>(id)] = "\xff" + std::string(tokenizer_.token_bytes(id));
    compiler_ = std::make_unique<GrammarCompiler>(GrammarVocab{tokens, {kEnd}});
  }
  void force(const CallWishes& wishes) { force(wishes, tools_); }
  void force(const CallWishes& wishes, const Json& tools) {
    GrammarRules rules;
    compile(rules, add_calls(format_, tokenizer_, tools, wishes, rules));
  }
  void offer() {
    GrammarRules rules;
    compile(rules, add_free_text_with_calls(format_, tokenizer_, tools_, rules));
  }
  // Whether the turn may be exactly this.
  bool take(std::string_view answer) const {
    GrammarMatcher matcher(grammar_);
    for (const int token : tokenizer_.encode(answer, true))
      if (!matcher.accept(token)) return false;
    return matcher.complete();
  }

 private:
  void compile(const GrammarRules& rules, const Result<std::string>& calls) {
    ASSERT_TRUE(calls.ok()) << calls.error().message;
    const auto compiled = compiler_->compile(rules.text(*calls));
    ASSERT_TRUE(compiled.ok()) << compiled.error().message << rules.text(*calls);
    grammar_ = *compiled;
  }

  OutputFormat format_;
  MarkTokenizer tokenizer_;
  const Json tools_;
  std::unique_ptr<GrammarCompiler> compiler_;
  std::shared_ptr<const CompiledGrammar> grammar_;
};

}  // namespace anabranch
