// How the words of word_table.h are found in a sentence. Rules built on it: answer_form.h, when_to_think.h.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/word_table.h"

namespace anabranch::text {

struct Hit {
  size_t begin, end;  // bytes of the sentence
};

// A sentence as the rules see it: folded words (small letters, no accents on Latin ones) with one space
// before, between and after them. A run of Chinese or Japanese characters is one word.
using Sentence = std::string;

// capitals: for each word, whether it was written with a capital.
Sentence fold(std::string_view text, std::vector<bool>* capitals = nullptr);
// Stands for the letters of words that are not asked for: no word has it.
constexpr char kMasked = '-';

// The first word of the set at or after `from`, of equal places the longest.
std::optional<Hit> find(const Sentence& sentence, Words words, size_t from = 0);
std::vector<Hit> find_all(const Sentence& sentence, Words words);
// One that begins right there, behind a space or not.
std::optional<Hit> starts_at(const Sentence& sentence, size_t place, Words words);
// Whether the sentence begins with one; "please", "just" and masked words aside.
bool opens_with(const Sentence& sentence, Words words);
// Whether one is among the `count` words before or after that place.
bool before(const Sentence& sentence, size_t place, int count, Words words);
bool after(const Sentence& sentence, size_t place, int count, Words words);

// The place behind so many words.
size_t skip_words(const Sentence& sentence, size_t place, int count);
// Words; of Chinese and Japanese two characters count as one.
int count_words(const Sentence& sentence);
// Whether nothing is left when the phrases of these sets are taken away.
bool consists_of(const Sentence& sentence, std::initializer_list<Words> sets, bool numbers);

// A number from 2 on, as digits or as a word, that stands in front of what it counts.
struct Count {
  int number = 0;
  Hit hit;
};
std::optional<Count> find_count(const Sentence& sentence, size_t from, int within_words);
std::vector<int> numbers_in(const Sentence& sentence);  // those in digits

// Names of programming languages (as a code fence wants them) and of natural ones (in English).
struct Language {
  std::string_view name;
  Hit hit;
  bool plain_word = false;  // also a word or a letter of its own: c, go, r
};
// In the order of their places.
std::vector<Language> programming_languages(const Sentence& sentence);
std::vector<Language> natural_languages(const Sentence& sentence);

}  // namespace anabranch::text
