// Grammars as text, in the EBNF of grammar/grammar.h: rules with names of their own, in the order they were
// asked for.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/work_budget.h"

namespace anabranch {

// Exactly this text, which must be UTF-8, as an element of a rule.
std::string literal(std::string_view text);

class GrammarRules {
 public:
  explicit GrammarRules(WorkBudget work = WorkBudget()) : work_(work) {}

  // A name that is not taken, beginning as `hint` does; define() must follow. "root" is given out to nobody.
  std::string reserve(std::string_view hint);
  void define(const std::string& name, std::string body);
  // Both; a body that there is already keeps its name. options: as the grammar has them, "max_chars=7".
  std::string add(std::string_view hint, const std::string& body, const std::string& options = "");
  bool has(const std::string& name) const { return names_.count(name) > 0; }
  // What was remembered under a key; null: nothing.
  const std::string* find(const std::string& key) const;
  void remember(const std::string& key, const std::string& element) { by_body_[key] = element; }
  size_t count() const { return rules_.size(); }
  size_t bytes() const { return bytes_; }
  // Of everything that goes into this grammar.
  WorkBudget& work() { return work_; }

  // The whole grammar, which matches `root`.
  std::string text(const std::string& root) const;

 private:
  std::vector<std::pair<std::string, std::string>> rules_;  // name and options, body
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::string> by_body_;
  std::unordered_map<std::string, int> taken_;
  size_t bytes_ = 0;
  WorkBudget work_;
};

}  // namespace anabranch
