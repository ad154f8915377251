#include "chat/think_escapes.h"

#include <fmt/format.h>

namespace anabranch {
namespace {

using text::AnswerForm;

// Starts end before white space, since the words after it are tokens that begin with it. "{}": the detail
// that was asked for (a language, a number of items); texts that need one are empty where there is none.
struct Escape {
  AnswerForm form;
  const char *says, *says_with;
  const char *start, *start_with;
};
constexpr Escape kEscapes[] = {
    // An object or an array: the model knows.
    {AnswerForm::json, "The answer is JSON and nothing else.", nullptr, "", nullptr},
    {AnswerForm::code, "The answer is code.", "The answer is code in {}.", "", "```{}\n"},
    {AnswerForm::sql, "The answer is an SQL query.", nullptr, "```sql\n", nullptr},
    {AnswerForm::translation, "The answer is the translation.", "The answer is the translation into {}.", "",
     ""},
    {AnswerForm::table, "The answer is a table.", nullptr, "|", nullptr},
    {AnswerForm::list, "The answer is a list.", "The answer is a list of {}.", "", "1."},
    {AnswerForm::tool_call, "I will call the tool now.", nullptr, "", nullptr},
};

std::string detail_of(const text::AskedForm& asked) {
  if (asked.form != AnswerForm::list) return asked.language;
  return asked.items > 1 ? std::to_string(asked.items) : "";
}

}  // namespace

ThinkEscape think_escape(const text::AskedForm& asked) {
  for (const Escape& escape : kEscapes) {
    if (escape.form != asked.form) continue;
    const std::string detail = detail_of(asked);
    const bool with = !detail.empty() && escape.says_with;
    const auto fill = [&](const char* text) { return fmt::format(fmt::runtime(text), detail); };
    return {fmt::format("\n\nThat is enough thought. {}\n", fill(with ? escape.says_with : escape.says)),
            fill(with ? escape.start_with : escape.start)};
  }
  return {};
}

}  // namespace anabranch
