// Chooses how a thought that is cut leads into the answer, by the format of answer that the request asks for.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

struct EscapeRequest {
  std::string_view user;       // the last user message
  bool json_format = false;    // response_format is a JSON object or schema
  bool tools = false;          // tools are offered
  bool tool_required = false;  // a tool must be called
};

enum class EscapeFormat { plain, json, code, tool_call };

struct TypedEscape {
  EscapeFormat format = EscapeFormat::plain;
  std::string closing;       // the last words of the thought; empty: the engine's default
  std::string answer_start;  // the first characters of the answer, set for the model; often empty
  // Text within a thought that begins the answer: the thought ends there, and the answer starts with this
  // text and a line break. Empty: none.
  std::string answer_fence;
};

// The request's fields decide first, then the message: whether it asks for JSON, or for code. Negated and
// quoted words do not count. When in doubt the format is plain, because a wrong format spoils the answer.
TypedEscape typed_escape(const EscapeRequest& request);

}  // namespace anabranch
