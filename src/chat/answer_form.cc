#include "chat/answer_form.h"

#include <fmt/core.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include "chat/request_text.h"

namespace anabranch::text {
namespace {

constexpr int kMostItems = 100;

AskedForm asked(AnswerForm form, std::string language = {}, int items = 0) {
  AskedForm out{form, std::move(language), items, fmt::format("the message asks for {}", name_of(form))};
  if (!out.language.empty())
    out.reason += (form == AnswerForm::translation ? " into " : " in ") + out.language;
  if (items) out.reason += fmt::format(" of {} items", items);
  return out;
}

bool asks(const Sentence& sentence) {
  for (const Words verbs : {Words::make, Words::make_after, Words::convert, Words::translate,
                            Words::list_verb, Words::list_verb_other, Words::list_weak})
    if (find(sentence, verbs)) return true;
  return false;
}

bool is_given(const Sentence& sentence, Hit noun) {
  return before(sentence, noun.begin, 2, Words::given);
}

// Whether a verb wants that noun: it stands a few words before it, with nothing like "about" or "that"
// between.
bool is_object(const Sentence& sentence, Hit noun, Words verbs, int within) {
  if (is_given(sentence, noun)) return false;
  if (after(sentence, noun.end, 8, Words::make_after)) return true;
  for (int words = 1; words <= within; words++)
    if (before(sentence, noun.begin, words, verbs))
      return words == 1 || !before(sentence, noun.begin, words - 1, Words::about);
  return false;
}

AskedForm code_in(std::string_view language) {
  return language == "sql" ? asked(AnswerForm::sql) : asked(AnswerForm::code, std::string(language));
}

// A named language: as the target of a conversion, behind "in", beside a function or a program, or by itself.
std::optional<AskedForm> code_with_language(const Sentence& s) {
  const bool explains = opens_with(s, Words::explain);
  for (const Language& language : programming_languages(s)) {
    const Hit hit = language.hit;
    if (is_given(s, hit)) continue;
    const bool sql = language.name == "sql";
    const bool nouns =
        find(s, Words::code_noun) || find(s, Words::weak_noun) || (sql && find(s, Words::query_noun));
    const bool in = before(s, hit.begin, 1, Words::in) || before(s, hit.begin, 1, Words::as) ||
                    after(s, hit.end, 1, Words::as_after);
    const bool likely = !language.plain_word || nouns;
    if (!likely || explains) continue;
    if (in && (nouns || find(s, Words::convert) || find(s, Words::code_verb) || find(s, Words::make_after)))
      return code_in(language.name);
    bool beside = false;
    for (const Words noun : {Words::code_noun, Words::weak_noun, Words::query_noun})
      if (noun != Words::query_noun || sql)
        beside |= before(s, hit.begin, 2, noun) || after(s, hit.end, 2, noun);
    if (beside && is_object(s, hit, Words::make, 6)) return code_in(language.name);
    if (!language.plain_word && is_object(s, hit, Words::code_verb, 3)) return code_in(language.name);
  }
  return std::nullopt;
}

std::optional<AskedForm> code_of(const Sentence& s, const Request& request) {
  if (auto code = code_with_language(s)) return code;
  if (opens_with(s, Words::explain)) return std::nullopt;
  const auto noun = find(s, Words::code_noun);
  if (noun && is_object(s, *noun, Words::code_verb, 5)) return asked(AnswerForm::code);
  if (!opens_with(s, Words::fix)) return std::nullopt;
  const auto languages = programming_languages(s);
  const auto fences = programming_languages(fold(request.fence));
  if (request.has_code || noun)
    return code_in(!fences.empty() ? fences[0].name : !languages.empty() ? languages[0].name : "");
  if (languages.empty() || languages[0].plain_word) return std::nullopt;
  return code_in(languages[0].name);
}

// "as JSON", "in JSON format", "JSON only".
bool is_json_format(const Sentence& s) {
  for (const Hit& hit : find_all(s, Words::json)) {
    if (is_given(s, hit) || before(s, hit.begin, 1, Words::about)) continue;
    const bool as = before(s, hit.begin, 3, Words::as), in = before(s, hit.begin, 3, Words::in);
    const bool format = after(s, hit.end, 2, Words::as_after);
    if ((as || in) && format) return true;
    if (asks(s) && (as || ((in || format) && !opens_with(s, Words::explain)))) return true;
  }
  return false;
}

bool is_json_object(const Sentence& s) {
  const auto hit = find(s, Words::json);
  return hit && !opens_with(s, Words::explain) && is_object(s, *hit, Words::make, 4);
}

bool is_table(const Sentence& s) {
  for (const Hit& hit : find_all(s, Words::table)) {
    if (is_given(s, hit) || !asks(s)) continue;
    // Russian, Chinese and Japanese have no articles.
    const bool one = s[hit.begin] != ' ' || static_cast<uint8_t>(s[hit.begin + 1]) >= 0x80 ||
                     before(s, hit.begin, 3, Words::article);
    if (one && (before(s, hit.begin, 4, Words::in) || before(s, hit.begin, 4, Words::as))) return true;
    if (one && is_object(s, hit, Words::make, 4)) return true;
    if (after(s, hit.end, 1, Words::as_after) || before(s, hit.begin, 1, Words::as) ||
        before(s, hit.begin, 1, Words::in))
      return true;
  }
  return false;
}

std::optional<AskedForm> translation_of(const Sentence& whole, const Sentence& wanted) {
  const auto verb = find(wanted, Words::translate);
  if (!verb || (verb->begin > 1 && opens_with(wanted, Words::explain))) return std::nullopt;
  std::string_view target;
  for (const Language& language : natural_languages(whole)) {
    target = language.name;
    if (before(whole, language.hit.begin, 1, Words::in)) break;
  }
  return asked(AnswerForm::translation, std::string(target));
}

enum class ListVerb { english, other, weak };

bool is_english_plural(const Sentence& s, size_t place) {
  if (starts_at(s, place, Words::plural)) return true;
  const size_t end = skip_words(s, place, 1);
  const std::string_view word = std::string_view(s).substr(place + 1, end - place - 1);
  return word.size() > 3 && word.back() == 's' && word[word.size() - 2] != 's' &&
         word[word.size() - 2] != 'u';
}

// Whether what stands behind a count are things that a list can have.
bool are_items(const Sentence& s, size_t place, ListVerb verb) {
  if (const auto counter = starts_at(s, place, Words::counter)) {
    constexpr size_t kTwoCharacters = 6;  // bytes
    const auto noun = find(s, Words::list_noun, counter->end);
    return verb != ListVerb::weak || (noun && noun->begin <= counter->end + kTwoCharacters);
  }
  constexpr int kNounWords = 3;  // a noun and what may stand before it
  int words = 0;
  for (; words < kNounWords && place + 1 < s.size(); words++, place = skip_words(s, place, 1)) {
    if (starts_at(s, place, Words::item_unit)) return false;
    if (words == 0 && starts_at(s, place, Words::operators)) return false;
    if (starts_at(s, place, Words::after_noun)) break;
    if (verb == ListVerb::weak && starts_at(s, place, Words::list_noun)) return true;
    if (verb == ListVerb::english && is_english_plural(s, place)) return true;
  }
  return verb == ListVerb::other && words > 0;
}

bool is_list_count(const Sentence& s, const Count& count) {
  const size_t end = count.hit.end;  // "5 000" is one number
  return count.number <= kMostItems && end + 1 < s.size() && !isdigit(static_cast<unsigned char>(s[end + 1]));
}

// Whether a request for something else opens a sentence: a list would not be how its answer begins.
bool opens_otherwise(const Sentence& s) {
  return opens_with(s, Words::code_verb) || opens_with(s, Words::whole_text);
}

// "List 5 fruits", "name me the top ten rivers", "give us 4 good tips for".
std::optional<int> counted_after(const Sentence& whole, const Sentence& wanted, Words verbs, ListVerb kind) {
  for (const Hit& verb : find_all(wanted, verbs)) {
    const Sentence ahead = wanted.substr(0, verb.begin) + " ";
    if (before(wanted, verb.begin, 1, Words::told) || opens_otherwise(ahead) ||
        opens_with(ahead, Words::explain))
      continue;
    const auto count = find_count(whole, verb.end, 6);
    if (!count || !is_list_count(whole, *count)) continue;
    const Sentence between = whole.substr(verb.end, count->hit.begin - verb.end) + " ";
    if (consists_of(between, {Words::before_count}, false) && are_items(whole, count->hit.end, kind))
      return count->number;
  }
  return std::nullopt;
}

// Where verbs come last; of several counts the one closest to the verb.
std::optional<int> counted_before(const Sentence& whole, const Sentence& wanted, Words verbs, bool weak) {
  const auto verb = find(wanted, verbs);
  if (!verb) return std::nullopt;
  std::optional<Count> count;
  for (auto next = find_count(whole, 0, 20); next && next->hit.end <= verb->begin;
       next = find_count(whole, next->hit.end, 20))
    count = next;
  if (!count || !is_list_count(whole, *count)) return std::nullopt;
  const Hit hit = count->hit;
  if (wanted[verb->begin] == ' ') {  // German
    const bool object =
        before(whole, hit.begin, 1, Words::before_count) || before(whole, hit.begin, 1, Words::polite);
    return object && are_items(whole, hit.end, ListVerb::other) ? std::optional(count->number) : std::nullopt;
  }
  const auto counter = starts_at(whole, hit.end, Words::counter);
  if (!counter && whole[hit.begin] == ' ') return std::nullopt;
  const size_t end = counter ? counter->end : hit.end;
  constexpr std::string_view kOf = "\xE3\x81\xAE";  // no: "3 of fruits"
  const bool direct = verb->begin == end;
  const bool of = whole.compare(end, kOf.size(), kOf) == 0 &&
                  (!weak || starts_at(whole, end + kOf.size(), Words::list_noun));
  return direct || of ? std::optional(count->number) : std::nullopt;
}

std::optional<AskedForm> list_of(const Sentence& whole, const Sentence& wanted) {
  auto items = counted_after(whole, wanted, Words::list_verb, ListVerb::english);
  if (!items) items = counted_after(whole, wanted, Words::list_verb_other, ListVerb::other);
  if (!items) items = counted_after(whole, wanted, Words::list_weak, ListVerb::weak);
  if (!items) items = counted_before(whole, wanted, Words::list_after, false);
  if (!items) items = counted_before(whole, wanted, Words::list_after_weak, true);
  return items ? std::optional(asked(AnswerForm::list, {}, *items)) : std::nullopt;
}

}  // namespace

std::string_view name_of(AnswerForm form) {
  switch (form) {
    case AnswerForm::plain:
      return "plain text";
    case AnswerForm::json:
      return "JSON";
    case AnswerForm::code:
      return "code";
    case AnswerForm::sql:
      return "SQL";
    case AnswerForm::translation:
      return "a translation";
    case AnswerForm::table:
      return "a table";
    case AnswerForm::list:
      return "a list";
    case AnswerForm::tool_call:
      return "a tool call";
  }
  return "";
}

AskedForm asked_form(const FormRequest& request) {
  if (request.tool_required) return {AnswerForm::tool_call, {}, 0, "a tool must be called"};
  if (request.json_format) return {AnswerForm::json, {}, 0, "response_format asks for JSON"};
  if (request.tools) return {AnswerForm::plain, {}, 0, "tools are offered, so the answer may be a call"};

  const Request read = read_request(request.user);
  std::optional<AskedForm> code;
  for (const Sentence& sentence : read.wanted) {
    // How to answer is said after what to do: "Write a function. Return JSON with the key code."
    const bool json = is_json_format(sentence) || is_json_object(sentence);
    const auto here = code_of(sentence, read);
    if (json && !here && (!code || opens_with(sentence, Words::make))) return asked(AnswerForm::json);
    if (here && !code) code = here;
  }
  if (code) return *code;
  for (const Sentence& sentence : read.wanted)
    if (is_table(sentence)) return asked(AnswerForm::table);
  bool otherwise = false;
  for (size_t i = 0; i < read.sentences.size(); i++) {
    const Sentence &whole = read.sentences[i], &wanted = read.wanted[i];
    if (auto translation = translation_of(whole, wanted)) return *translation;
    const auto list = otherwise ? std::nullopt : list_of(whole, wanted);
    if (list) return *list;
    otherwise |= opens_otherwise(wanted);
  }
  return {AnswerForm::plain, {}, 0, "the message asks for no form"};
}

}  // namespace anabranch::text
