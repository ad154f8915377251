#include "output/output_parser.h"

#include <algorithm>
#include <utility>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/fenced_call.h"
#include "output/message_reader.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

using Kind = OutputEvent::Kind;

void append(Kind kind, std::string_view text, std::vector<OutputEvent>& out) {
  if (text.empty()) return;
  if (out.empty() || out.back().kind != kind) out.push_back({kind, "", -1});
  out.back().text += text;
}

std::string without_tags(std::string_view text, const ReasoningTags& tags) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto here = text.substr(i);
    if (here.substr(0, tags.open.size()) == tags.open)
      i += tags.open.size();
    else if (here.substr(0, tags.close.size()) == tags.close)
      i += tags.close.size();
    else
      out += text[i++];
  }
  return out;
}

bool blanks_before(const OutputRules& rules) {
  return rules.format.reasoning && rules.format.reasoning->blanks_before;
}

}  // namespace

std::vector<std::string_view> marker_tokens(const OutputRules& rules) {
  const OutputFormat& format = rules.format;
  const ToolFormat tools = rules.reads_calls() ? format.tools : ToolFormat::none;
  std::vector<std::string_view> all = call_openers(tools);
  const auto add = [&](std::initializer_list<std::string_view> more) { all.insert(all.end(), more); };
  if (format.reasoning) {
    all.push_back(format.reasoning->open);
    all.push_back(format.reasoning->close);
    if (!format.reasoning->open_token.empty()) all.push_back(format.reasoning->open_token);
  }
  if (format.reasoning && format.reasoning->are_messages())
    all.insert(all.end(), std::begin(kMessageMarks), std::end(kMessageMarks));
  if (const auto closer = call_closer(tools); !closer.empty()) all.push_back(closer);
  if (tools == ToolFormat::mistral) add({"[ARGS]", "[CALL_ID]"});
  if (tools == ToolFormat::listed) add({kListClose});
  if (tools == ToolFormat::gemma4) add({"<tool_call|>", "<|\"|>"});
  if (tools == ToolFormat::function_gemma) add({"<end_function_call>", "<escape>"});
  for (const std::string_view mark : inner_tags(tools)) all.push_back(mark);
  return all;
}

OutputParser::OutputParser(OutputRules rules)
    : rules_(std::move(rules)),
      inside_(rules_.thinking_open),
      trim_((rules_.thinking_open || blanks_before(rules_)) && !rules_.goes_on),
      blank_(rules_.thinking_open || !rules_.goes_on) {
  const bool calls = rules_.reads_calls();
  if (calls) openers_ = call_openers(rules_.format.tools);
  plain_ = calls && (rules_.format.tools == ToolFormat::plain || rules_.format.tags_have_json());
  if (calls && rules_.format.tags_have_json()) openers_.push_back(kToolsOpen);
  for (const std::string_view opener : openers_) starts_ += opener[0];
  if (plain_) starts_ += "{[`";
  if (const auto& tags = rules_.format.reasoning) starts_ += {tags->open[0], tags->close[0]};
}

void OutputParser::push(std::string_view text, std::vector<OutputEvent>& out) {
  if (done_) return;
  held_ += text;
  run(TextEnd::none, out);
  held_.erase(0, at_);
  text_until_ -= std::min(text_until_, at_);
  dropped_ += std::exchange(at_, 0);
  marks_.erase(marks_.begin(), std::lower_bound(marks_.begin(), marks_.end(), dropped_));
}

void OutputParser::finish(std::vector<OutputEvent>& out, bool cut) {
  if (done_) return;
  run(cut ? TextEnd::cut : TextEnd::by_model, out);
  held_.clear();
  at_ = text_until_ = 0;
  resolve(true, out);
  if (!inside_ && !trim_) append(Kind::content, spaces_, out);
  spaces_.clear();
}

