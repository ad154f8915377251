#include "text/answer_form.h"

#include <fmt/core.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include "text/request_words.h"

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
  for (const Words verbs :
       {Words::make, Words::make_after, Words::convert, Words::translate, Words::list_verb})
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

std::optional<AskedForm> translation_of(const Sentence& s) {
  const auto verb = find(s, Words::translate);
  if (!verb || (verb->begin > 1 && opens_with(s, Words::explain))) return std::nullopt;
  std::string_view target;
  for (const Language& language : natural_languages(s)) {
    target = language.name;
    if (before(s, language.hit.begin, 1, Words::in)) break;
  }
  return asked(AnswerForm::translation, std::string(target));
}

bool counts_items(const Sentence& s, const Count& count) {
  const size_t end = count.hit.end;
  if (count.number > kMostItems || end + 1 >= s.size() || isdigit(static_cast<unsigned char>(s[end + 1])))
    return false;
  return after(s, end, 1, Words::counter) || !after(s, end, 1, Words::item_unit);
}

std::optional<AskedForm> list_of(const Sentence& s) {
  for (const Hit& verb : find_all(s, Words::list_verb)) {
    const auto count = find_count(s, verb.end, 4);
    if (count && counts_items(s, *count)) return asked(AnswerForm::list, {}, count->number);
  }
  const auto verb = find(s, Words::list_after);
  const auto count = verb ? find_count(s, 0, 20) : std::nullopt;
  if (count && count->hit.end <= verb->begin && counts_items(s, *count))
    return asked(AnswerForm::list, {}, count->number);
  return std::nullopt;
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
  for (const Sentence& sentence : read.sentences) {
    // How to answer is said after what to do: "Write a function. Return JSON with the key code."
    const bool json = is_json_format(sentence) || is_json_object(sentence);
    const auto here = code_of(sentence, read);
    if (json && !here && (!code || opens_with(sentence, Words::make))) return asked(AnswerForm::json);
    if (here && !code) code = here;
  }
  if (code) return *code;
  for (const Sentence& sentence : read.sentences)
    if (is_table(sentence)) return asked(AnswerForm::table);
  for (const Sentence& sentence : read.sentences) {
    if (auto translation = translation_of(sentence)) return *translation;
    if (auto list = list_of(sentence)) return *list;
  }
  return {AnswerForm::plain, {}, 0, "the message asks for no form"};
}

}  // namespace anabranch::text
