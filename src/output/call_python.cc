// Reads calls in Python's notation, alone or in a list.
#include <algorithm>

#include "base/white_space.h"
#include "grammar/schema_grammar.h"
#include "output/call_scanner.h"
#include "output/tool_names.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

constexpr size_t kMaxKeywords = 1024;

// LFM2 writes all arguments as one at times, under a word of the tool's schema: f(properties={"path": "a"}).
// Whether this is one, the value an object: the tool has some of its members as arguments, and none of the
// name.
bool is_wrapper(const Json& tools, std::string_view tool, std::string_view name, std::string_view value) {
  constexpr std::string_view kWords[] = {"properties", "parameters", "arguments", "args", "kwargs"};
  if (std::ranges::find(kWords, name) == std::end(kWords)) return false;
  const auto known = parameter_names(tools, tool);
  const auto inner = parse_json(value);
  if (known.contains(name) || !inner.ok() || !inner->is_object()) return false;
  return std::ranges::any_of(inner->items(), [&](const auto& one) { return known.contains(one.key()); });
}

}  // namespace

std::optional<Scan> CallScanner::python() {
  if (step_ == Step::python_name) return python_name();
  return step_ == Step::python_arguments ? python_arguments() : after_python();
}

std::optional<Scan> CallScanner::python_name() {
  if (!next()) return Scan::more;
  const auto rest = text_.substr(at_);
  const size_t size = std::min(rest.find_first_of(kEndsPythonName), rest.size());
  if (size > kMaxNameBytes) return Scan::broken;
  if (size == rest.size()) return Scan::more;
  if (size == 0 || rest[size] != '(') return Scan::broken;
  name_ = offered_name(*tools_, rest.substr(0, size));
  begin_ = at_ += size;
  python_.emplace();
  step_ = Step::python_arguments;
  return std::nullopt;
}

std::optional<Scan> CallScanner::python_arguments() {
  const Scan scan = python_->advance(text_, at_);
  if (scan != Scan::complete) return scan;
  std::vector<size_t> ends = python_->commas();
  ends.push_back(at_ - 1);
  if (ends.size() > kMaxKeywords) return Scan::broken;
  size_t begin = begin_ + 1;
  for (const size_t end : ends) {
    const auto argument = trimmed(text_.substr(begin, end - begin));
    begin = end + 1;
    if (argument.empty() && end == ends.back()) break;  // behind the last comma, or between parentheses
    const size_t sign = std::min(argument.find('='), argument.size());
    key_ = trimmed(argument.substr(0, sign));
    if (sign == argument.size() || key_.empty() || key_.find_first_of(kEndsPythonName) != key_.npos)
      return Scan::broken;
    auto value = python_value(*tools_, name_, key_, trimmed(argument.substr(sign + 1)));
    if (value.error) return Scan::broken;
    if (value.json) keep_argument(std::move(*value.json));
  }
  std::optional<std::string> inner;
  if (arguments_.size() == 1 && is_wrapper(*tools_, name_, arguments_[0].first, arguments_[0].second))
    inner = arguments_[0].second;
  if (!take_function()) return Scan::broken;
  if (inner) calls_.back().arguments = std::move(*inner);
  step_ = Step::after_python;
  return std::nullopt;
}

std::optional<Scan> CallScanner::after_python() {
  const size_t call_end = at_;
  Scan close = next() ? Scan::broken : Scan::more;
  if (close == Scan::broken && list_open_ && text_[at_] == ']') {
    ++at_;
    list_open_ = false;
    return std::nullopt;
  }
  if (close == Scan::broken && list_open_ && text_[at_] == ',') {
    if (calls_.size() >= kMaxCalls) return Scan::broken;
    ++at_;
    step_ = Step::python_name;
    return std::nullopt;
  }
  if (close == Scan::broken && format_ == ToolFormat::lines && calls_.size() < kMaxCalls) {
    const auto rest = text_.substr(at_);
    const size_t size = std::min(rest.find_first_of(kEndsPythonName), rest.size());
    if (size > 0 && size < kMaxNameBytes && text_.substr(call_end, at_ - call_end).find('\n') != text_.npos) {
      if (size < rest.size() && rest[size] == '(') {
        step_ = Step::python_name;
        return std::nullopt;
      }
      if (size == rest.size() && end_ == TextEnd::none) close = Scan::more;
    }
  }
  if (close == Scan::broken) close = match(call_closer(format_));
  if (close != Scan::complete) at_ = call_end;
  return close == Scan::broken ? Scan::complete : close;
}

}  // namespace anabranch
