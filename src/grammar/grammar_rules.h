// Collects the rules of a grammar under unique names and writes them as text, in the EBNF of
// grammar/grammar.h.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/work_budget.h"

namespace anabranch {

// The element that matches exactly this text, which must be UTF-8.
std::string literal(std::string_view text);

class GrammarRules {
 public:
  explicit GrammarRules(WorkBudget work = WorkBudget()) : work_(work) {}

  // A new name that begins with `hint`; define() must follow. The name is never "root".
  std::string reserve(std::string_view hint);
  // options: options of the rule in xgrammar's syntax, such as capture="x".
  void define(const std::string& name, std::string body, const std::string& options = "");
  // Reserves a name and defines it; returns the earlier name if a rule with this body exists.
  std::string add(std::string_view hint, const std::string& body);
  bool has(const std::string& name) const { return names_.count(name) > 0; }
  // The element that was remembered under a key; null if there is none.
  const std::string* find(const std::string& key) const;
  void remember(const std::string& key, const std::string& element) { by_body_[key] = element; }
  size_t count() const { return rules_.size(); }
  size_t bytes() const { return bytes_; }
  // The budget for all the work that this grammar takes.
  WorkBudget& work() { return work_; }

  // The text of the grammar; its first rule is the element `root`.
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
