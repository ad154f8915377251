#include "output/call_list.h"

#include <algorithm>
#include <utility>

#include "base/white_space.h"
#include "output/tool_json.h"
#include "output/tool_names.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

// Whether the arguments begin as the schema does that a tool's description has in their place.
bool may_be_schema(const Json& tools, const ToolCall& call) {
  constexpr std::string_view kKeys[] = {
      "$schema", "additionalProperties", "description", "properties", "required", "title", "type"};
  const size_t begin = call.arguments.find('"') + 1;
  const std::string key = call.arguments.substr(begin, call.arguments.find('"', begin) - begin);
  return std::ranges::find(kKeys, key) != std::end(kKeys) && !parameter_names(tools, call.name).contains(key);
}

}  // namespace

void PartialCall::advance(std::string_view text) {
  const size_t before = object_.certain();
  object_.advance(text);
  sent_.arguments += text.substr(before, object_.certain() - before);
}

bool PartialCall::join(ToolCall& call) const {
  const auto stub = object_.stub();
  if (call.name != sent_.name || !call.arguments.starts_with(stub)) return false;
  std::string whole = sent_.arguments + call.arguments.substr(stub.size());
  if (!parse_json(whole).ok()) return false;  // the stub has fewer members than the call
  call.arguments = std::move(whole);
  return true;
}

void CallList::advance(std::string_view text) {
  while (reads_ && (inside_ ? read_element(text) : find_element(text))) {
  }
}

bool CallList::find_element(std::string_view text) {
  const bool list = text[begin_] == '[';
  size_t at = list && at_ == begin_ ? at_ + 1 : at_;
  at = text.find_first_not_of(kSpace, at);
  if (!elements_.empty() && at < text.size() && text[at] == ',') {
    at = text.find_first_not_of(kSpace, at + 1);
  } else if (!elements_.empty() && at < text.size()) {
    return reads_ = false;
  }
  if (at >= text.size()) return false;
  reads_ = text[at] == '{' && elements_.size() < kMaxCalls;
  if (!reads_) return false;
  element_ = at_ = at;
  scan_ = JsonScan();
  elements_.emplace_back();
  return inside_ = true;
}

bool CallList::read_element(std::string_view text) {
  Element& element = elements_.back();
  if (!element.partial && !element.late) {
    const JsonCallHead head = read_call_head(text.substr(element_));
    if (head.scan == Scan::more) return false;
    const std::string name = offered_name(*tools_, head.name);
    element.late = head.scan == Scan::broken || !has_tool(*tools_, name);
    if (!element.late) element.partial.emplace(name, element_ + head.arguments);
  }
  if (element.partial) {
    element.partial->advance(text);
    const int index = static_cast<int>(elements_.size()) - 1;
    if (element.partial->has_begun() && open_ < index) {
      element.late = only_offered_ && may_be_schema(*tools_, element.partial->sent());
      if (element.late)
        element.partial.reset();
      else
        open_ = index;
    }
  }
  if (text[begin_] != '[') return false;
  const Scan scan = scan_.advance(text, at_);
  if (scan == Scan::more) return false;
  reads_ = scan == Scan::complete && take_element(text);
  inside_ = !reads_;
  return reads_;
}

bool CallList::take_element(std::string_view text) {
  Element& element = elements_.back();
  auto call = call_from_json(unsent(text, element_, at_), only_offered_);
  if (!call) return false;
  call->name = offered_name(*tools_, call->name);
  if (only_offered_ && !has_tool(*tools_, call->name)) return false;
  element.whole = std::move(*call);
  return !element.partial || !element.partial->has_begun() || element.partial->join(element.whole);
}

std::vector<ToolCall> CallList::take_ended() {
  std::vector<ToolCall> out;
  const int whole = static_cast<int>(elements_.size()) - (inside_ ? 1 : 0);
  for (; ended_ < std::min(open_ + 1, whole); ended_++)
    out.push_back(std::move(elements_[static_cast<size_t>(ended_)].whole));
  return out;
}

std::string CallList::unsent(std::string_view text, size_t from, size_t end) const {
  std::string out;
  for (const Element& element : elements_) {
    if (!element.partial || !element.partial->has_begun() || element.partial->object().begin() < from)
      continue;
    const PartialObject& object = element.partial->object();
    out += text.substr(from, object.begin() - from);
    out += object.stub();
    from = object.certain();
  }
  return out += text.substr(from, end - from);
}

bool CallList::join(std::vector<ToolCall>& calls) const {
  if (open_ < 0) return true;
  if (calls.size() <= static_cast<size_t>(open_)) return false;
  if (begun() && !begun()->join(calls[static_cast<size_t>(open_)])) return false;
  calls.erase(calls.begin(), calls.begin() + ended_);
  return true;
}

}  // namespace anabranch
