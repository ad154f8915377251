#include "output/call_scanner.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/message_reader.h"
#include "output/tool_names.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

constexpr size_t kMaxParameters = 1024;
constexpr size_t kMaxLanguageBytes = 32;  // after ```

bool is_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.' || c == '/' || c == ':' || static_cast<unsigned char>(c) >= 0x80;
}

bool is_gemma(ToolFormat format) {
  return format == ToolFormat::gemma4 || format == ToolFormat::function_gemma;
}

const GemmaMarks& gemma_marks(ToolFormat format) {
  static constexpr GemmaMarks kFour{"<|\"|>", "<tool_call|>"}, kFunction{"<escape>", "<end_function_call>"};
  return format == ToolFormat::gemma4 ? kFour : kFunction;
}

}  // namespace

Scan CallScanner::advance(std::string_view text, TextEnd end) {
  text_ = text;
  end_ = end;
  for (;;) {
    const auto result = step();
    if (!result) continue;
    const Scan scan = *result == Scan::more && end != TextEnd::none ? at_end() : *result;
    if (scan != Scan::broken || !streamed_) return scan;
    // Text may follow whole calls without a mark. A call that was cut there is dropped.
    if (format_ == ToolFormat::plain && !(list_ && list_->has_begun())) {
      at_ = end == TextEnd::cut && step_ == Step::json ? text_.size() : begin_;
      return Scan::complete;
    }
    give_up();
  }
}

// A call that has begun cannot become text any more.
void CallScanner::give_up() {
  if (const ToolCall* call = begun()) {
    calls_.push_back(*call);
    last_is_partial_ = true;
  }
  open_ = {};
  list_.reset();
  partial_.reset();
  step_ = Step::rest;
}

void CallScanner::stop() {
  if (!streamed_ || step_ == Step::rest) return;
  give_up();
  at_ = text_.size();
}

// Drops text up to the closing mark, or to the next call.
Scan CallScanner::rest() {
  const std::string_view close = format_ == ToolFormat::messages ? kMessageCallClose
                                 : is_gemma(format_)             ? gemma_marks(format_).call_end
                                                                 : call_closer(format_);
  size_t end = close.empty() ? text_.npos : text_.find(close, at_);
  size_t next = end == text_.npos ? end : end + close.size(), longest = close.size();
  for (const std::string_view opener : call_openers(format_)) {
    if (const size_t other = text_.find(opener, at_); other < end) end = next = other;
    longest = std::max(longest, opener.size());
  }
  // What was searched is not searched again, but for the beginning of a mark.
  at_ = end != text_.npos ? next : std::max(at_, text_.size() - std::min(text_.size(), longest - 1));
  return end == text_.npos ? Scan::more : Scan::complete;
}

const ToolCall* CallScanner::begun() const {
  if (list_ && list_->begun()) return &list_->begun()->sent();
  if (partial_ && partial_->has_begun()) return &partial_->sent();
  return open_.arguments.size() >= kHeldBytes ? &open_ : nullptr;
}

void CallScanner::send(std::string_view json) {
  open_.arguments += json;
  note_begun();
}

// text: what is certain of the parameter's value.
void CallScanner::send_text(std::string_view text) {
  if (!is_text_ || text.size() <= text_sent_) return;
  if (text_sent_ == 0) send(member_start() + '"');
  const std::string quoted = json_string(text.substr(text_sent_));
  send(std::string_view(quoted).substr(1, quoted.size() - 2));
  text_sent_ = text.size();
}

std::string CallScanner::member_start() const {
  return (open_.arguments.size() > 1 ? ", " : "") + json_string(key_) + ": ";
}

bool CallScanner::at_close() const {
  return step_ == Step::after_json || step_ == Step::after_function || step_ == Step::close ||
         step_ == Step::after_pairs || step_ == Step::after_python || step_ == Step::named_close ||
         step_ == Step::after_named;
}

