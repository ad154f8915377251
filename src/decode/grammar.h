// Output that follows a grammar: which tokens may come next, by a matcher per sequence over a grammar that
// was compiled once for the model's vocabulary. The work is xgrammar's (docs/dependencies.md).
//
// Grammars are text in xgrammar's EBNF, of which GBNF is nearly a part; text/schema_grammar.h and
// text/tool_grammar.h write such. The first rule of a match is `root`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch {

// What a grammar is compiled for.
struct GrammarVocab {
  // Bytes by token; empty: never allowed. One that is not UTF-8 by any continuation (FF first) is no text:
  // only Token(id) in a grammar means it.
  std::vector<std::string> tokens;
  std::vector<int> ends;  // of a turn: allowed exactly where the grammar may end
};

// Immutable, for any number of matchers at a time.
class CompiledGrammar;

struct GrammarLimits {
  size_t text_bytes = 1u << 20;
  size_t cache_bytes = 64u << 20;  // of compiled grammars
  size_t cache_entries = 256;
  double seconds = 5;  // to compile one; what takes longer is refused, then and later
};

struct GrammarStats {
  uint64_t compiled = 0, cached = 0, refused = 0;
  double compile_s = 0;  // of all compiled
};

// Compiles on a thread of its own, which lives as long as the compiler, and remembers results by text.
// Thread-safe.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(GrammarVocab vocab, GrammarLimits limits = {});
  ~GrammarCompiler();  // waits for a compilation under way

  // Blocks for at most limits.seconds. Errors: invalid (the grammar is wrong: with line and column; or it
  // allows nothing at all), exhausted (too long, or takes too long), busy (others are being compiled).
  Result<std::shared_ptr<const CompiledGrammar>> compile(const std::string& text);
  GrammarStats stats() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// Where a sequence is in its grammar.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  // The tokens that may come next, a bit each (the lowest of the first word is token 0); until the next call
  // of accept(). All zero: a dead end, which no grammar that compiles should have.
  std::span<const uint32_t> mask();
  bool allows(int token);
  // False, and nothing changes, if the token may not come next. After an end of turn nothing may.
  bool accept(int token);
  // How many of `tokens`, from the first on, may follow one another from here. Changes nothing.
  size_t count_accepted(std::span<const int> tokens);
  // Whether the text so far is whole: the turn may end here.
  bool complete() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch
