#include "grammar/grammar_rules.h"

#include <fmt/format.h>

namespace anabranch {
namespace {

bool is_plain(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7F)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string GrammarRules::reserve(std::string_view hint) {
  std::string name;
  for (const char c : hint.substr(0, 32)) name += is_plain(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name = "r" + name;
  const int used = taken_[name]++;
  // Names made from hints have no "-", so a numbered name never equals another hint.
  return used == 0 && name != "root" ? name : fmt::format("{}-{}", name, used);
}

void GrammarRules::define(const std::string& name, std::string body, const std::string& options) {
  bytes_ += name.size() + options.size() + body.size() + 8;
  names_.insert(name);
  rules_.emplace_back(options.empty() ? name : fmt::format("{}[{}]", name, options), std::move(body));
}

std::string GrammarRules::add(std::string_view hint, const std::string& body) {
  if (const std::string* known = find(body)) return *known;
  const std::string name = reserve(hint);
  define(name, body);
  by_body_.emplace(body, name);
  return name;
}

const std::string* GrammarRules::find(const std::string& key) const {
  const auto it = by_body_.find(key);
  return it == by_body_.end() ? nullptr : &it->second;
}

std::string GrammarRules::text(const std::string& root) const {
  std::string out = fmt::format("root ::= {}\n", root);
  for (const auto& [name, body] : rules_) out += fmt::format("{} ::= {}\n", name, body);
  return out;
}

}  // namespace anabranch
