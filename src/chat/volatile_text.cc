#include "chat/volatile_text.h"

#include "base/check.h"
#include "chat/message_text.h"

namespace anabranch {
namespace {

// Removes the matches from `text`; returns them, one per line.
std::string cut_out(std::string& text, const Regex& pattern) {
  std::string rest, matches;
  size_t done = 0;
  for_each_match(pattern, text, [&](size_t begin, size_t end) {
    if (begin == end) return;
    rest.append(text, done, begin - done);
    matches.append(text, begin, end - begin);
    if (matches.back() != '\n') matches += '\n';
    done = end;
  });
  if (done > 0) text = rest.append(text, done);
  return matches;
}

void append(Json& message, std::string text) {
  text.pop_back();  // the last line feed
  Json& content = message["content"];
  if (content.is_string())
    content.get_ref<std::string&>() += "\n\n" + text;
  else
    content.push_back({{"type", "text"}, {"text", std::move(text)}});
}

}  // namespace

std::vector<VolatileRule> known_volatile_text() {
  // At the beginning of a line: a header's name and its KEY=VALUE; fields. Other text may follow on the same
  // line, if a proxy joined two parts of the prompt.
  auto header = Regex::compile("(?<![^\\n])x-anthropic-[a-z-]+:(?:[ \\t]*[A-Za-z_]+=[^;\\s]*;?)+[ \\t]*\\n?");
  CHECK(header.ok(), "{}", header.error().message);
  std::vector<VolatileRule> rules;
  rules.push_back({std::move(*header), true});
  return rules;
}

void split_volatile_text(Json& messages, std::span<const VolatileRule> rules) {
  if (rules.empty() || !messages.is_array()) return;
  Json* user = nullptr;
  for (Json& message : messages)
    if (string_at(message, "role") == "user" && message.contains("content") &&
        (message["content"].is_string() || message["content"].is_array()))
      user = &message;
  std::string moved;
  for (Json& message : messages) {
    const std::string role = string_at(message, "role");
    if (role != "system" && role != "developer") continue;
    for_each_text(message, [&](Json& part) {
      auto& text = part.get_ref<std::string&>();
      for (const VolatileRule& rule : rules) {
        if (!rule.drop && !user) continue;
        const std::string matches = cut_out(text, rule.pattern);
        if (!rule.drop) moved += matches;
      }
    });
  }
  if (!moved.empty()) append(*user, std::move(moved));
}

}  // namespace anabranch
