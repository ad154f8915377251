// Any text in any form: whole and in random pieces give the same, and calls carry JSON objects, or the
// beginning of one. The first byte chooses the form.
#include <cstdint>
#include <cstdlib>
#include <random>

#include "base/json.h"
#include "output/output_parser.h"
#include "output/partial_object.h"
#include "tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anabranch;
  static const auto tools = std::make_shared<const Json>(Json::parse(
      R"([{"function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])"));
  if (size == 0) return 0;
  OutputRules rules;
  rules.format.tools = static_cast<ToolFormat>((data[0] & 63) % (static_cast<int>(kLastToolFormat) + 1));
  rules.format.reasoning = ReasoningTags{};
  rules.tools = tools;
  rules.thinking_open = data[0] & 64;
  rules.max_calls = data[0] & 128 ? 1 : 1000;
  const std::string text = replace_invalid_utf8({reinterpret_cast<const char*>(data) + 1, size - 1});
  const ParsedOutput whole = parse_output(text, rules);
  for (const ToolCall& call : whole.calls) {
    const auto arguments = parse_json(call.arguments);
    if (call.name.empty() || (arguments.ok() && !arguments->is_object())) std::abort();
    if (!arguments.ok() && !parse_json(closed_object(call.arguments)).ok()) std::abort();
  }
  std::mt19937 rng(static_cast<uint32_t>(std::hash<std::string>()(text)));
  const size_t longest = 1 + rng() % 40;
  OutputParser parser(rules);
  std::vector<OutputEvent> events;
  for (size_t at = 0; at < text.size();) {
    const size_t n = 1 + rng() % longest;
    parser.push(std::string_view(text).substr(at, n), events);
    at += n;
  }
  parser.finish(events);
  ParsedOutput joined;
  for (const OutputEvent& event : events) joined.add(event);
  if (!(joined == whole)) std::abort();
  return 0;
}
