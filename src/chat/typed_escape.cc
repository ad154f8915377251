#include "chat/typed_escape.h"

#include <fmt/core.h>

#include <optional>

#include "chat/request_words.h"

namespace anabranch {
namespace {

TypedEscape escape(EscapeFormat format, std::string_view sentence, std::string answer_start = "") {
  return {format, fmt::format("\n\nThat is enough thought. {}\n", sentence), std::move(answer_start), ""};
}

// Whether a verb asks for these words: it is a few words before them with nothing like "about" between, or
// after them in languages whose verbs come last.
bool is_asked_for(const Sentence& sentence, Hit hit, std::string_view verbs, int within) {
  if (before(sentence, hit.begin, 2, "given")) return false;
  if (after(sentence, hit.end, 8, "make_after")) return true;
  for (int words = 1; words <= within; words++)
    if (before(sentence, hit.begin, words, verbs))
      return words == 1 || !before(sentence, hit.begin, words - 1, "about");
  return false;
}

bool asks_for_json(const Sentence& sentence) {
  const size_t at = sentence.find(" json ");
  if (at == sentence.npos || opens_with(sentence, "explain")) return false;
  const Hit hit{at, at + 5};
  if (before(sentence, hit.begin, 2, "given") || before(sentence, hit.begin, 1, "about") ||
      after(sentence, hit.end, 1, "explain"))
    return false;
  return is_asked_for(sentence, hit, "make", 4) || before(sentence, hit.begin, 3, "form_word") ||
         after(sentence, hit.end, 2, "form_word");
}

// The language of the code that the sentence asks for, or "" if none is named.
std::optional<std::string_view> asked_code(const Sentence& sentence) {
  if (opens_with(sentence, "explain")) return std::nullopt;
  const auto noun = find(sentence, "code_noun");
  const bool nouns = noun || find(sentence, "weak_noun");
  for (const auto& [name, hit, is_word] : code_names(sentence)) {
    if ((is_word && !nouns) || before(sentence, hit.begin, 2, "given")) continue;
    const bool in = before(sentence, hit.begin, 1, "form_word") || after(sentence, hit.end, 1, "form_word");
    if (in && (find(sentence, "code_verb") || find(sentence, "make_after"))) return name;
    if (is_asked_for(sentence, hit, nouns ? "make" : "code_verb", nouns ? 6 : 3)) return name;
  }
  if (noun && is_asked_for(sentence, *noun, "code_verb", 5)) return "";
  return std::nullopt;
}

}  // namespace

TypedEscape typed_escape(const EscapeRequest& request) {
  if (request.tool_required) return escape(EscapeFormat::tool_call, "I will call the tool now.");
  TypedEscape json = escape(EscapeFormat::json, "The answer is JSON and nothing else.");
  if (request.json_format) return json;
  if (request.tools) return {};  // the answer may be a call
  std::optional<std::string_view> code;
  bool bare = false;
  for (const Sentence& sentence : read_message(request.user).sentences) {
    bare |= find(sentence, "bare").has_value();
    const auto here = asked_code(sentence);
    // The format is requested after the task: "Write a function. Return JSON with the key code."
    if (asks_for_json(sentence) && !here && (!code || opens_with(sentence, "make"))) {
      if (!bare) json.answer_fence = "```json";
      return json;
    }
    if (!code) code = here;
  }
  if (!code) return {};
  if (code->empty()) return escape(EscapeFormat::code, "The answer is code.");
  return escape(EscapeFormat::code, fmt::format("The answer is code in {}.", *code),
                fmt::format("```{}\n", *code));
}

}  // namespace anabranch