// The model may stop after a whole call without closing the block.
Scan CallScanner::at_end() {
  bool whole = step_ == Step::rest || at_close() || (step_ == Step::body && format_ == ToolFormat::plain);
  const bool ended = end_ == TextEnd::by_model;
  // After a whole parameter, too, where only closing tags are missing; but what is cut may have gone on.
  if ((step_ == Step::parameter || step_ == Step::pair_key) && ended && !key_.empty() &&
      is_part_of_close(format_, text_.substr(at_)))
    whole = take_function();
  // Of a list behind a mark or in a fence only the bracket is missing.
  if (ended && step_ == Step::json && begin_ > 0 && text_[begin_] == '[' && json_->missing() == "]" &&
      take_calls(list_->unsent(text_, text_.size()), "]")) {
    at_ = text_.size();
    return calls_.empty() ? Scan::broken : Scan::complete;
  }
  const bool json = step_ == Step::json || step_ == Step::arguments;
  at_ = json ? std::min(json_->odd_at(), text_.size()) : text_.size();
  // Brackets and quotes that do not match may have hidden the end.
  if (json && begun()) at_ = (partial_ ? *partial_ : *list_->begun()).object().certain();
  return whole && (step_ == Step::rest || !calls_.empty()) ? Scan::complete : Scan::broken;
}

std::optional<Scan> CallScanner::step() {
  switch (step_) {
    case Step::opener:
      return opener();
    case Step::body:
      return body();
    case Step::fence:
      return fence();
    case Step::json:
      return json();
    case Step::after_json:
      return after_json();
    case Step::function:
    case Step::function_name:
    case Step::parameter_name:
      return xml();
    case Step::parameter:
      return parameter();
    case Step::value:
      return value();
    case Step::after_function:
      return after_function();
    case Step::mistral_name:
      return mistral_name();
    case Step::call_id:
      return call_id();
    case Step::arguments:
      return arguments();
    case Step::gemma_name:
      return gemma();
    case Step::close:
      return close();
    case Step::gemma_object:
      return gemma_object();
    case Step::pair_name:
    case Step::pair_key:
    case Step::pair_value:
    case Step::after_pairs:
      return pairs();
    case Step::python_name:
    case Step::python_arguments:
    case Step::after_python:
      return python();
    case Step::named_name:
    case Step::named_close:
    case Step::after_named:
      return named();
    case Step::rest:
      return rest();
  }
  return Scan::broken;
}

Scan CallScanner::match(std::string_view literal) {
  const Scan found = begins_with(text_.substr(at_), literal);
  if (found == Scan::complete) at_ += literal.size();
  return found;
}

bool CallScanner::next() {
  at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
  return at_ < text_.size();
}

std::optional<Scan> CallScanner::opener() {
  for (const std::string_view opener : call_openers(format_)) {
    if (text_.substr(0, opener.size()) != opener) continue;
    if (opener == kFunctionOpen) {
      step_ = Step::function;
      return std::nullopt;
    }
    at_ = opener.size();
  }
  step_ = is_gemma(format_) ? Step::gemma_name : Step::body;
  return std::nullopt;
}

