#include "chat/request_words.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <sstream>

#include "tokenizer/utf8.h"

namespace anabranch::text {
namespace {

bool is_cjk(char32_t c) {
  return (c >= 0x2E80 && c < 0xA4D0) || (c >= 0xAC00 && c < 0xD7B0) || (c >= 0xF900 && c < 0xFB00) ||
         (c >= 0x20000 && c < 0x32000);
}

bool is_capital(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LU;
}

// Small letters; Latin ones lose their accents, so that those who leave them out are understood.
void append_folded(std::string& out, char32_t c) {
  if (is_mark(c) && !is_cjk(c)) return;
  if (c < 0x250 && c >= 0x80) {
    utf8proc_int32_t parts[8];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts, 8,
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_STRIPMARK),
        &boundary);
    for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(n, 8); i++)
      append_utf8(out, static_cast<char32_t>(parts[i]));
    return;
  }
  c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  append_utf8(out, c == 0x451 ? 0x435 : c);  // Russian e with and without dots
}

using Phrases = std::vector<std::string>;

// As they are found in a sentence: with spaces where a word must begin or end.
Phrases phrases_of(std::string_view list) {
  Phrases phrases;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    std::string item(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (item.empty()) continue;
    const bool any_ending = item.back() == '*';
    if (any_ending) item.pop_back();
    std::replace(item.begin(), item.end(), '_', ' ');
    std::string phrase = fold(item);
    const bool cjk = is_cjk(decode_utf8(phrase, 1).value);
    if (any_ending || cjk) phrase.pop_back();
    if (cjk) phrase.erase(0, 1);
    phrases.push_back(std::move(phrase));
  }
  std::sort(phrases.begin(), phrases.end());
  return phrases;
}

const Phrases& phrases(Words words) {
  static const auto all = [] {
    std::array<Phrases, static_cast<size_t>(Words::count_)> sets;
    for (const WordEntry& entry : word_entries()) {
      auto& set = sets[static_cast<size_t>(entry.words)];
      for (auto& phrase : phrases_of(entry.text)) set.push_back(std::move(phrase));
    }
    return sets;
  }();
  return all[static_cast<size_t>(words)];
}

std::optional<Hit> find_any(const Sentence& sentence, const Phrases& set, size_t from) {
  std::optional<Hit> best;
  for (const std::string& phrase : set) {
    const size_t at = sentence.find(phrase, from);
    if (at == std::string::npos) continue;
    // The space after a word begins the next one.
    const Hit hit{at, at + phrase.size() - (phrase.back() == ' ' ? 1 : 0)};
    if (!best || hit.begin < best->begin || (hit.begin == best->begin && hit.end > best->end)) best = hit;
  }
  return best;
}

size_t skip_back(const Sentence& sentence, size_t place, int count) {
  for (; count > 0 && place > 0; count--) {
    const size_t space = sentence.rfind(' ', place - 1);
    place = space == std::string::npos ? 0 : space;
  }
  return place;
}

struct Name {
  std::string_view name;
  Phrases phrases, plain;
};

std::vector<Name> names_of(std::span<const NameEntry> table) {
  std::vector<Name> names;
  for (const auto& [name, list] : table) {
    std::string certain, plain;
    std::istringstream items(list);
    for (std::string item; items >> item;)
      (item[0] == '!' ? plain : certain) += item.substr(item[0] == '!') + " ";
    names.push_back({name, phrases_of(certain), phrases_of(plain)});
  }
  return names;
}

std::vector<Language> find_languages(const Sentence& sentence, const std::vector<Name>& names) {
  std::vector<Language> languages;
  for (const Name& name : names)
    for (const bool plain : {false, true}) {
      const Phrases& set = plain ? name.plain : name.phrases;
      for (auto hit = find_any(sentence, set, 0); hit; hit = find_any(sentence, set, hit->end))
        languages.push_back({name.name, *hit, plain});
    }
  std::sort(languages.begin(), languages.end(),
            [](const Language& a, const Language& b) { return a.hit.begin < b.hit.begin; });
  return languages;
}

// The number that a word is, or that a run of Chinese or Japanese characters has in front of a counter.
Count count_at(const Sentence& sentence, Hit word) {
  const std::string_view text = std::string_view(sentence).substr(word.begin + 1, word.end - word.begin - 1);
  if (text.size() <= 3 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return {std::stoi(std::string(text)), word};
  static const auto numbers = [] {
    std::vector<Phrases> out;
    for (const char* list : number_entries()) out.push_back(phrases_of(list));
    return out;
  }();
  for (size_t i = 0; i < numbers.size(); i++) {
    const auto hit = find_any(sentence, numbers[i], word.begin);
    if (!hit || hit->begin >= word.end) continue;
    if (sentence[hit->begin] == ' ') return {static_cast<int>(i) + 2, *hit};
    const auto counter = find(sentence, Words::counter, hit->begin);
    if (counter && counter->begin <= hit->end) return {static_cast<int>(i) + 2, *hit};
  }
  return {};
}

}  // namespace

