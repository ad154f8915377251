// Chat templates in the Jinja subset that models use. A rendered prompt consists of pieces that record
// whether the template or a message wrote them. A template is immutable after parsing and safe to share
// between threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/prompt_piece.h"
#include "base/result.h"

namespace anabranch {

struct TemplateOptions {
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;  // unset: the variable is undefined in the template
  Json extra = Json::object();          // chat_template_kwargs: further variables
  std::optional<int64_t> now;           // seconds since 1970 for strftime_now (local time); unset: the clock
};

class ChatTemplate {
 public:
  // bos, eos: the tokens' text, for the variables bos_token and eos_token.
  // Errors: invalid, with line and column; exhausted (larger or deeper than jinja/limits.h allows).
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source, std::string bos,
                                                           std::string eos);
  virtual ~ChatTemplate() = default;

  // messages: array of OpenAI messages; tools: array, or null. Messages are adapted to the template first.
  // The `arguments` string of a tool call is parsed into an object; if rendering then fails, it is tried
  // again with the string. Text parts are joined to one string if the template takes no parts. A missing
  // reasoning_content is filled from `thinking` or `reasoning`; templates that read reasoning only as a part
  // of type "thinking" (Ministral 3) get that part. Tools without a description get an empty one, and a
  // template without tools gets an empty list, if rendering fails otherwise. Only text of the template
  // itself, bos, eos and usual role names become trusted pieces. Errors: invalid (the message of
  // raise_exception, unchanged; or a type error with line and column), exhausted (output or work beyond the
  // limits in jinja/limits.h).
  virtual Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                                  const TemplateOptions& options) const = 0;
  // Whether the template's source mentions a variable ("enable_thinking", "tools").
  virtual bool mentions(std::string_view variable) const = 0;
};

// The text of all pieces.
std::string join(const std::vector<PromptPiece>& pieces);

}  // namespace anabranch
