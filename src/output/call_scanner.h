// Reads one block of tool calls from its opening marker on, as it arrives.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "output/lenient_json.h"
#include "output/output_format.h"
#include "output/parameter_value.h"
#include "output/tool_call.h"
#include "output/tool_gemma.h"

namespace anabranch {

class CallScanner {
 public:
  // tools: OpenAI's array; must outlive the scanner. exact: see ValueScan.
  CallScanner(ToolForm form, const Json& tools, bool exact) : form_(form), tools_(&tools), exact_(exact) {}

  // text: the block so far, from its marker on; it grows from call to call.
  Scan advance(std::string_view text, TextEnd end);
  // After `complete`: the end of the block. After `broken`: the first byte that does not fit.
  size_t at() const { return at_; }
  // The calls of a complete block, at least one.
  const std::vector<ToolCall>& calls() const { return calls_; }

 private:
  enum class Step {
    opener,
    body,
    json,        // {"name": ...}
    after_json,  // the text after the JSON
    function,    // <function=
    function_name,
    parameter,
    parameter_name,
    value,
    after_function,
    mistral_name,
    call_id,
    arguments,  // an object after a name
    gemma_name,
    gemma_object,
    gemma_close,
    fence,  // ``` and a language
  };

  // Each function does one step. nullopt: the step is done, and step_ is the next one.
  std::optional<Scan> step();
  std::optional<Scan> opener();
  std::optional<Scan> body();
  std::optional<Scan> fence();
  std::optional<Scan> json();
  std::optional<Scan> after_json();
  std::optional<Scan> xml();
  std::optional<Scan> name_until(char stop, Step next);
  std::optional<Scan> parameter();
  std::optional<Scan> value();
  std::optional<Scan> after_function();
  std::optional<Scan> mistral_name();
  std::optional<Scan> call_id();
  std::optional<Scan> arguments();
  std::optional<Scan> gemma();
  std::optional<Scan> gemma_object();
  Scan at_end();
  // closers: brackets that the model left out at the end of `json`.
  bool take_calls(std::string_view json, const std::string& closers);
  bool take_function();
  void take_argument();

  // Whether `literal` is at at_; if so (`complete`), moves past it.
  Scan match(std::string_view literal);
  // Skips white space; false if the text ends there.
  bool next();

  ToolForm form_;
  const Json* tools_;
  bool exact_;
  Step step_ = Step::opener;
  std::string_view text_;
  size_t at_ = 0;
  TextEnd end_ = TextEnd::none;
  size_t begin_ = 0;  // of the JSON value, parameter or name being read
  bool fenced_ = false;
  std::optional<LenientScan> json_;
  std::optional<GemmaScan> gemma_;
  std::optional<ValueScan> value_;
  std::string name_, key_;
  std::set<std::string, std::less<>> expected_;  // parameters of name_ that it does not have yet
  std::vector<std::pair<std::string, std::string>> arguments_;  // of <parameter=...>: name, JSON
  std::vector<ToolCall> calls_;
};

}  // namespace anabranch