Sentence fold(std::string_view text, std::vector<bool>* capitals) {
  Sentence out = " ";
  bool cjk = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    i += c.length;
    const bool inside = out.back() != ' ';
    if (is_word(c.value) && c.value != '_') {
      const bool now = is_cjk(c.value);
      if (inside && now != cjk) out += ' ';
      cjk = now;
      if (capitals && out.back() == ' ' && !is_mark(c.value)) capitals->push_back(is_capital(c.value));
      append_folded(out, c.value);
    } else if (inside && !cjk && (c.value == '+' || c.value == '#')) {
      out += static_cast<char>(c.value);  // c++, c#
    } else if (inside && !is_mark(c.value)) {
      out += ' ';
    }
  }
  if (out.back() != ' ') out += ' ';
  return out;
}

size_t skip_words(const Sentence& sentence, size_t place, int count) {
  for (; count > 0 && place + 1 < sentence.size(); count--)
    place = std::min(sentence.find(' ', place + 1), sentence.size());
  return place;
}

std::optional<Hit> find(const Sentence& sentence, Words words, size_t from) {
  return find_any(sentence, phrases(words), from);
}

std::vector<Hit> find_all(const Sentence& sentence, Words words) {
  std::vector<Hit> hits;
  for (auto hit = find(sentence, words); hit; hit = find(sentence, words, hit->end)) hits.push_back(*hit);
  return hits;
}

std::optional<Hit> starts_at(const Sentence& sentence, size_t place, Words words) {
  if (place >= sentence.size()) return std::nullopt;
  const auto hit = find(sentence, words, place);
  return hit && hit->begin <= place + (sentence[place] == ' ' && sentence[hit->begin] != ' ') ? hit
                                                                                              : std::nullopt;
}

bool opens_with(const Sentence& sentence, Words words) {
  size_t at = 0;
  for (int skipped = 0; skipped < 6;) {
    while (at + 1 < sentence.size() && sentence[at + 1] == kMasked) at = skip_words(sentence, at, 1);
    if (starts_at(sentence, at, words)) return true;
    auto word = starts_at(sentence, at, Words::polite);
    if (!word) word = starts_at(sentence, at, Words::contrast);
    if (!word) return false;
    at = word->end;
    skipped++;
  }
  return false;
}

bool before(const Sentence& sentence, size_t place, int count, Words words) {
  const size_t from = skip_back(sentence, place, count);
  return find(sentence.substr(from, place - from + (sentence[place] == ' ')), words).has_value();
}

bool after(const Sentence& sentence, size_t place, int count, Words words) {
  const size_t to = skip_words(sentence, place, count);
  return find(sentence.substr(place, to - place + 1), words).has_value();
}

int count_words(const Sentence& sentence) {
  int words = 0, halves = 0;
  for (size_t i = 1; i < sentence.size();) {
    const CodePoint c = decode_utf8(sentence, i);
    if (is_cjk(c.value))
      halves++;
    else if (c.value == ' ' && !is_cjk(decode_utf8(sentence, sentence.rfind(' ', i - 1) + 1).value))
      words++;
    i += c.length;
  }
  return words + (halves + 1) / 2;
}

bool consists_of(const Sentence& sentence, std::initializer_list<Words> sets, bool numbers) {
  size_t at = 0;
  while (at + 1 < sentence.size()) {
    size_t next = at;
    for (const Words words : sets) {
      const auto hit = find(sentence, words, at);
      if (hit && (hit->begin == at || (hit->begin == at + 1 && sentence[at] == ' ')))
        next = std::max(next, hit->end);
    }
    if (next == at && numbers) {
      size_t end = at + (sentence[at] == ' ');
      while (end < sentence.size() && sentence[end] >= '0' && sentence[end] <= '9') end++;
      if (end > at + 1 && sentence[end] == ' ') next = end;
    }
    if (next == at) return false;
    at = next;
  }
  return true;
}

std::optional<Count> find_count(const Sentence& sentence, size_t from, int within_words) {
  const size_t limit = skip_words(sentence, from, within_words);
  for (size_t begin = from; begin < limit;) {
    const size_t end = std::min(sentence.find(' ', begin + 1), sentence.size());
    const Count count = count_at(sentence, {begin, end});
    if (count.number >= 2) return count;
    begin = end;
  }
  return std::nullopt;
}

std::vector<int> numbers_in(const Sentence& sentence) {
  std::vector<int> numbers;
  for (size_t i = 0; i < sentence.size(); i++) {
    if (sentence[i] < '0' || sentence[i] > '9') continue;
    int number = 0;
    for (; i < sentence.size() && sentence[i] >= '0' && sentence[i] <= '9'; i++)
      number = std::min(number * 10 + (sentence[i] - '0'), 1000000);
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<Language> programming_languages(const Sentence& sentence) {
  static const auto names = names_of(programming_entries());
  return find_languages(sentence, names);
}
std::vector<Language> natural_languages(const Sentence& sentence) {
  static const auto names = names_of(natural_entries());
  return find_languages(sentence, names);
}

}  // namespace anabranch::text