void OutputParser::run(TextEnd end, std::vector<OutputEvent>& out) {
  while (!done_) {
    if (scanner_) {
      if (!scan_call(end, out)) return;
      continue;
    }
    const Found found = find_marker(end != TextEnd::none);
    write(std::string_view(held_).substr(at_, found.begin - at_), out);
    at_ = found.begin;
    if (found.marker == Marker::none) return;
    if (found.marker == Marker::call) {
      const bool tools = held_.compare(at_, found.size, kToolsOpen) == 0;
      certain_ = rules_.only_calls || (found.size > 0 && !tools);
      const ToolFormat format = found.size == 0 ? ToolFormat::plain
                                : tools         ? ToolFormat::tools
                                                : rules_.format.tools;
      // A call in a fence behind other text counts only if nothing follows.
      const bool streams = !inside_ && (found.size > 0 || plain_may_begin(at_));
      scanner_.emplace(format, *rules_.tools, rules_.exact, streams);
    } else if (found.marker == Marker::call_close) {
      at_ += found.size;
      trim_ = true;
    } else {
      at_ += found.size;
      cross(found.marker, out);
    }
  }
}

// Lets the scanner read the call that begins at at_, and takes its result. False: more text is needed.
bool OutputParser::scan_call(TextEnd end, std::vector<OutputEvent>& out) {
  const auto rest = std::string_view(held_).substr(at_);
  auto most = rest.substr(0, kMaxCallBytes);
  most.remove_suffix(unfinished_utf8_tail(most));
  Scan scan = scanner_->advance(most, TextEnd::none);
  const bool full = rest.size() >= kMaxCallBytes;
  if (scan == Scan::more && full) scanner_->stop();
  if (scan == Scan::more && (!full || scanner_->streamed())) {
    if (full || end != TextEnd::none) scan = scanner_->advance(rest, end);
    if (scan == Scan::more) {
      if (scanner_->streamed()) write_begun(out);
      return false;
    }
    if (scan != Scan::complete && end == TextEnd::cut && certain_) {
      spaces_.clear();
      at_ = held_.size();
      scanner_.reset();
      return true;
    }
  }
  const size_t length = scan == Scan::more ? kMaxCallBytes : scanner_->at();
  size_t all = static_cast<size_t>(calls_) + scanner_->calls().size();
  for (const Deferred& one : deferred_) all += one.calls.size();
  if (scan != Scan::complete || (all > kMaxCalls && !scanner_->streamed())) {
    text_until_ = at_ + length;
    closed_ = false;
    shown_ = shown_ || fenced_call_head(rest, *rules_.tools) == Scan::complete;
    // Llama also writes it before code. It is a marker, not text.
    constexpr std::string_view kPython = "<|python_tag|>";
    if (rest.substr(0, kPython.size()) == kPython) at_ += kPython.size();
  } else if (inside_) {
    deferred_.push_back({scanner_->calls(), std::string(rest.substr(0, length)), ""});
    at_ += length;
  } else {
    const bool partial = scanner_->last_is_partial();
    write_calls(scanner_->calls(), partial, out);
    if (end == TextEnd::cut && partial) done_ = false;  // the limit ended it, not the call
    at_ += length;
  }
  scanner_.reset();
  return true;
}

// Whether the answer so far is empty, up to held_[at].
bool OutputParser::plain_may_begin(size_t at) const {
  return plain_ && !inside_ && blank_ && calls_ == 0 &&
         std::all_of(held_.begin() + static_cast<long>(at_), held_.begin() + static_cast<long>(at), is_space);
}

// Whether nothing but white space stands before held_[at] in its line, or since a mark.
bool OutputParser::begins_line(size_t at) const {
  const auto before = std::string_view(held_).substr(at_, at - at_);
  const auto spaces = before.substr(before.find_last_not_of(kSpace) + 1);
  if (spaces.find('\n') != std::string_view::npos) return true;
  return spaces.size() == before.size() && (trim_ || spaces_.find('\n') != std::string::npos);
}

