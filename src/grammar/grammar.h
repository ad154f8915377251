// Output that follows a grammar: which tokens may come next, by a matcher per sequence over a grammar that
// was compiled once for the model's vocabulary. The work is xgrammar's (docs/dependencies.md).
//
// Grammars are text in xgrammar's EBNF, of which GBNF is nearly a part; grammar/schema_grammar.h and
// output/tool_grammar.h write such. The first rule of a match is `root`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
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

using GrammarDone = std::function<void(Result<std::shared_ptr<const CompiledGrammar>>)>;

// Compiles on a thread of its own, and remembers results by text. Thread-safe.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(GrammarVocab vocab, GrammarLimits limits = {});
  // Nobody is told anything any more. A compilation under way cannot be ended: it gets a moment, then its
  // thread is left behind with all that it uses.
  ~GrammarCompiler();
  // Whether that has happened in this process: then static objects must outlive it (std::_Exit).
  static bool left_one_behind();

  // Calls `done` at once if the answer is known, else soon from another thread: after limits.seconds in the
  // queue and as many of compilation at the latest. Not at all if `client` has gone; what nobody waits for
  // is not compiled. Errors: invalid (the grammar is wrong: with line and column; or it allows nothing at
  // all), exhausted (too long, or takes too long), busy (others are being compiled).
  void compile(std::string text, std::weak_ptr<const void> client, GrammarDone done);
  // The same, for those that can wait.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const std::string& text);
  GrammarStats stats() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread worker_, watch_;
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
