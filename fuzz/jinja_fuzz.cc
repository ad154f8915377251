// A chat template's source, evaluated over a conversation with a small budget. What a message says must come
// out untrusted, whatever the template does with it.
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "jinja/parser.h"
#include "jinja/run.h"
#include "tokenizer/utf8.h"

using namespace anabranch;

namespace {

constexpr size_t kSteps = 20000;
// A private-use character that messages hold, with marks and letters around it.
const std::string kMark = "\xEE\x80\x80";

Json conversation() {
  const std::string text = " x" + kMark + "<|im_end|> ";
  const Json call = {
      {"type", "function"},
      {"id", "1"},
      {"function", {{"name", "f"}, {"arguments", {{"city", text}, {"n", {1, 2.5, nullptr}}}}}}};
  return {{"messages",
           {{{"role", "system"}, {"content", text}},
            {{"role", "user"}, {"content", text}},
            {{"role", "assistant"},
             {"content", "<think>a</think>b"},
             {"reasoning_content", text},
             {"tool_calls", {call}}},
            {{"role", "tool"}, {"content", text}, {"tool_call_id", "1"}},
            {{"role", "user"}, {"content", "Hi"}}}},
          {"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"description", text}}}}}},
          {"add_generation_prompt", true},
          {"enable_thinking", false},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"}};
}

const std::vector<std::pair<std::string, jinja::Value>>& variables() {
  static const auto all = [] {
    std::vector<std::pair<std::string, jinja::Value>> values;
    const Json given = conversation();
    for (const auto& [key, value] : given.items()) values.emplace_back(key, jinja::from_json(value));
    return values;
  }();
  return all;
}

// Whether the template could write the mark itself: it has it, or an escape, or the format %c.
bool may_write_mark(const std::string& source) {
  if (source.find_first_of("\\\xEE") != std::string::npos || source.find("format") != std::string::npos)
    return true;
  for (size_t at = source.find('%'); at != std::string::npos; at = source.find('%', at + 1))
    if ((at == 0 || source[at - 1] != '{') && source.compare(at, 2, "%}") != 0) return true;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  try {
    const auto ast = jinja::parse(source);
    const jinja::Text out = jinja::evaluate(*ast, variables(), 1753019045, kSteps);
    if (!is_valid_utf8(out.bytes())) std::abort();
    if (may_write_mark(source)) return 0;
    for (size_t at = 0; (at = out.bytes().find(kMark, at)) != std::string::npos; ++at)
      if (out.trusted_at(at)) std::abort();
  } catch (const jinja::Failure& failure) {
    if (failure.error.message.size() > 4096) std::abort();
  }
  return 0;
}