// Whether held_[at] begins a line with a fence that begins like a call of a tool.
Scan OutputParser::fenced_may_begin(size_t at) const {
  if (!plain_ || inside_ || calls_ > 0 || shown_) return Scan::broken;
  if (!begins_line(at)) return Scan::broken;
  return fenced_call_head(std::string_view(held_).substr(at), *rules_.tools);
}

// Whether held_[at] begins a line that is only the closing mark of calls, and closes nothing.
Scan OutputParser::call_close(size_t at, bool end) const {
  const std::string_view mark = call_closer(rules_.format.tools);
  if (mark.empty() || inside_ || !closed_) return Scan::broken;
  if (!begins_line(at)) return Scan::broken;
  const auto here = std::string_view(held_).substr(at);
  if (const Scan found = begins_with(here, mark); found != Scan::complete) return found;
  const size_t behind = here.find_first_not_of(" \t\r", mark.size());
  if (behind == std::string_view::npos) return end ? Scan::complete : Scan::more;
  return here[behind] == '\n' ? Scan::complete : Scan::broken;
}

bool OutputParser::is_token(std::string_view marker) const {
  return std::find(rules_.tokens.begin(), rules_.tokens.end(), marker) != rules_.tokens.end();
}

OutputParser::Found OutputParser::find_marker(bool end) const {
  const std::string_view text = held_;
  const bool full = calls_ >= kMaxCalls;  // no further call would count
  for (size_t i = at_; (i = text.find_first_of(starts_, i)) != std::string_view::npos; ++i) {
    const auto here = text.substr(i);
    const bool marked = std::binary_search(marks_.begin(), marks_.end(), dropped_ + i);
    bool may = false;
    // token: the token that the marker begins with, if that is a token of the vocabulary.
    const auto stands = [&](std::string_view marker, std::string_view token) {
      if (!marked && is_token(token)) return false;
      if (here.substr(0, marker.size()) == marker) return true;
      may = may || marker.substr(0, here.size()) == here;
      return false;
    };
    if (const auto& tags = rules_.format.reasoning) {
      const std::string_view first = tags->open_token.empty() ? tags->open : tags->open_token;
      if (stands(tags->open, first)) return {Marker::open, i, tags->open.size()};
      if (stands(tags->close, tags->close)) return {Marker::close, i, tags->close.size()};
    }
    const std::string_view closer = call_closer(rules_.format.tools);
    const Scan close = !full && (marked || !is_token(closer)) ? call_close(i, end) : Scan::broken;
    if (close == Scan::complete) return {Marker::call_close, i, closer.size()};
    may = may || close == Scan::more;
    if (i >= text_until_ && !full) {
      for (const std::string_view opener : openers_)
        if (stands(opener, opener)) return {Marker::call, i, opener.size()};
      if (plain_may_begin(i) && (here[0] == '{' || here[0] == '[' || stands("```", "")))
        return {Marker::call, i, 0};
      const Scan fenced = here[0] == '`' ? fenced_may_begin(i) : Scan::broken;
      if (fenced == Scan::complete) return {Marker::call, i, 0};
      may = may || fenced == Scan::more;
    }
    if (may && !end) return {Marker::none, i, 0};
  }
  return {Marker::none, text.size(), 0};
}

// After a reasoning tag, which run() has removed: what follows is reasoning or content. The tag may change
// nothing: some models close twice, or open a block that the template has opened already.
void OutputParser::cross(Marker tag, std::vector<OutputEvent>& out) {
  resolve(tag == Marker::open, out);
  // White space alone, before a thought, belongs to the thought.
  if (!inside_ && !(blank_ && tag == Marker::open)) append(Kind::content, spaces_, out);
  spaces_.clear();
  inside_ = tag == Marker::open;
  trim_ = true;
}

void OutputParser::write(std::string_view text, std::vector<OutputEvent>& out) {
  if (inside_ && !deferred_.empty())
    deferred_.back().after += text;
  else
    write_now(text, out);
}

