// Finds the words of think_words.txt in a sentence. Used by when_to_think.h and typed_escape.h.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

// Folded words (small letters, Latin ones without accents), with one space before, between and after them. A
// run of Chinese or Japanese characters is one word.
using Sentence = std::string;
Sentence fold(std::string_view text);

struct Hit {
  size_t begin, end;  // bytes of the sentence, with the space before the words and without the one after
};

// The first phrase of the group at or after `from`; if several begin there, the longest.
std::optional<Hit> find(const Sentence& sentence, std::string_view group, size_t from = 0);
// Whether a phrase of the group is among the `count` words before or after that place.
bool before(const Sentence& sentence, size_t place, int count, std::string_view group);
bool after(const Sentence& sentence, size_t place, int count, std::string_view group);
// The end of the sentence's opening phrase, if that belongs to the group. Polite and masked words before it
// are skipped.
std::optional<size_t> opens_with(const Sentence& sentence, std::string_view group);
// Whether the sentence is made of phrases of these groups.
bool consists_of(const Sentence& sentence, std::initializer_list<std::string_view> groups);
// The number of words; each Chinese or Japanese character counts as one.
int count_words(const Sentence& sentence);

// A programming language, by its name in code fences.
struct CodeName {
  std::string_view name;
  Hit hit;
  bool is_word;  // the name is also a common word or letter: go, c, r
};
std::vector<CodeName> code_names(const Sentence& sentence);

// Replaces the letters of negated words. No word contains it.
constexpr char kMasked = '-';

struct Message {
  std::vector<Sentence> sentences;  // all sentences that may ask for something; negated words are masked
  std::vector<Sentence>
      question;  // sentences of the paragraph that asks: the last one, or the first if only that is short
};
// Leaves out quoted text, fenced code and the middle of a long message.
Message read_message(std::string_view message);

}  // namespace anabranch
