#include "chat/request_words.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/check.h"
#include "base/white_space.h"
#include "tokenizer/regex.h"
#include "tokenizer/utf8.h"

namespace anabranch {

extern const char* const kThinkWords;  // think_words.txt

namespace {

bool is_cjk(char32_t c) {
  return (c >= 0x2E80 && c < 0xA4D0) || (c >= 0xAC00 && c < 0xD7B0) || (c >= 0xF900 && c < 0xFB00) ||
         (c >= 0x20000 && c < 0x32000);
}

void append_folded(std::string& out, char32_t c) {
  if (is_mark(c) && !is_cjk(c)) return;
  utf8proc_int32_t parts[8] = {utf8proc_tolower(static_cast<utf8proc_int32_t>(c))};
  utf8proc_ssize_t count = 1;
  constexpr int kOptions = UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_STRIPMARK;
  int boundary = 0;
  if (c >= 0x80 && c < 0x250)
    count = utf8proc_decompose_char(parts[0], parts, 8, static_cast<utf8proc_option_t>(kOptions), &boundary);
  for (utf8proc_ssize_t i = 0; i < count; i++)
    append_utf8(out, parts[i] == 0x451 ? 0x435
                                       : static_cast<char32_t>(
                                             parts[i]));  // U+0451, Russian e with dots, becomes a plain e
}

Regex compile(std::string_view pattern) {
  auto regex = Regex::compile(pattern);
  CHECK(regex.ok(), "{}", regex.error().message);
  return std::move(*regex);
}

// A regular expression that finds a phrase of think_words.txt in a sentence.
std::string pattern_of(std::string phrase) {
  const bool any_ending = phrase.back() == '*';
  std::replace(phrase.begin(), phrase.end(), '_', ' ');
  std::string text = fold(phrase);
  text = text.substr(1, text.size() - 2);
  const bool cjk = is_cjk(decode_utf8(text, 0).value);
  for (size_t at = 0; (at = text.find('+', at)) != text.npos; at += 2) text.insert(at, "\\");
  return cjk ? text : " " + text + (any_ending ? "" : "(?= )");
}

// Regular expressions by group; those of programming languages by "code_name" or "code_word" and the
// language.
const std::map<std::string, Regex, std::less<>>& groups() {
  static const auto all = [] {
    std::map<std::string, std::vector<std::string>> patterns;
    std::istringstream lines(kThinkWords);
    for (std::string line, name, tag, item; std::getline(lines, line);) {
      std::istringstream items(line);
      if (!(items >> name >> tag) || name[0] == '#') continue;
      if (name == "code_name" || name == "code_word") name += " " + tag.substr(0, tag.find(':'));
      while (items >> item) patterns[name].push_back(pattern_of(item));
    }
    std::map<std::string, Regex, std::less<>> out;
    for (auto& [name, list] : patterns) {  // longest phrases first
      std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
      std::string any;
      for (const std::string& pattern : list) any += (any.empty() ? "" : "|") + pattern;
      out.emplace(name, compile(any));
    }
    return out;
  }();
  return all;
}

// The phrase of the group that begins at `place`.
std::optional<Hit> starts_at(const Sentence& sentence, size_t place, std::string_view group) {
  const auto hit = find(sentence, group, place);
  return hit && hit->begin <= place + (sentence[hit->begin] != ' ') ? hit : std::nullopt;
}

size_t skip_word(const Sentence& sentence, size_t place) {
  return std::min(sentence.find(' ', place + 1), sentence.size());
}

// Calls take(part) for each part of the text between the matches.
template <class Take>
void split(const Regex& regex, std::string_view text, Take take) {
  size_t start = 0;
  for_each_match(regex, text, [&](size_t begin, size_t end) {
    take(text.substr(start, begin - start));
    start = end;
  });
  take(text.substr(start));
}

void mask(Sentence& clause, size_t from, size_t to) {
  for (; from < to; from++) clause[from] = clause[from] == ' ' ? ' ' : kMasked;
}

// Masks the words from a negation to a "but", or to the end of the clause.
void mask_negated(Sentence& clause) {
  if (const auto last = find(clause, "negation_last")) mask(clause, 0, last->end);
  for (auto hit = find(clause, "negation"); hit;) {
    const auto end = find(clause, "contrast", hit->begin);  // "no formato" (Portuguese) ends a negation
    mask(clause, hit->begin, end ? end->begin : clause.size());
    hit = end ? find(clause, "negation", end->end) : std::nullopt;
  }
}

void add_sentences(std::string_view text, std::vector<Sentence>& out) {
  static const Regex sentence_end = compile("[\\n!?;:。！？；：]|\\.(?!\\S)");
  static const Regex clause_end = compile("[()–—、，]|,(?!\\S)");
  split(sentence_end, text, [&](std::string_view sentence) {
    Sentence folded = " ";
    split(clause_end, sentence, [&](std::string_view part) {
      Sentence clause = fold(part);
      mask_negated(clause);
      folded += clause.substr(1);
    });
    if (folded.size() > 1) out.push_back(std::move(folded));
  });
}

constexpr size_t kLongMessage = 2000, kKeptEnd = 700, kLongQuestion = 300;  // bytes
constexpr size_t kReadEnd = 32 << 10;  // bytes read at each end of a message that is longer than twice that

// The first and the last `bytes` bytes of the text.
std::string ends_of(std::string_view text, size_t bytes) {
  if (text.size() <= 2 * bytes) return std::string(text);
  return replace_invalid_utf8(text.substr(0, bytes)) + "\n" +
         replace_invalid_utf8(text.substr(text.size() - bytes));
}

std::string_view asking_paragraph(std::string_view text) {
  text = trimmed(text);
  const size_t last = text.rfind("\n\n"), first = text.find("\n\n");
  if (last == text.npos) return text;
  const std::string_view end = trimmed(text.substr(last)), begin = trimmed(text.substr(0, first));
  return end.size() > kLongQuestion && begin.size() <= kLongQuestion ? begin : end;
}

}  // namespace

Sentence fold(std::string_view text) {
  Sentence out = " ";
  bool cjk = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    i += c.length;
    const bool inside = out.back() != ' ';
    if (is_word(c.value) && c.value != '_') {
      if (inside && is_cjk(c.value) != cjk) out += ' ';
      cjk = is_cjk(c.value);
      append_folded(out, c.value);
    } else if (inside && !cjk && (c.value == '+' || c.value == '#')) {
      out += static_cast<char>(c.value);  // for c++, c#
    } else if (inside && !is_mark(c.value)) {
      out += ' ';
    }
  }
  if (out.back() != ' ') out += ' ';
  return out;
}

