// Reads calls in JSON, and finds where a further call of a block begins.
#include <algorithm>

#include "base/white_space.h"
#include "output/call_scanner.h"
#include "output/tool_json.h"
#include "output/tool_names.h"
#include "output/tool_schema.h"

namespace anabranch {

// Adds the calls in `json`. False if anything in it is not a call. What is not quite JSON must at least be a
// whole call, with arguments.
bool CallScanner::take_calls(std::string_view json, const std::string& closers) {
  const bool strict = closers.empty() && parse_json(json).ok();
  std::optional<std::string> read;
  if (!strict) {
    read = lenient_json(std::string(json) + closers);
    if (!read) return false;
    json = *read;
  }
  std::vector<std::string_view> all{json};
  if (json.front() == '[') {
    all.clear();
    for (const JsonItem& item : json_items(json)) all.push_back(item.value);
  }
  std::vector<ToolCall> calls;
  for (const std::string_view one : all) {
    const bool described = only_offered(format_) && describes_tool(one);
    if (described && format_ == ToolFormat::tools) continue;
    auto call = described ? std::nullopt : call_in(one, strict);
    if (!call || calls.size() >= kMaxCalls) return false;
    calls.push_back(std::move(*call));
  }
  const bool repeated = calls.empty() && format_ == ToolFormat::tools;
  if (!repeated && (calls.empty() || !list_->join(calls) || calls_.size() + calls.size() > kMaxCalls))
    return false;
  list_.reset();
  calls_.insert(calls_.end(), calls.begin(), calls.end());
  return true;
}

// The call that an object is.
std::optional<ToolCall> CallScanner::call_in(std::string_view json, bool strict) const {
  const bool known = only_offered(format_);
  auto call = format_ == ToolFormat::named_keys ? call_under_its_name(json) : std::nullopt;
  if (!call) call = call_from_json(json, known || !strict);
  if (!call) return call;
  call->name = offered_name(*tools_, call->name);
  // An answer may be any JSON; it is a call only if it names a known tool.
  if (known && !has_tool(*tools_, call->name)) return std::nullopt;
  return call;
}

// Whether the object is no call, but describes a tool as the prompt does.
bool CallScanner::describes_tool(std::string_view json) const {
  const auto read = parse_json(json);
  if (!read.ok() || !read->is_object()) return false;
  const auto nested = read->find("function");
  const Json& described = nested != read->end() && nested->is_object() ? *nested : *read;
  const auto schema = described.find("parameters");
  if (schema == described.end() || described.contains("arguments")) return false;
  for (const Json& tool : *tools_)
    if (const auto function = tool.find("function"); function != tool.end())
      if (string_at(*function, "name") == string_at(described, "name")) {
        const auto own = function->find("parameters");
        const bool same = own != function->end() && !own->empty() && *own == *schema;
        return same || described.contains("description");
      }
  return false;
}

std::optional<Scan> CallScanner::json() {
  list_->advance(text_);
  for (ToolCall& call : list_->take_ended()) calls_.push_back(std::move(call));
  streamed_ = streamed_ || list_->has_begun();
  const Scan scan = json_->advance(text_, at_);
  if (scan == Scan::more) return scan;
  const size_t value_end = at_;
  // Models leave brackets out. That a call ends there is certain only by its closing mark.
  std::string closers;
  const std::string_view closer = call_closer(format_);
  if (scan == Scan::broken && !closer.empty()) {
    const Scan close = match(closer);
    if (close == Scan::more) return close;
    if (close == Scan::complete) closers = json_->missing();
  }
  if ((scan == Scan::complete || !closers.empty()) && take_calls(list_->unsent(text_, value_end), closers)) {
    if (format_ == ToolFormat::mistral) return Scan::complete;
    if (!closers.empty()) return calls_.empty() ? Scan::broken : Scan::complete;
    begin_ = at_;
    step_ = Step::after_json;
    return std::nullopt;
  }
  at_ = streamed_ ? value_end : std::min(json_->odd_at(), value_end);
  return Scan::broken;
}

std::optional<Scan> CallScanner::after_json() {
  const size_t call_end = begin_;
  // Models write a bracket too many.
  at_ = std::min(text_.find_first_not_of("}] \t\r\n", at_), text_.size());
  if (format_ == ToolFormat::plain) begin_ = at_;
  if (at_ == text_.size()) return Scan::more;
  const bool brackets = !is_blank(text_.substr(call_end, at_ - call_end));
  const std::string_view closer = call_closer(format_);
  const bool tagged = !closer.empty();
  if (format_ == ToolFormat::gigachat) {
    at_ = call_end;
    return Scan::complete;
  }
  if (tagged || format_ == ToolFormat::listed) {
    const Scan close = match(tagged ? closer : kListClose);
    if (close == Scan::complete) return calls_.empty() ? Scan::broken : close;
    if (close == Scan::broken && tagged && text_[at_] == '{' && !brackets) {
      step_ = Step::body;
      return std::nullopt;
    }
    at_ = call_end;
    // The call is complete even without the closing tag.
    if (close != Scan::more && calls_.empty()) return Scan::broken;
    return close == Scan::more ? Scan::more : Scan::complete;
  }
  if (text_[at_] == ';') {
    begin_ = ++at_;
  } else if (fenced_ && text_[at_] == '`') {
    if (const Scan found = match("```"); found != Scan::complete) return found;
    begin_ = at_;
    return std::nullopt;
  } else if (text_[at_] != '{') {
    return Scan::broken;
  }
  step_ = Step::body;
  return std::nullopt;
}

std::optional<std::string_view> CallScanner::further_call() const {
  const PairTags* pair = pair_tags(format_);
  const NameTags* named = name_tags(format_);
  std::optional<std::string_view> begun;
  if (step_ == Step::json && list_ && list_->element() && (!calls_.empty() || *list_->element() > begin_)) {
    // The brace, white space, and at most the byte with which it became certain that an object begins.
    const auto since = text_.substr(*list_->element());
    if (std::min(since.find_first_not_of(kSpace, 1), since.size()) + 1 >= since.size()) begun = since;
  }
  if (calls_.empty()) return begun;
  if (step_ == Step::function_name && begin_ == text_.size()) begun = kFunctionOpen;
  if (step_ == Step::pair_name && pair && text_.substr(at_) == pair->call_open) begun = pair->call_open;
  if (step_ == Step::named_name && named && text_.substr(at_) == named->call_open) begun = named->call_open;
  if (step_ == Step::python_name && at_ == text_.size()) begun = "";
  const auto behind = text_.substr(std::min(at_, text_.size()));
  if (step_ == Step::after_python && format_ == ToolFormat::lines && is_blank(behind) &&
      behind.find('\n') != behind.npos)
    begun = "";
  return begun;
}

}  // namespace anabranch
