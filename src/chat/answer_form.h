// Which form of answer a request asks for, so that an answer which had to be started for the model starts in
// it.
#pragma once

#include <string>
#include <string_view>

namespace anabranch::text {

enum class AnswerForm { plain, json, code, sql, translation, table, list, tool_call };
std::string_view name_of(AnswerForm form);

// What the request says outside its text counts first.
struct FormRequest {
  std::string_view user;       // its last user message
  bool json_format = false;    // response_format is a JSON object or schema
  bool tools = false;          // tools are offered
  bool tool_required = false;  // and one must be called
};

struct AskedForm {
  AnswerForm form = AnswerForm::plain;
  std::string language;  // of code, as a fence names it, or of a translation, in English; empty: not said
  int items = 0;         // of a list
  std::string reason;    // for logs and reports
};

// By the words of word_table.h, which has nine languages. When in doubt it is plain: a wrong form steers an
// answer away, no form only leaves it to the model. So a count makes a list only right behind a verb that
// wants one ("list 5 fruits", "give me 3 tips"), of things rather than sentences, numbers or minutes; and
// what is negated asks for nothing. Reads at most the beginning and the end of a long message; what is quoted
// or in a code fence asks for nothing.
AskedForm asked_form(const FormRequest& request);

}  // namespace anabranch::text