void OutputParser::write_now(std::string_view text, std::vector<OutputEvent>& out) {
  if (trim_) {
    const auto first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return;
    text.remove_prefix(first);
    trim_ = false;
  }
  const Kind kind = inside_ ? Kind::reasoning : Kind::content;
  const auto last = text.find_last_not_of(kSpace);
  if (!inside_ && last != std::string_view::npos) blank_ = false;
  // White space in content is held back only if calls, or the first thought, may follow.
  if (!inside_ && openers_.empty() && !(blank_ && rules_.format.reasoning)) {
    append(kind, std::exchange(spaces_, ""), out);
    return append(kind, text, out);
  }
  if (last == std::string_view::npos) {
    spaces_ += text;
    return;
  }
  append(kind, spaces_, out);
  append(kind, text.substr(0, last + 1), out);
  spaces_ = text.substr(last + 1);
}

// Writes the calls of a whole block, except for what write_begun() has written.
void OutputParser::write_calls(const std::vector<ToolCall>& calls, bool last_is_partial,
                               std::vector<OutputEvent>& out) {
  write_ended(calls, last_is_partial, out);
  written_ = 0;
  done_ = calls_ >= rules_.max_calls;
}

void OutputParser::write_begun(std::vector<OutputEvent>& out) {
  write_ended(scanner_->calls(), scanner_->last_is_partial(), out);
  if (!sent_ && calls_ >= rules_.max_calls) {
    done_ = inside_block_ = !scanner_->at_close();
    if (done_) scanner_.reset();
  } else if (const ToolCall* begun = scanner_->begun()) {
    write_call(*begun, false, out);
  }
}

// Writes the calls that nothing more comes of.
void OutputParser::write_ended(const std::vector<ToolCall>& calls, bool last_is_partial,
                               std::vector<OutputEvent>& out) {
  spaces_.clear();
  trim_ = closed_ = true;
  for (; written_ < calls.size(); ++written_) {
    const size_t before = out.size();
    write_call(calls[written_], true, out);
    const bool partial = last_is_partial && written_ + 1 == calls.size();
    if (out.size() > before) out.back().whole = !partial;
  }
}

void OutputParser::write_call(const ToolCall& call, bool whole, std::vector<OutputEvent>& out) {
  if (!sent_) {
    if (calls_ >= std::min(rules_.max_calls, kMaxCalls)) return;
    out.push_back({Kind::call_begin, call.name, calls_++});
    sent_ = 0;
  }
  const int index = calls_ - 1;
  if (*sent_ < call.arguments.size())
    out.push_back({Kind::call_arguments, call.arguments.substr(*sent_), index});
  sent_ = call.arguments.size();
  if (!whole) return;
  out.push_back({Kind::call_end, "", index});
  sent_.reset();
}

void OutputParser::resolve(bool as_calls, std::vector<OutputEvent>& out) {
  for (const Deferred& one : deferred_) {
    if (done_) break;
    if (as_calls)
      write_calls(one.calls, false, out);
    else
      write_now(without_tags(one.raw, *rules_.format.reasoning), out);
    if (!done_) write_now(one.after, out);
  }
  deferred_.clear();
}

void ParsedOutput::add(const OutputEvent& event) {
  switch (event.kind) {
    case Kind::reasoning:
      reasoning += event.text;
      break;
    case Kind::content:
      content += event.text;
      break;
    case Kind::call_begin:
      calls.push_back({event.text, ""});
      break;
    case Kind::call_arguments:
      calls.back().arguments += event.text;
      break;
    case Kind::call_end:
      break;
  }
}

ParsedOutput parse_output(std::string_view text, const OutputRules& rules) {
  OutputParser parser(rules);
  std::vector<OutputEvent> events;
  parser.push(text, events);
  parser.finish(events);
  ParsedOutput parsed;
  for (const OutputEvent& event : events) parsed.add(event);
  return parsed;
}

}  // namespace anabranch
