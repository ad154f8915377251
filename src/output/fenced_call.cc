#include "output/fenced_call.h"

#include <algorithm>
#include <string>

#include "base/white_space.h"
#include "output/begins_with.h"
#include "output/tool_call.h"
#include "output/tool_names.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

// Reads a text from its beginning. After the first call that returns something else than `complete`, so does
// every later one.
class FencedHead {
 public:
  static constexpr size_t kLanguageBytes = 32, kBlankBytes = 64;

  explicit FencedHead(std::string_view text) : text_(text) {}

  Scan state() const { return state_; }
  void literal(std::string_view mark) {
    if (state_ != Scan::complete) return;
    state_ = begins_with(text_.substr(at_), mark);
    at_ += mark.size();
  }
  template <typename Test>
  std::string_view run(Test fits, size_t most) {
    if (state_ != Scan::complete) return {};
    const auto rest = text_.substr(at_);
    const auto end = std::find_if_not(rest.begin(), rest.end(), fits);
    const auto part = rest.substr(0, static_cast<size_t>(end - rest.begin()));
    if (part.size() > most) state_ = Scan::broken;
    if (part.size() == rest.size() && state_ == Scan::complete) state_ = Scan::more;
    at_ += part.size();
    return part;
  }
  void blanks() {
    run([](char c) { return is_space(c); }, kBlankBytes);
  }
  // Whether the next byte is `c`; the text does not end there.
  bool next_is(char c) const { return state_ == Scan::complete && text_[at_] == c; }
  void refuse() { state_ = Scan::broken; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  Scan state_ = Scan::complete;
};

}  // namespace

Scan fenced_call_head(std::string_view text, const Json& tools) {
  FencedHead head(text);
  head.literal("```");
  head.run([](char c) { return (c >= 'a' && c <= 'z') || c == '_'; }, FencedHead::kLanguageBytes);
  head.blanks();
  head.literal("{");
  head.blanks();
  if (head.next_is('{')) head.literal("{");
  head.blanks();
  head.literal("\"name\"");
  head.blanks();
  head.literal(":");
  head.blanks();
  head.literal("\"");
  const auto name = head.run([](char c) { return c != '"' && c != '\n' && c != '\\'; }, kMaxNameBytes);
  if (head.state() == Scan::complete && !has_tool(tools, offered_name(tools, name))) head.refuse();
  head.literal("\"");
  head.blanks();
  head.literal(",");
  head.blanks();
  head.literal(head.next_is('"') ? "\"" : "'");
  const auto key = head.run([](char c) { return c >= 'a' && c <= 'z'; }, kMaxNameBytes);
  if (head.state() == Scan::complete && key != "arguments" && key != "parameters") head.refuse();
  return head.state();
}

}  // namespace anabranch
