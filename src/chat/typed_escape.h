// How a thought that is cut leads into the answer. The form of answer that the request asks for decides.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

struct EscapeRequest {
  std::string_view user;       // the last user message
  bool json_format = false;    // response_format is a JSON object or schema
  bool tools = false;          // tools are offered
  bool tool_required = false;  // one of them must be called
};

enum class EscapeForm { plain, json, code, tool_call };

struct TypedEscape {
  EscapeForm form = EscapeForm::plain;
  std::string closing;       // the last words of the thought; empty: the engine's own
  std::string answer_start;  // the first characters of the answer, written for the model. Often empty
  // Text within a thought that begins the answer: there the thought ends, and the answer starts with this
  // text and a line break. Empty: nothing does.
  std::string answer_fence;
};

// The fields of the request count first, then the message: what it asks for as JSON, or as code. Negated and
// quoted words ask for nothing. When in doubt the form is plain: a wrong form spoils the answer.
TypedEscape typed_escape(const EscapeRequest& request);

}  // namespace anabranch
