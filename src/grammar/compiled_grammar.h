// The compiled form that grammar_compiler.cc makes and grammar.cc uses for matching.
#pragma once

#include <xgrammar/xgrammar.h>

#include <utility>

namespace anabranch {

class CompiledGrammar {
 public:
  explicit CompiledGrammar(xgrammar::CompiledGrammar grammar) : grammar(std::move(grammar)) {}
  xgrammar::CompiledGrammar grammar;
};

}  // namespace anabranch
