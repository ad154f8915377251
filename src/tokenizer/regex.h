// Regular expressions as Hugging Face tokenizers write them (Oniguruma's dialect), run by PCRE2 with its JIT.
// The only file that includes pcre2.h is regex.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

// Immutable; safe to share between threads.
class Regex {
 public:
  // Errors: invalid (with the place), unsupported (a construct that the two dialects read differently).
  static Result<Regex> compile(std::string_view pattern);
  // A regex that matches exactly `text`.
  static Result<Regex> literal(std::string_view text);

  struct Match {
    size_t begin = 0, end = 0;
  };
  // First match in valid UTF-8 at or after `from` (a code point's start). Returns false when there is none,
  // or when the match limit is reached: a hostile pattern costs bounded time, and its text stays unsplit.
  bool find(std::string_view text, size_t from, Match& match) const;

 private:
  explicit Regex(std::shared_ptr<const void> code) : code_(std::move(code)) {}
  std::shared_ptr<const void> code_;  // pcre2_code
};

// Calls visit(begin, end) for each match, left to right. After an empty match the search moves on by one code
// point, and an empty match right behind another match does not count.
template <class Visit>
void for_each_match(const Regex& regex, std::string_view text, Visit visit) {
  size_t from = 0, last_end = std::string_view::npos;
  Regex::Match m;
  while (from <= text.size() && regex.find(text, from, m)) {
    const bool empty = m.begin == m.end;
    if (!empty || m.begin != last_end) visit(m.begin, m.end);
    last_end = m.end;
    from = m.end;
    if (empty) {
      if (from == text.size()) break;
      do ++from;
      while (from < text.size() && (text[from] & 0xC0) == 0x80);
    }
  }
}

// The pattern rewritten from Oniguruma's dialect to PCRE2's; exposed for tests.
Result<std::string> translate_regex(std::string_view pattern);

}  // namespace anabranch
