// The words that matter in a request, in nine languages: the only place to add one. What finds them:
// request_words.h.
#pragma once

#include <span>

namespace anabranch::text {

// Sets of words of one role. English, German, French, Spanish, Italian, Portuguese, Russian, Chinese,
// Japanese.
enum class Words {
  make,             // write, give, return: wants something made
  code_verb,        // write, implement, program: those of them that fit code
  make_after,       // the same where verbs come last
  convert,          // rewrite, convert, port, translate
  fix,              // fix, refactor, optimise: wants given code changed
  translate,        // translate, and "how do you say"
  list_verb,        // list, name, suggest: wants a list of whatever is counted next; English, plurals in -s
  list_verb_other,  // the same in the other languages
  list_weak,        // give, write, show: only with a list_noun
  list_noun,        // tips, ideas, reasons
  list_after,       // list_verb where verbs come last
  list_after_weak,  // list_weak where verbs come last
  before_count,     // me, the top, at least: between such a verb and its count
  told,             // I, they, my, should: what comes next is no imperative
  plural,           // people, mice: English plurals without an s
  explain,          // what is, why, how does, explain: opens a question about a thing, not for it
  as,               // "as" before a form
  in,               // "in", "into", "to" before a form or a language
  as_after,         // "format" and particles after a form
  given,            // this, the following: what comes next is given
  about,            // about, that, which: what comes next is not what is asked for
  article,          // a, an
  json,
  table,
  code_noun,      // function, code, regex
  weak_noun,      // program, class, script: code only beside a language's name
  query_noun,     // query
  item_unit,      // sentences, words, minutes, numbers: counted, but not items of a list
  counter,        // measure words of Chinese and Japanese
  after_noun,     // of, for, and: ends what is counted
  negation,       // not, no, without: what comes next in the clause is not asked for
  negation_last,  // the same for what came before
  contrast,       // but, just, only: ends a negation
  refusal,        // no: by itself, takes back what was said before
  greeting,       // hello, thanks, bye and what surrounds them
  retrieve,       // which, where, who, find: looks something up
  whole_text,     // summarise, review: needs all of a text
  fact_name,      // who is, where is, how old is: a plain fact before a proper noun
  fact_when,      // when was: the same, with a fact_done
  fact_done,      // born, built, founded
  fact_who,       // who wrote, who invented
  fact_of,        // what is the capital of
  fact_cjk,       // such questions in Chinese and Japanese, whole
  name_part,      // the, of, von: within proper nouns
  hard,           // why, or, more, if: no plain fact
  calculate,      // what is, calculate, around arithmetic
  operators,      // plus, times
  polite,         // please, could you: passed over
  count_          // how many sets there are
};

// Texts are lists separated by spaces; '_' joins a phrase; '*' at the end: any ending. Without accents.
struct WordEntry {
  Words words;
  const char* text;
};
std::span<const WordEntry> word_entries();  // a set may have several

// Names of languages: '!' in front of one that is also a word or a letter of its own.
struct NameEntry {
  const char* name;  // of a programming language as a code fence wants it, of a natural one in English
  const char* text;
};
std::span<const NameEntry> programming_entries();
std::span<const NameEntry> natural_entries();
std::span<const char* const> number_entries();  // from two on

}  // namespace anabranch::text