std::optional<Scan> CallScanner::body() {
  if (!next()) return Scan::more;
  if (is_python(format_) && text_[at_] != '{') {
    const size_t inside = text_.find_first_not_of(kSpace, text_[at_] == '[' ? at_ + 1 : at_);
    if (inside == text_.npos) return Scan::more;
    if (text_[inside] != '{') {
      list_open_ = inside > at_;
      at_ = inside;
      step_ = Step::python_name;
      return std::nullopt;
    }
  }
  if (text_[at_] == '{' || text_[at_] == '[') {
    // Qwen2.5-Coder's template shows calls with doubled braces. after_json() skips those that close.
    const size_t second = text_[at_] == '{' ? text_.find_first_not_of(kSpace, at_ + 1) : at_;
    if (second == text_.npos) return Scan::more;
    if (text_[second] == '{') at_ = second;
    begin_ = at_;
    json_.emplace();
    open_ = {};
    list_.emplace(*tools_, begin_, streams_ && format_ != ToolFormat::tools, only_offered(format_));
    step_ = Step::json;
  } else if (format_ == ToolFormat::tagged) {
    step_ = Step::function;
  } else if (pair_tags(format_)) {
    step_ = Step::pair_name;
  } else if (name_tags(format_)) {
    step_ = Step::named_name;
  } else if (format_ == ToolFormat::plain && text_[at_] == '`' && calls_.empty() && !fenced_) {
    step_ = Step::fence;
  } else if (format_ == ToolFormat::mistral || format_ == ToolFormat::messages) {
    begin_ = at_;
    step_ = Step::mistral_name;
  } else {
    return Scan::broken;
  }
  return std::nullopt;
}

std::optional<Scan> CallScanner::fence() {
  if (!fenced_) {
    if (const Scan found = match("```"); found != Scan::complete) return found;
    fenced_ = true;
    begin_ = at_;
  }
  while (at_ < text_.size() && is_name_byte(text_[at_]) && at_ - begin_ < kMaxLanguageBytes) ++at_;
  if (at_ == text_.size()) return Scan::more;
  if (text_[at_] != '\n' && text_[at_] != '{') return Scan::broken;
  step_ = Step::body;
  return std::nullopt;
}

std::optional<Scan> CallScanner::xml() {
  if (step_ == Step::function_name) return name_until('>', Step::parameter);
  if (step_ == Step::parameter_name) return name_until('>', Step::value);
  if (const Scan found = match(kFunctionOpen); found != Scan::complete) return found;
  begin_ = at_;
  step_ = Step::function_name;
  return std::nullopt;
}

std::optional<Scan> CallScanner::name_until(char stop, Step next_step) {
  for (; at_ < text_.size() && text_[at_] != stop; ++at_)
    if (text_[at_] == '<' || text_[at_] == '\n' || at_ - begin_ >= kMaxNameBytes) return Scan::broken;
  if (at_ == text_.size()) return Scan::more;
  const std::string name(trimmed(text_.substr(begin_, at_ - begin_)));
  if (name.empty()) return Scan::broken;
  begin_ = ++at_;
  if (step_ == Step::function_name) {
    begin_function(name);
  } else {
    if (key_.empty()) expected_ = parameter_names(*tools_, name_);
    begin_parameter(name);
    expected_.erase(name);
    value_.emplace(begin_, exact_);
  }
  step_ = next_step;
  return std::nullopt;
}

void CallScanner::begin_function(std::string_view name) {
  name_ = offered_name(*tools_, name);
  open_ = {name_, "{"};
  offered_ = streams_ && has_tool(*tools_, name_);
}

void CallScanner::begin_parameter(std::string_view name) {
  key_ = name;
  says_text_ = false;
  is_text_ = offered_ && must_be_text(*tools_, name_, key_);
  text_sent_ = 0;
  json_.reset();
  if (may_be_structured(*tools_, name_, key_)) json_.emplace();
}

// Reads an object or list as the value that begins at begin_, because tags in it are text. False: it is not
// complete. After it json_ is empty, and at_ is behind it; if it is none, at begin_.
bool CallScanner::skip_structure() {
  const Scan scan = next() ? json_->advance(text_, at_) : Scan::more;
  if (scan == Scan::more && end_ == TextEnd::none) return false;
  if (scan != Scan::complete || !lenient_json(trimmed(text_.substr(begin_, at_ - begin_)))) at_ = begin_;
  json_.reset();
  return true;
}

std::optional<Scan> CallScanner::parameter() {
  if (!next()) return Scan::more;
  bool may = false;
  const auto at = [&](std::string_view tag) {
    const Scan found = match(tag);
    may = may || found == Scan::more;
    return found == Scan::complete;
  };
  if (at("<parameter=")) {
    if (arguments_.size() >= kMaxParameters) return Scan::broken;
    begin_ = at_;
    step_ = Step::parameter_name;
  } else if (key_.empty() && text_[at_] == '{') {  // <function=NAME>{...}</function>
    begin_ = at_;
    json_.emplace();
    open_ = {};
    step_ = Step::arguments;
  } else if (at(kFunctionClose)) {
    if (!take_function()) return Scan::broken;
  } else if (at(kCallClose)) {  // some models forget </function>
    return take_function() ? Scan::complete : Scan::broken;
  } else {
    return may ? Scan::more : Scan::broken;
  }
  return std::nullopt;
}

std::optional<Scan> CallScanner::value() {
  if (json_) {
    if (!skip_structure()) return Scan::more;
    value_->skip(at_);
  }
  const Scan scan =
      value_->advance(text_, end_, [&](std::string_view key) { return expected_.contains(key); });
  if (scan != Scan::complete) {
    if (scan == Scan::more) send_text(value_->certain(text_));
    if (scan == Scan::broken) at_ = text_.size();
    return scan;
  }
  take_argument(value_->value(text_));
  at_ = value_->next();
  step_ = Step::parameter;
  return std::nullopt;
}

void CallScanner::take_argument(std::string_view value) {
  auto json = says_text_ ? std::optional(json_string(value)) : typed_argument(*tools_, name_, key_, value);
  if (!json) return;
  if (text_sent_ > 0)
    send(json_string(value.substr(text_sent_)).substr(1));
  else if (offered_)
    send(member_start() + *json);
  keep_argument(std::move(*json));
}

// The last value under a name counts.
void CallScanner::keep_argument(std::string json) {
  const auto same = std::find_if(arguments_.begin(), arguments_.end(),
                                 [&](const auto& argument) { return argument.first == key_; });
  if (same != arguments_.end())
    same->second = std::move(json);
  else
    arguments_.emplace_back(key_, std::move(json));
}

// Adds the call whose <function=...> was just read. False: its arguments are nested too deeply.
bool CallScanner::take_function() {
  ToolCall call{name_, "{"};
  for (const auto& [key, json] : arguments_) {
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += json_string(key) + ": " + json;
  }
  if (begun()) call.arguments = open_.arguments;
  call.arguments += '}';
  if (!parse_json(call.arguments).ok()) return false;
  arguments_.clear();
  key_.clear();
  open_ = {};
  calls_.push_back(std::move(call));
  step_ = Step::after_function;
  return true;
}

std::optional<Scan> CallScanner::after_function() {
  const size_t call_end = at_;
  bool may = !next();
  const auto at = [&](std::string_view tag) {
    const Scan found = match(tag);
    may = may || found == Scan::more;
    return found == Scan::complete;
  };
  if (at(kCallClose)) return Scan::complete;
  if (at(kFunctionClose)) return std::nullopt;  // some models write it twice
  if (calls_.size() < kMaxCalls && at(kFunctionOpen)) {
    begin_ = at_;
    step_ = Step::function_name;
    return std::nullopt;
  }
  at_ = call_end;
  return may ? Scan::more : Scan::complete;
}

std::optional<Scan> CallScanner::mistral_name() {
  while (at_ < text_.size() && is_name_byte(text_[at_]) && at_ - begin_ < kMaxNameBytes) ++at_;
  if (at_ == text_.size()) return Scan::more;
  if (at_ == begin_) return Scan::broken;
  name_ = offered_name(*tools_, text_.substr(begin_, at_ - begin_));
  step_ = Step::call_id;
  return std::nullopt;
}

// [CALL_ID]x[ARGS], [ARGS], or nothing before the object; <|message|> in messages.
std::optional<Scan> CallScanner::call_id() {
  constexpr std::string_view kId = "[CALL_ID]";
  const std::string_view before = format_ == ToolFormat::messages ? "<|message|>" : "[ARGS]";
  size_t at = at_;
  if (text_.substr(at, kId.size()) == kId) {
    at += kId.size();
    const size_t begin = at;
    while (at < text_.size() && is_name_byte(text_[at]) && at - begin < kMaxNameBytes) ++at;
  }
  const auto rest = text_.substr(at);
  const bool may = before.substr(0, rest.size()) == rest || kId.substr(0, rest.size()) == rest;
  if (rest.substr(0, before.size()) == before)
    at_ = at + before.size();
  else if (may)
    return Scan::more;
  begin_ = at_;
  json_.emplace();
  step_ = Step::arguments;
  return std::nullopt;
}

std::optional<Scan> CallScanner::arguments() {
  if (at_ == begin_) {
    const bool something = next();
    begin_ = at_;
    if (!something) return Scan::more;
    if (text_[at_] != '{') return Scan::broken;
    if (streams_ && has_tool(*tools_, name_)) partial_.emplace(name_, begin_);
  }
  if (partial_) partial_->advance(text_);
  note_begun();
  const Scan scan = json_->advance(text_, at_);
  if (scan == Scan::more) return scan;
  if (scan == Scan::broken && !streamed_) at_ = std::min(json_->odd_at(), at_);
  if (scan == Scan::broken) return scan;
  const bool begins = begun() != nullptr;
  std::string text(text_.substr(begin_, at_ - begin_));
  if (begins) text.replace(0, partial_->object().certain() - begin_, partial_->object().stub());
  ToolCall call{name_, parse_json(text).ok() ? text : lenient_json(text).value_or("")};
  if (call.arguments.empty() || (begins && !partial_->join(call))) return Scan::broken;
  calls_.push_back(std::move(call));
  partial_.reset();
  if (format_ == ToolFormat::mistral) return Scan::complete;
  step_ = name_tags(format_)                ? Step::named_close
          : format_ == ToolFormat::messages ? Step::close
                                            : Step::after_function;
  return std::nullopt;
}

// The mark behind a whole call, which may be missing.
std::optional<Scan> CallScanner::close() {
  const size_t call_end = at_;
  const std::string_view mark = is_gemma(format_) ? gemma_marks(format_).call_end : kMessageCallClose;
  const Scan found = next() ? match(mark) : Scan::more;
  if (found != Scan::complete) at_ = call_end;
  return found == Scan::broken ? Scan::complete : found;
}

std::optional<Scan> CallScanner::gemma() {
  const GemmaMarks& marks = gemma_marks(format_);
  if (name_.empty()) {
    if (!next()) return Scan::more;
    if (const Scan found = match("call:"); found != Scan::complete) return found;
    begin_ = at_;
    name_ = " ";  // being read
  }
  while (at_ < text_.size() && is_name_byte(text_[at_]) && at_ - begin_ < kMaxNameBytes) ++at_;
  if (at_ == text_.size()) return Scan::more;
  if (at_ == begin_ || text_[at_] != '{') return Scan::broken;
  name_ = offered_name(*tools_, text_.substr(begin_, at_ - begin_));
  open_ = {name_, ""};
  offered_ = streams_ && has_tool(*tools_, name_);
  begin_ = at_;
  gemma_.emplace(*tools_, name_, marks, begin_);
  step_ = Step::gemma_object;
  return std::nullopt;
}

std::optional<Scan> CallScanner::gemma_object() {
  const Scan scan = gemma_->advance(text_, at_, end_ != TextEnd::none);
  if (offered_) gemma_->send(text_, at_, open_.arguments);
  note_begun();
  if (scan != Scan::complete) return scan;
  auto json = gemma_->json(text_.substr(begin_, at_ - begin_));
  if (!json || (begun() && !json->starts_with(open_.arguments))) return Scan::broken;
  open_ = {};
  calls_.push_back({name_, std::move(*json)});
  step_ = Step::close;
  return std::nullopt;
}

}  // namespace anabranch