std::optional<Hit> find(const Sentence& sentence, std::string_view group, size_t from) {
  const auto found = groups().find(group);
  CHECK(found != groups().end(), "think_words.txt has no group {}", group);
  Regex::Match match;
  if (!found->second.find(sentence, from, match)) return std::nullopt;
  return Hit{match.begin, match.end};
}

bool before(const Sentence& sentence, size_t place, int count, std::string_view group) {
  size_t from = place;
  for (; count > 0 && from > 0; count--) from = sentence.rfind(' ', from - 1);
  return find(sentence.substr(from, place - from + (sentence[place] == ' ')), group).has_value();
}

bool after(const Sentence& sentence, size_t place, int count, std::string_view group) {
  size_t to = place;
  for (; count > 0; count--) to = skip_word(sentence, to);
  return find(sentence.substr(place, to - place + 1), group).has_value();
}

std::optional<size_t> opens_with(const Sentence& sentence, std::string_view group) {
  for (size_t at = 0; at + 1 < sentence.size();) {
    if (const auto hit = starts_at(sentence, at, group)) return hit->end;
    const auto passed = starts_at(sentence, at, "polite");
    if (!passed && sentence[at + 1] != kMasked) return std::nullopt;
    at = passed ? passed->end : skip_word(sentence, at);
  }
  return std::nullopt;
}

bool consists_of(const Sentence& sentence, std::initializer_list<std::string_view> groups) {
  for (size_t at = 0; at + 1 < sentence.size();) {
    size_t next = at;
    for (const auto group : groups)
      if (const auto hit = starts_at(sentence, at, group)) next = std::max(next, hit->end);
    if (next == at) return false;
    at = next;
  }
  return true;
}

int count_words(const Sentence& sentence) {
  int words = 0;
  for (size_t i = 1; i < sentence.size(); i += decode_utf8(sentence, i).length)
    words += is_cjk(decode_utf8(sentence, i).value) || (sentence[i - 1] == ' ' && sentence[i] != ' ');
  return words;
}

std::vector<CodeName> code_names(const Sentence& sentence) {
  std::vector<CodeName> names;
  for (const auto& [group, regex] : groups()) {
    const bool is_word = group.starts_with("code_word ");
    if (!is_word && !group.starts_with("code_name ")) continue;
    const auto name = std::string_view(group).substr(group.find(' ') + 1);
    for_each_match(regex, sentence, [&](size_t begin, size_t end) {
      names.push_back({name, {begin, end}, is_word});
    });
  }
  return names;
}

Message read_message(std::string_view message) {
  static const Regex quotes = compile(
      "```[\\s\\S]*?(?:```|(?![\\s\\S]))|\"[^\"\\n]{0,400}\"|“[^”\\n]{0,400}”|„[^“\\n]{0,400}“|«[^»\\n]{0,"
      "400}»|"
      "「[^」\\n]{0,400}」|`[^`\\n]{0,400}`");
  std::string text;
  split(quotes, replace_invalid_utf8(ends_of(message, kReadEnd)),
        [&](std::string_view part) { text += (text.empty() ? "" : " quoted ") + std::string(part); });
  Message read;
  add_sentences(ends_of(asking_paragraph(text), kLongMessage / 2), read.question);
  add_sentences(text.size() > kLongMessage ? ends_of(text, kKeptEnd) : text, read.sentences);
  return read;
}

}  // namespace anabranch
