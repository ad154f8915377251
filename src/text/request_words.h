// What a user's message asks for, word by word: the words that matter, in nine languages (one table, in
// request_words.cc), and how to find them. Rules built on it: answer_form.h, when_to_think.h.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::text {

// Sets of words of one role. English, German, French, Spanish, Italian, Portuguese, Russian, Chinese,
// Japanese.
enum class Words {
  make,        // write, give, return: wants something made
  code_verb,   // write, implement, program: those of them that fit code
  make_after,  // the same where verbs come last
  convert,     // rewrite, convert, port, translate
  fix,         // fix, refactor, optimise: wants given code changed
  translate,   // translate, and "how do you say"
  list_verb,   // list, name, give, suggest
  list_after,  // the same where verbs come last
  explain,     // what is, why, how does, explain: opens a question about a thing, not for it
  as,          // "as" before a form
  in,          // "in", "into", "to" before a form or a language
  as_after,    // "format" and particles after a form
  given,       // this, the following: what comes next is given
  about,       // about, that, which: what comes next is not what is asked for
  article,     // a, an
  json,
  table,
  code_noun,   // function, code, regex
  weak_noun,   // program, class, script: code only beside a language's name
  query_noun,  // query
  item_unit,   // sentences, words, minutes: counted, but not items of a list
  counter,     // measure words of Chinese and Japanese
  greeting,    // hello, thanks, bye and what surrounds them
  retrieve,    // which, where, who, find: looks something up
  whole_text,  // summarise, review: needs all of a text
  fact,        // who is, what is the capital of
  hard,        // why, how many, compare, prove: wants thought
  calculate,   // what is, calculate, around arithmetic
  operators,   // plus, times
  polite,      // please, could you: passed over
  count_       // how many sets there are
};

struct Hit {
  size_t begin, end;  // bytes of the sentence
};

// A sentence as the rules see it: folded words (small letters, no accents on Latin ones) with one space
// before, between and after them. A run of Chinese or Japanese characters is one word.
using Sentence = std::string;

struct Request {
  std::vector<Sentence> sentences;
  bool has_code = false;   // a fenced block
  std::string fence;       // the word after its opening
  bool long_text = false;  // more than a question: the middle was left out
  // The paragraph that asks: the last one, or the first if only that is short.
  std::vector<Sentence> question;
};

// The sentences that may say what is wanted. Left out: code in fences, quoted text, and of a long message all
// but its beginning and its end, which is where instructions stand.
Request read_request(std::string_view message);
Sentence fold(std::string_view text);

// The first word of the set at or after `from`, of equal places the longest.
std::optional<Hit> find(const Sentence& sentence, Words words, size_t from = 0);
std::vector<Hit> find_all(const Sentence& sentence, Words words);
// Whether the sentence begins with one, "please" and the like aside.
bool opens_with(const Sentence& sentence, Words words);
// Whether one is among the `count` words before or after that place.
bool before(const Sentence& sentence, size_t place, int count, Words words);
bool after(const Sentence& sentence, size_t place, int count, Words words);

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
