#include "output/partial_object.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/lenient_json.h"
#include "output/tool_call.h"

namespace anabranch {
namespace {

constexpr size_t kMaxHeadBytes = 4 * kMaxNameBytes;

bool is_literal_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         std::string_view("+-.E").find(c) != std::string_view::npos;
}

}  // namespace

std::string_view PartialObject::stub() const {
  if (certain_ == begin_) return "{";
  return in_text_ ? R"({"x":")" : R"({"x":[])";
}

void PartialObject::advance(std::string_view text) {
  while (at_ < text.size() && part_ != Part::stopped && step(text)) {
  }
}

bool PartialObject::step(std::string_view text) {
  if (part_ == Part::key_text) return string_step(text, Part::colon);
  if (part_ == Part::text) return string_step(text, Part::after_value);
  if (part_ == Part::nested) {
    const Scan scan = nested_.advance(text, at_);
    if (scan == Scan::broken) part_ = Part::stopped;
    if (scan == Scan::complete) end_value(text);
    return scan != Scan::more;
  }
  const char c = text[at_];
  if (part_ == Part::literal) {
    if (is_literal_byte(c))
      ++at_;
    else
      end_value(text);
    return true;
  }
  if (is_space(c)) {
    ++at_;
    return true;
  }
  const auto expect = [&](char wanted, Part next) {
    part_ = c == wanted ? next : Part::stopped;
    if (c == wanted) ++at_;
    return true;
  };
  if (part_ == Part::open) return expect('{', Part::key);
  if (part_ == Part::key) return expect('"', Part::key_text);
  if (part_ == Part::colon) return expect(':', Part::value);
  if (part_ == Part::after_value) return expect(',', Part::key);
  value_ = at_;
  if (c == '"') {
    certain_ = ++at_;
    in_text_ = true;
    part_ = Part::text;
  } else if (c == '{' || c == '[') {
    nested_ = JsonScan();
    part_ = Part::nested;
  } else {
    part_ = is_literal_byte(c) ? Part::literal : Part::stopped;
  }
  return true;
}

bool PartialObject::string_step(std::string_view text, Part next) {
  const char c = text[at_];
  const size_t size = c == '\\' ? escape_size(text.substr(at_)) : 1;
  if (size == 0 && text.size() - at_ < 2 * kEscapeBytes) return false;
  const bool ends = c == '"';
  if (size == 0 || static_cast<unsigned char>(c) < 0x20)
    part_ = Part::stopped;
  else
    at_ += size;
  if (ends) part_ = next;
  if (in_text_) certain_ = at_;
  if (ends) in_text_ = false;
  return true;
}

void PartialObject::end_value(std::string_view text) {
  // In a list it is nested as deeply as in the object.
  const bool json = parse_json("[" + std::string(text.substr(value_, at_ - value_)) + "]").ok();
  part_ = json ? Part::after_value : Part::stopped;
  if (json) certain_ = at_;
}

JsonCallHead read_call_head(std::string_view text) {
  JsonCallHead head;
  const bool full = text.size() > kMaxHeadBytes;
  text = text.substr(0, kMaxHeadBytes);
  size_t at = 0;
  const auto take = [&](std::string_view literal) {
    at = std::min(text.find_first_not_of(kSpace, at), text.size());
    head.scan = begins_with(text.substr(at), literal);
    if (head.scan == Scan::complete) at += literal.size();
    if (head.scan == Scan::more && full) head.scan = Scan::broken;
    return head.scan == Scan::complete;
  };
  // A string with escapes is read with the whole call.
  const auto take_string = [&](std::string& out) {
    if (!take("\"")) return false;
    out = text.substr(at, text.find('"', at) - at);
    at += out.size();
    if (out.find('\\') != out.npos) head.scan = Scan::broken;
    return head.scan == Scan::complete && take("\"");
  };
  bool nested = false;
  for (bool goes_on = take("{"); goes_on;) {
    std::string key, value;
    if (!take_string(key) || !take(":")) break;
    if (key == "arguments" || key == "parameters") {
      if (nested && key == "parameters") head.scan = Scan::broken;  // of a tool, as the prompt shows it
      if (head.scan == Scan::broken || !take("{")) break;
      head.arguments = at - 1;
      if (head.name.empty() || head.name.size() > kMaxNameBytes) head.scan = Scan::broken;
      break;
    }
    if (key == "function" && !nested) {
      goes_on = nested = take("{");
      head.name.clear();
      continue;
    }
    if (!take_string(value)) break;
    if (key == "name" || (key == "tool_name" && head.name.empty())) head.name = value;
    if (key == "description") head.scan = Scan::broken;  // of a tool, too
    if (head.scan == Scan::broken) break;
    goes_on = take(",");
  }
  return head;
}

std::string closed_object(std::string text) {
  StringScan string;
  for (const char c : text)
    if (string.is_open())
      string.take(c);
    else if (c == '"')
      string.open();
  return text + (string.is_open() ? "\"}" : "}");
}

}  // namespace anabranch
