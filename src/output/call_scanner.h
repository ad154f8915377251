// Reads one block of tool calls from its opening marker on, as it arrives.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "output/call_list.h"
#include "output/lenient_json.h"
#include "output/output_format.h"
#include "output/parameter_value.h"
#include "output/tool_call.h"
#include "output/tool_gemma.h"
#include "output/tool_python.h"

namespace anabranch {

class CallScanner {
 public:
  // tools: OpenAI's array; must outlive the scanner. exact: see ValueScan. streams: calls may begin before
  // they are complete.
  CallScanner(ToolFormat format, const Json& tools, bool exact, bool streams)
      : format_(format), tools_(&tools), exact_(exact), streams_(streams) {}

  // text: the block so far, from its marker on; it grows from call to call.
  Scan advance(std::string_view text, TextEnd end);
  // After `complete`: the end of the block. After `broken`: the first byte that does not fit.
  size_t at() const { return at_; }
  // The calls of a complete block, at least one.
  const std::vector<ToolCall>& calls() const { return calls_; }
  // The call that has begun and is not complete yet, with the arguments so far; null: none. What it holds
  // stays as it is, and only grows. If the rest turns out to be no call, or is missing, its arguments end
  // there, and the rest of the block is dropped.
  const ToolCall* begun() const;
  // Ends a block with such a call, of which nothing more is to be read.
  void stop();
  // Whether the last of calls() had begun, and is not whole.
  bool last_is_partial() const { return last_is_partial_; }
  // Whether a call of this block has begun before it was complete. Then the block is never `broken`.
  bool streamed() const { return streamed_; }
  // If the text ends where a further call of the block begins, before its name: this beginning, which may be
  // empty.
  std::optional<std::string_view> further_call() const;
  // Whether the last call is whole, and only the end of its block is missing, as far as is known.
  bool at_close() const;

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
    close,
    pair_name,  // of a call in the format's PairTags
    pair_key,
    pair_value,
    after_pairs,
    python_name,
    python_arguments,
    after_python,
    named_name,  // of a call in the format's NameTags
    named_close,
    after_named,
    fence,  // ``` and a language
    rest,   // of a block whose call has begun and then broke
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
  std::optional<Scan> close();
  std::optional<Scan> gemma_object();
  // Those of call_pairs.cc.
  std::optional<Scan> pairs();
  std::optional<Scan> pair_name();
  std::optional<Scan> pair_key();
  std::optional<Scan> pair_value();
  Scan quoted_value();
  std::optional<Scan> after_pairs();
  // Those of call_python.cc.
  std::optional<Scan> python();
  std::optional<Scan> python_name();
  std::optional<Scan> python_arguments();
  std::optional<Scan> after_python();
  // Those of call_named.cc.
  std::optional<Scan> named();
  std::optional<Scan> named_name();
  std::optional<Scan> named_close();
  std::optional<Scan> after_block(std::string_view call_open, std::string_view block_close, Step next);
  Scan rest();
  Scan at_end();
  void give_up();
  void note_begun() { streamed_ = streamed_ || begun(); }
  // Each adds what has become certain of the arguments to open_.
  void send_text(std::string_view certain);
  void send(std::string_view json);
  std::string member_start() const;
  // closers: brackets that the model left out at the end of `json`.
  bool take_calls(std::string_view json, const std::string& closers);
  std::optional<ToolCall> call_in(std::string_view json, bool strict) const;
  bool describes_tool(std::string_view json) const;
  bool take_function();
  void take_argument(std::string_view value);
  void keep_argument(std::string json);
  void begin_function(std::string_view name);
  void begin_parameter(std::string_view name);
  bool skip_structure();

  // Whether `literal` is at at_; if so (`complete`), moves past it.
  Scan match(std::string_view literal);
  // Skips white space; false if the text ends there.
  bool next();

  ToolFormat format_;
  const Json* tools_;
  bool exact_, streams_;
  Step step_ = Step::opener;
  std::string_view text_;
  size_t at_ = 0;
  TextEnd end_ = TextEnd::none;
  size_t begin_ = 0;  // of the JSON value, parameter or name being read
  bool fenced_ = false;
  std::optional<LenientScan> json_;
  std::optional<GemmaArguments> gemma_;
  std::optional<PythonScan> python_;
  bool list_open_ = false;  // the bracket of a list in Python's notation is open
  std::optional<ValueScan> value_;
  std::string name_, key_;
  std::set<std::string, std::less<>> expected_;  // parameters of name_ that it does not have yet
  std::vector<std::pair<std::string, std::string>> arguments_;  // of <parameter=...>: name, JSON
  std::vector<ToolCall> calls_;
  std::optional<CallList> list_;        // the calls in JSON
  std::optional<PartialCall> partial_;  // the call with its name before the JSON
  ToolCall open_;                       // a call in another format, with what is certain of its arguments
  bool offered_ = false;                // open_ names a tool
  bool streamed_ = false;               // see streamed()
  bool last_is_partial_ = false;
  bool is_text_ = false;    // the parameter can only be a string
  bool says_text_ = false;  // the call says that it is a string
  size_t text_sent_ = 0;    // bytes of the parameter's text that are in open_
};

}  // namespace anabranch
