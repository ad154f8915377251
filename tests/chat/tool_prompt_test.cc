#include "chat/tool_prompt.h"

#include <gtest/gtest.h>

#include "output/output_format.h"

namespace anabranch {
namespace {

// Every message with its role; as SmolLM2's.
constexpr const char* kPlain =
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
// Roles alternate, and there is no system message; as Gemma 2's.
constexpr const char* kAlternating =
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif "
    "%}"
    "<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}<|assistant|>";

std::shared_ptr<const ChatTemplate> parsed(const char* source) {
  auto chat = ChatTemplate::parse(source, "", "<|end|>");
  CHECK(chat.ok(), "{}", chat.error().message);
  return *chat;
}

const Json kTools = parse_json(R"([{"type": "function", "function": {"name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])")
                        .value();
// Two calls, their results, and a user who goes on.
const Json kTalk = parse_json(R"([
    {"role": "user", "content": "Oslo and Rome?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}},
      {"id": "2", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "cold"},
    {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "warm"}]},
    {"role": "user", "content": "And now?"}])")
                       .value();

std::string rendered(const ChatTemplate& chat, const Json& messages, const Json& tools) {
  const auto pieces = chat.render(messages, tools, {});
  return pieces.ok() ? join(*pieces) : "error: " + pieces.error().message;
}

TEST(ToolPrompt, FindsTemplatesThatShowTools) {
  EXPECT_FALSE(shows_tools(*parsed(kPlain)));
  EXPECT_FALSE(shows_tools(*parsed(kAlternating)));
  EXPECT_TRUE(
      shows_tools(*parsed("{% if tools %}{{ tools | tojson }}{% endif %}{{ messages[0]['content'] }}")));
  EXPECT_TRUE(
      shows_tools(*parsed("{% if tools and messages[0]['role'] == 'system' %}{{ tools | tojson }}{% endif "
                          "%}{{ messages[0]['content'] }}")));
}

TEST(ToolPrompt, SystemPromptTeachesTheCalls) {
  const auto plain = parsed(kPlain);
  const auto chat = with_tool_prompt(*plain);
  const Json user = parse_json(R"([{"role": "user", "content": "hi"}])").value();
  const std::string with = rendered(*chat, user, kTools);
  EXPECT_EQ(with.find("<|system|>You can call the tools"), 0u) << with;
  EXPECT_NE(with.find(dump_json(kTools[0]["function"])), std::string::npos);
  EXPECT_NE(with.find("</tool_call>"), std::string::npos);
  EXPECT_TRUE(with.ends_with("<|end|><|user|>hi<|end|><|assistant|>"));
  // Beside a system prompt; without tools nothing changes.
  Json both = parse_json(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])")
                  .value();
  EXPECT_EQ(rendered(*chat, both, kTools).find("<|system|>Be brief.\n\nYou can call the tools"), 0u);
  EXPECT_EQ(rendered(*chat, both, nullptr), rendered(*plain, both, nullptr));
}

TEST(ToolPrompt, CallsAndResultsAreText) {
  const auto plain = parsed(kPlain);
  const std::string text = rendered(*with_tool_prompt(*plain), kTalk, kTools);
  const std::string talk =
      "<|user|>Oslo and Rome?<|end|><|assistant|>I look.\n"
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Oslo\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\"}}\n</tool_call><|end|>"
      "<|user|><tool_response>\ncold\n</tool_response>\n<tool_response>\nwarm\n</tool_response>\n\n"
      "And now?<|end|><|assistant|>";
  EXPECT_TRUE(text.ends_with(talk)) << text;
}

TEST(ToolPrompt, TemplatesWithoutASystemMessageGetItInTheFirstQuestion) {
  const auto alternating = parsed(kAlternating);
  const std::string text = rendered(*with_tool_prompt(*alternating), kTalk, kTools);
  EXPECT_EQ(text.find("<|user|>You can call the tools"), 0u) << text;
  EXPECT_NE(text.find("Call a tool only where it helps.\n\nOslo and Rome?"), std::string::npos) << text;
}

// Images in results stay where they are, between the marks of their result.
TEST(ToolPrompt, KeepsImages) {
  const auto plain = parsed(
      "{% for m in messages %}<|{{ m['role'] }}|>{% if m['content'] is string %}{{ m['content'] }}{% else %}"
      "{% for part in m['content'] %}{% if part['type'] == 'image' %}[image]{% else %}{{ part['text'] }}{% "
      "endif %}"
      "{% endfor %}{% endif %}{% endfor %}");
  const auto chat = with_tool_prompt(*plain);
  const Json talk = parse_json(R"([
      {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Look."}]},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "shot", "arguments": {}}}]},
      {"role": "tool", "tool_call_id": "1", "content": "first"},
      {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "second "}, {"type": "image"}]},
      {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "And this?"}]}])")
                        .value();
  EXPECT_EQ(
      rendered(*chat, talk, nullptr),
      "<|user|>[image]Look.<|assistant|><tool_call>\n{\"name\": \"shot\", \"arguments\": {}}\n</tool_call>"
      "<|user|><tool_response>\nfirst\n</tool_response>\n<tool_response>\nsecond [image]\n</tool_response>"
      "\n\n[image]And this?");
}

}  // namespace
}  // namespace anabranch
