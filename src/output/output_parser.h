// Splits a model's output into reasoning, tool calls and content while it streams.
#pragma once

#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/call_scanner.h"
#include "output/output_format.h"
#include "output/tool_call.h"

namespace anabranch {

struct OutputEvent {
  enum class Kind { reasoning, content, call_begin, call_arguments, call_end };
  Kind kind = Kind::content;
  std::string text;   // the piece; for call_begin, the function's name
  int call = -1;      // for the call_... kinds: number of the call, from 0
  bool whole = true;  // for call_end: the arguments are; otherwise they end early
  bool operator==(const OutputEvent&) const = default;
};

struct OutputRules {
  OutputFormat format;
  // OpenAI's array. Without tools, text that looks like a call is content.
  std::shared_ptr<const Json> tools;
  bool thinking_open = false;  // the prompt ends inside a reasoning block
  int max_calls = INT_MAX;     // the output ends after this many
  // Markers that are tokens of the vocabulary. They count only where mark() reports such a token; the same
  // characters spelled with other tokens are text.
  std::vector<std::string> tokens = {};
  bool goes_on = false;     // the output continues a thought or an answer that the prompt ends with
  bool only_calls = false;  // the answer consists of calls only
  bool keep_stop = false;   // the text ends with the stop string or the text of the stop token, not before it
  int min_tokens = 0;       // stop strings do not count that end in these first tokens of the answer
  std::vector<int> stop_tokens = {};  // each ends the output, also within a thought
  bool exact = false;                 // a grammar writes the calls: the tags have no slips
  bool reads_calls() const { return tools && tools->is_array() && !tools->empty(); }
};

// All markers that may be tokens. The detokenizer must not drop their text: the parser needs it.
std::vector<std::string_view> marker_tokens(const OutputRules& rules);

// However the text is cut into pushes, the joined events are the same.
//
// - Reasoning tags appear in neither text; white space at the borders of a block (after either tag, before
//   the closing one, and before the opening one if nothing else came) is dropped, as is white space around
//   calls.
// - A call of a tool begins as soon as some of its arguments are certain (see CallScanner::begun); the rest
//   of them follows as it is written, as far as the model's format allows. Such a call is always reported. If
//   it is malformed, too long or cut off, its arguments end early, as no whole object, and the rest of its
//   block is dropped. Text behind whole calls that have no mark is content.
// - Other calls are reported when they are complete. One that is malformed or too long stays text, byte for
//   byte. An incomplete one that something else than the model cut is dropped, if it is certain to be a call.
// - A complete call without its closing mark counts, also in a list that lacks its bracket where the model
//   ended, and after a call a line that is only the mark that closes a block is no text.
// - An answer in JSON may be a call where the model's format says so, and so may a fence at its end, if
//   no other fence with a call came before it: then all of them are shown.
// - A call inside a reasoning block counts only if the block is never closed. Until that is known, the text
//   after it is held back.
class OutputParser {
 public:
  explicit OutputParser(OutputRules rules);
  // Reports that one of `tokens` begins at byte `at` of the whole text. Call it before that text is pushed.
  void mark(size_t at) { marks_.push_back(at); }
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  void push(std::string_view text, std::vector<OutputEvent>& out);
  // Call when no text follows. cut: the output was cut off, not ended by the model.
  void finish(std::vector<OutputEvent>& out, bool cut = false);
  // Whether the last allowed call was returned; no more events follow.
  bool done() const { return done_; }
  // Whether that was within a block of calls, which thus lacks its end.
  bool done_inside_block() const { return inside_block_; }

 private:
  enum class Marker { none, open, close, call, call_close };
  struct Found {
    Marker marker = Marker::none;
    // begin: where the marker begins; for `none`, the end of what is certainly text. size: bytes of the
    // marker; 0 for a call without one.
    size_t begin = 0, size = 0;
  };
  // Calls inside an open block, and the reasoning after them.
  struct Deferred {
    std::vector<ToolCall> calls;
    std::string raw, after;
  };

  void run(TextEnd end, std::vector<OutputEvent>& out);
  bool scan_call(TextEnd end, std::vector<OutputEvent>& out);
  Found find_marker(bool end) const;
  bool is_token(std::string_view marker) const;
  bool plain_may_begin(size_t at) const;
  bool begins_line(size_t at) const;
  Scan fenced_may_begin(size_t at) const;
  Scan call_close(size_t at, bool end) const;
  void cross(Marker tag, std::vector<OutputEvent>& out);
  void write(std::string_view text, std::vector<OutputEvent>& out);
  void write_now(std::string_view text, std::vector<OutputEvent>& out);
  void write_calls(const std::vector<ToolCall>& calls, bool last_is_partial, std::vector<OutputEvent>& out);
  void write_begun(std::vector<OutputEvent>& out);
  void write_ended(const std::vector<ToolCall>& calls, bool last_is_partial, std::vector<OutputEvent>& out);
  void write_call(const ToolCall& call, bool whole, std::vector<OutputEvent>& out);
  void resolve(bool as_calls, std::vector<OutputEvent>& out);

  OutputRules rules_;
  std::vector<std::string_view> openers_;  // empty: calls are not looked for
  std::string starts_;                     // the bytes that markers begin with
  bool plain_ = false;                     // an answer that begins with JSON may be a call
  bool inside_, trim_;                     // trim_: drop white space until something else comes
  bool blank_;                             // no content so far
  bool done_ = false;
  bool inside_block_ = false;  // see done_inside_block()
  bool closed_ = false;        // a call came, and no text since that a closing mark would belong to
  int calls_ = 0;
  std::string held_;  // from at_ on: text that is not decided yet
  size_t at_ = 0;
  size_t dropped_ = 0;         // bytes of the text before held_
  std::vector<size_t> marks_;  // ascending
  size_t text_until_ = 0;      // in held_: no call begins before it
  std::string spaces_;         // white space that may be the last before a border
  std::optional<CallScanner> scanner_;
  size_t written_ = 0;          // calls of the scanner's block that were written whole
  std::optional<size_t> sent_;  // bytes that were written of the arguments of a call that is not whole
  bool shown_ = false;          // a call in a fence turned out to be text
  bool certain_ = false;        // the text that the scanner reads cannot be an answer in JSON
  std::vector<Deferred> deferred_;
};

// A whole output at once.
struct ParsedOutput {
  std::string reasoning, content;
  std::vector<ToolCall> calls;

  void add(const OutputEvent& event);
  bool operator==(const ParsedOutput&) const = default;
};
ParsedOutput parse_output(std::string_view text, const OutputRules& rules);

}  // namespace anabranch
