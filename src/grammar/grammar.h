// Constrains output to a grammar. A grammar is compiled once for the model's vocabulary; each sequence has a
// matcher that reports which tokens may come next. xgrammar does the work (docs/dependencies.md).
//
// Grammars are text in xgrammar's EBNF, which includes nearly all of GBNF; grammar/schema_grammar.h and
// output/tool_grammar.h write such text. A match begins with the rule `root`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch {

// The vocabulary for which grammars are compiled.
struct GrammarVocab {
  // The bytes of each token. A token without bytes is never allowed. A token whose bytes can never become
  // valid UTF-8 (they begin with FF) is not text: a grammar allows it only by Token(id).
  std::vector<std::string> tokens;
  std::vector<int> ends;  // tokens that end a turn: allowed exactly where the grammar may end
};

// Immutable; any number of matchers may share it.
class CompiledGrammar;

struct GrammarLimits {
  size_t text_bytes = 1u << 20;
  size_t cache_bytes = 64u << 20;  // for compiled grammars
  size_t cache_entries = 256;
  size_t waiting = 256, waiting_of_client = 32;
  double seconds = 5;  // for compiling one grammar; one that takes longer is refused
  // The part of `seconds` for a first attempt. A grammar that takes longer is started again when no other
  // client waits; other grammars are compiled at the same time.
  double first_seconds = 0.5;
};

// A client that waits for a grammar.
struct GrammarClient {
  std::weak_ptr<const void> waits;  // expires when the client no longer waits
  std::string name = {};            // names the client: if many wait, they take turns
  std::string space = {};           // a client finds only results of clients with the same space
};

struct GrammarStats {
  uint64_t compiled = 0, cached = 0, refused = 0;
  double compile_s = 0;  // total time of compilation
};

using GrammarDone = std::function<void(Result<std::shared_ptr<const CompiledGrammar>>)>;

// Compiles grammars on its own threads, fairly between clients, and caches the results by text. Thread-safe.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(GrammarVocab vocab, GrammarLimits limits = {});
  // Stops all compilations. Clients get no answers after this.
  ~GrammarCompiler();

  // Calls `done` at once if the result is cached; otherwise later from another thread, at the latest after
  // limits.seconds in the queue for each attempt and limits.seconds of compilation. Does not call it if
  // nobody waits any more; a grammar for which nobody waits is not compiled, or its compilation stops.
  // Errors: invalid (a mistake in the grammar, with line and column; or no text matches it), exhausted (too
  // long, takes too long or too much memory), busy (other grammars are being compiled).
  void compile(std::string text, const GrammarClient& client, GrammarDone done);
  // The same, but waits for the result.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const std::string& text);
  GrammarStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The position of one sequence within its grammar.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  // The tokens that may come next, one bit for each (the lowest bit of the first word is token 0). Valid
  // until the next call of accept(). If all bits are zero, the grammar is at a dead end; no grammar that
  // compiles should have one.
  std::span<const uint32_t> mask();
  bool allows(int token);
  // Returns false and changes nothing if the token may not come next. No token may follow the end of a turn.
  bool accept(int token);
  // The number of leading `tokens` that may come next, one after another. Changes nothing.
  size_t count_accepted(std::span<const int> tokens);
  // Whether the text so far matches the whole grammar, so that the turn may end here.
  bool complete() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch
