#include "output/call_scanner.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

constexpr size_t kMaxParameters = 1024;
constexpr size_t kMaxLanguageBytes = 32;  // after ```

bool is_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.' || c == '/' || c == ':' || static_cast<unsigned char>(c) >= 0x80;
}

// Removes the line breaks around a parameter's value, which the template writes on lines of its own.
std::string_view without_own_lines(std::string_view text) {
  if (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

}  // namespace

Scan CallScanner::advance(std::string_view text, bool end) {
  text_ = text;
  for (;;) {
    const auto result = step();
    if (!result) continue;
    if (*result != Scan::more || !end) return *result;
    // The model stopped after a whole call without closing the block.
    const bool whole = step_ == Step::after_json || step_ == Step::after_function ||
                       step_ == Step::gemma_close || (step_ == Step::body && form_ == ToolForm::plain);
    at_ = text_.size();
    return whole && !calls_.empty() ? Scan::complete : Scan::broken;
  }
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
    case Step::after_value:
      return after_value();
    case Step::after_function:
      return after_function();
    case Step::mistral_name:
      return mistral_name();
    case Step::call_id:
      return call_id();
    case Step::arguments:
      return arguments();
    case Step::gemma_name:
    case Step::gemma_close:
      return gemma();
    case Step::gemma_object:
      return gemma_object();
  }
  return Scan::broken;
}

CallScanner::Match CallScanner::match(std::string_view literal) {
  const auto here = text_.substr(at_, literal.size());
  if (here == literal) {
    at_ += literal.size();
    return Match::yes;
  }
  return literal.substr(0, here.size()) == here ? Match::more : Match::no;
}

bool CallScanner::next() {
  at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
  return at_ < text_.size();
}

std::optional<Scan> CallScanner::opener() {
  for (const std::string_view opener : call_openers(form_)) {
    if (text_.substr(0, opener.size()) != opener) continue;
    if (opener == "<function=") {
      step_ = Step::function;
      return std::nullopt;
    }
    at_ = opener.size();
  }
  const bool gemma = form_ == ToolForm::gemma4 || form_ == ToolForm::function_gemma;
  step_ = gemma ? Step::gemma_name : Step::body;
  return std::nullopt;
}

std::optional<Scan> CallScanner::body() {
  if (!next()) return Scan::more;
  const bool list = form_ == ToolForm::mistral || form_ == ToolForm::plain;
  if (text_[at_] == '{' || (list && text_[at_] == '[')) {
    begin_ = at_;
    json_.emplace();
    step_ = Step::json;
  } else if (form_ == ToolForm::tagged) {
    step_ = Step::function;
  } else if (form_ == ToolForm::plain && text_[at_] == '`' && calls_.empty() && !fenced_) {
    step_ = Step::fence;
  } else if (form_ == ToolForm::mistral) {
    begin_ = at_;
    step_ = Step::mistral_name;
  } else {
    return Scan::broken;
  }
  return std::nullopt;
}

std::optional<Scan> CallScanner::fence() {
  if (!fenced_) {
    if (const Match found = match("```"); found != Match::yes)
      return found == Match::no ? Scan::broken : Scan::more;
    fenced_ = true;
    begin_ = at_;
  }
  while (at_ < text_.size() && is_name_byte(text_[at_]) && at_ - begin_ < kMaxLanguageBytes) ++at_;
  if (at_ == text_.size()) return Scan::more;
  if (text_[at_] != '\n' && text_[at_] != '{') return Scan::broken;
  step_ = Step::body;
  return std::nullopt;
}

// Adds the calls in `json`. False if anything in it is not a call.
bool CallScanner::take_calls(std::string_view json) {
  const bool plain = form_ == ToolForm::plain;
  std::vector<std::string_view> all{json};
  if (json.front() == '[') {
    if (!parse_json(json).ok()) return false;
    all.clear();
    for (const JsonItem& item : json_items(json)) all.push_back(item.value);
  }
  std::vector<ToolCall> calls;
  for (const std::string_view one : all) {
    auto call = call_from_json(one, plain);
    // A plain answer may be any JSON; it is a call only if it names a known tool.
    if (!call || (plain && !has_tool(*tools_, call->name)) || calls.size() >= kMaxCalls) return false;
    calls.push_back(std::move(*call));
  }
  calls_.insert(calls_.end(), calls.begin(), calls.end());
  return !calls.empty() && calls_.size() <= kMaxCalls;
}

std::optional<Scan> CallScanner::json() {
  const Scan scan = json_->advance(text_, at_);
  if (scan != Scan::complete) return scan;
  if (!take_calls(text_.substr(begin_, at_ - begin_))) return Scan::broken;
  if (form_ == ToolForm::mistral) return Scan::complete;
  step_ = Step::after_json;
  return std::nullopt;
}

std::optional<Scan> CallScanner::after_json() {
  const size_t call_end = at_;
  if (!next()) return Scan::more;
  if (form_ == ToolForm::tagged) {
    const Match close = match("</tool_call>");
    if (close == Match::yes) return Scan::complete;
    if (close == Match::no && text_[at_] == '{') {
      step_ = Step::body;
      return std::nullopt;
    }
    at_ = call_end;
    // The call is complete even without the closing tag.
    return close == Match::more ? Scan::more : Scan::complete;
  }
  if (text_[at_] == ';') {
    ++at_;
  } else if (fenced_ && text_[at_] == '`') {
    if (const Match found = match("```"); found != Match::yes)
      return found == Match::no ? Scan::broken : Scan::more;
    return std::nullopt;
  } else if (text_[at_] != '{') {
    return Scan::broken;
  }
  step_ = Step::body;
  return std::nullopt;
}

std::optional<Scan> CallScanner::xml() {
  if (step_ == Step::function_name) return name_until('>', Step::parameter);
  if (step_ == Step::parameter_name) return name_until('>', Step::value);
  const Match found = match("<function=");
  if (found != Match::yes) return found == Match::no ? Scan::broken : Scan::more;
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
  (step_ == Step::function_name ? name_ : key_) = name;
  begin_ = search_ = ++at_;
  step_ = next_step;
  return std::nullopt;
}

std::optional<Scan> CallScanner::parameter() {
  if (!next()) return Scan::more;
  const Match another = match("<parameter="),
              close = another == Match::yes ? Match::no : match("</function>");
  if (another == Match::yes) {
    if (arguments_.size() >= kMaxParameters) return Scan::broken;
    begin_ = at_;
    step_ = Step::parameter_name;
  } else if (close == Match::yes) {
    if (!take_function()) return Scan::broken;
  } else if (match("</tool_call>") == Match::yes) {  // some models forget </function>
    return take_function() ? Scan::complete : Scan::broken;
  } else {
    const bool may = another == Match::more || close == Match::more || match("</tool_call>") == Match::more;
    return may ? Scan::more : Scan::broken;
  }
  return std::nullopt;
}

// A value may itself contain </parameter>. The value ends at the one after which a parameter or a closing tag
// follows.
std::optional<Scan> CallScanner::value() {
  constexpr std::string_view kClose = "</parameter>";
  const size_t close = text_.find(kClose, search_);
  if (close == std::string_view::npos) {
    search_ = std::max(search_, text_.size() - std::min(text_.size(), kClose.size() - 1));
    return Scan::more;
  }
  search_ = at_ = close + kClose.size();
  step_ = Step::after_value;
  return std::nullopt;
}

std::optional<Scan> CallScanner::after_value() {
  if (!next()) return Scan::more;
  const size_t after = at_;
  bool may = false;
  for (const char* follower : {"<parameter=", "</function>", "</tool_call>"}) {
    const Match found = match(follower);
    at_ = after;
    may = may || found == Match::more;
    if (found != Match::yes) continue;
    const size_t close = search_ - std::string_view("</parameter>").size();
    auto json = typed_argument(*tools_, name_, key_, without_own_lines(text_.substr(begin_, close - begin_)));
    const auto same = std::find_if(arguments_.begin(), arguments_.end(),
                                   [&](const auto& argument) { return argument.first == key_; });
    if (same != arguments_.end())
      same->second = std::move(json);
    else
      arguments_.emplace_back(key_, std::move(json));
    step_ = Step::parameter;
    return std::nullopt;
  }
  if (may) return Scan::more;
  step_ = Step::value;
  return std::nullopt;
}

// Adds the call whose <function=...> was just read. False: its arguments are nested too deeply.
bool CallScanner::take_function() {
  ToolCall call{name_, "{"};
  for (const auto& [key, json] : arguments_) {
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += json_string(key) + ": " + json;
  }
  call.arguments += '}';
  if (!parse_json(call.arguments).ok()) return false;
  arguments_.clear();
  calls_.push_back(std::move(call));
  step_ = Step::after_function;
  return true;
}

std::optional<Scan> CallScanner::after_function() {
  const size_t call_end = at_;
  const bool something = next();
  const Match close = something ? match("</tool_call>") : Match::more;
  if (close == Match::yes) return Scan::complete;
  const Match another = something && calls_.size() < kMaxCalls ? match("<function=") : Match::no;
  if (another == Match::yes) {
    begin_ = at_;
    step_ = Step::function_name;
    return std::nullopt;
  }
  at_ = call_end;
  return close == Match::more || another == Match::more ? Scan::more : Scan::complete;
}

std::optional<Scan> CallScanner::mistral_name() {
  while (at_ < text_.size() && is_name_byte(text_[at_]) && at_ - begin_ < kMaxNameBytes) ++at_;
  if (at_ == text_.size()) return Scan::more;
  if (at_ == begin_) return Scan::broken;
  name_ = text_.substr(begin_, at_ - begin_);
  step_ = Step::call_id;
  return std::nullopt;
}

// [CALL_ID]x[ARGS], [ARGS], or nothing before the object.
std::optional<Scan> CallScanner::call_id() {
  constexpr std::string_view kId = "[CALL_ID]", kArguments = "[ARGS]";
  size_t at = at_;
  if (text_.substr(at, kId.size()) == kId) {
    at += kId.size();
    const size_t begin = at;
    while (at < text_.size() && is_name_byte(text_[at]) && at - begin < kMaxNameBytes) ++at;
  }
  const auto rest = text_.substr(at);
  const bool may = kArguments.substr(0, rest.size()) == rest || kId.substr(0, rest.size()) == rest;
  if (rest.substr(0, kArguments.size()) == kArguments)
    at_ = at + kArguments.size();
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
  }
  const Scan scan = json_->advance(text_, at_);
  if (scan != Scan::complete) return scan;
  const auto json = text_.substr(begin_, at_ - begin_);
  if (!parse_json(json).ok()) return Scan::broken;
  calls_.push_back({name_, std::string(json)});
  return Scan::complete;
}

std::optional<Scan> CallScanner::gemma() {
  const bool four = form_ == ToolForm::gemma4;
  if (step_ == Step::gemma_close) {
    const size_t call_end = at_;
    const Match close = next() ? match(four ? "<tool_call|>" : "<end_function_call>") : Match::more;
    if (close != Match::yes) at_ = call_end;
    return close == Match::more ? Scan::more : Scan::complete;
  }
  if (name_.empty()) {
    if (!next()) return Scan::more;
    if (const Match found = match("call:"); found != Match::yes)
      return found == Match::no ? Scan::broken : Scan::more;
    begin_ = at_;
    name_ = " ";  // being read
  }
  while (at_ < text_.size() && is_name_byte(text_[at_]) && at_ - begin_ < kMaxNameBytes) ++at_;
  if (at_ == text_.size()) return Scan::more;
  if (at_ == begin_ || text_[at_] != '{') return Scan::broken;
  name_ = text_.substr(begin_, at_ - begin_);
  begin_ = at_;
  gemma_.emplace(four ? "<|\"|>" : "<escape>");
  step_ = Step::gemma_object;
  return std::nullopt;
}

std::optional<Scan> CallScanner::gemma_object() {
  const Scan scan = gemma_->advance(text_, at_);
  if (scan != Scan::complete) return scan;
  auto json =
      gemma_to_json(text_.substr(begin_, at_ - begin_), form_ == ToolForm::gemma4 ? "<|\"|>" : "<escape>");
  if (!json) return Scan::broken;
  calls_.push_back({name_, std::move(*json)});
  step_ = Step::gemma_close;
  return std::nullopt;
}

}  // namespace anabranch
