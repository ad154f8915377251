// Sessions as JSON lines, there and back, and as Markdown.
#include "sessions/session_text.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

Session session() {
  Session session;
  session.title = "Rivers";
  session.model = "m";
  session.created_at = 1'800'000'000;
  session.settings = {{"temperature", 0}};
  return session;
}

std::vector<SessionMessage> messages() {
  std::vector<SessionMessage> all(4);
  all[0].message = {{"role", "user"}, {"content", "Which?\nSay ```why```."}};
  all[1].message = {
      {"role", "assistant"},
      {"content", ""},
      {"reasoning_content", "Let me\nsee."},
      {"tool_calls", Json::array({{{"id", "c1"},
                                   {"type", "function"},
                                   {"function", {{"name", "find"}, {"arguments", "{\"q\":1}"}}}}})}};
  all[2].message = {{"role", "tool"}, {"content", "```\nDanube\n```"}, {"tool_call_id", "c1"}};
  all[2].about = {{"mcp", {{"name", "find"}}}};
  all[3].message = {{"role", "assistant"}, {"content", "The Danube."}};
  all[3].about = {{"model", "m"}};
  for (SessionMessage& one : all) one.created_at = 1'800'000'001;
  return all;
}

TEST(SessionText, JsonLinesComeBack) {
  const auto read =
      from_json_lines(to_json_lines(session(), messages()) + "\n" + to_json_lines(session(), {}));
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->front().title, "Rivers");
  EXPECT_EQ(read->front().settings["temperature"], 0);
  ASSERT_EQ(read->front().messages.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(read->front().messages[i].message, messages()[i].message);
  EXPECT_EQ(read->front().messages[3].about["model"], "m");
  EXPECT_EQ(read->front().messages[3].about["created_at"], 1'800'000'001);
  EXPECT_TRUE(read->back().messages.empty());
}

TEST(SessionText, AnImportedConversationBringsNoTools) {
  Session with = session();
  with.settings["tools"] = Json::array({{{"type", "mcp"}, {"server_label", "shell"}}});
  const auto read = from_json_lines(to_json_lines(with, messages()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->front().settings, session().settings);
}

TEST(SessionText, OtherProgramsLinesAreTaken) {
  const auto read = from_json_lines(
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"}]}],"
      "\"title\":\"T\"}\r\n{\"role\":\"user\",\"content\":\"c\"}\n{\"role\":\"assistant\",\"content\":null}");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->front().title, "T");
  EXPECT_EQ(read->front().messages[0].message["content"], "ab");
  EXPECT_EQ(read->back().messages.size(), 2u);
}

TEST(SessionText, OddLinesAreRefusedByNumber) {
  for (const char* odd : {"{\"role\":\"user\",\"content\":\"a\"}\n\nno json", "\n\n[1]", "\n\n{\"role\":1}",
                          "\n\n{\"messages\":[{\"content\":\"x\"}]}",
                          "\n\n{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"x\"}]}",
                          "\n\n{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":\"x\"}",
                          "\n\n{\"role\":\"user\",\"content\":{}}"}) {
    const auto read = from_json_lines(odd);
    ASSERT_FALSE(read.ok()) << odd;
    EXPECT_EQ(read.error().message.rfind("Line 3: ", 0), 0u) << read.error().message;
  }
  EXPECT_FALSE(from_json_lines("").ok());
}

// The server would fetch the address, and cut the text at the place.
TEST(SessionText, PicturesOfAnImportedMessageAreInItAndWithinItsText) {
  const auto read = [](const char* at, const char* url) {
    return from_json_lines(
               fmt::format(R"({{"role":"user","content":"abc","images":[{{"at":{},"url":"{}"}}]}})", at, url))
        .ok();
  };
  EXPECT_TRUE(read("3", "data:image/png;base64,AA=="));
  for (const char* at : {"4", "-1", "1.5", "null"})
    EXPECT_FALSE(read(at, "data:image/png;base64,AA==")) << at;
  for (const char* url : {"http://10.0.0.1/a.png", "file:///etc/passwd", "data:text/html,x", ""})
    EXPECT_FALSE(read("0", url)) << url;
}

TEST(SessionText, ATextHasALimitOfSessions) {
  std::string text;
  for (int i = 0; i < 10'000; i++) text += "{\"session\":{}}\n";
  EXPECT_TRUE(from_json_lines(text).ok());
  EXPECT_FALSE(from_json_lines(text + "{\"session\":{}}\n").ok());
}

TEST(SessionText, MarkdownIsForPeople) {
  EXPECT_EQ(to_markdown(session(), messages()),
            "# Rivers\n\n2027-01-15 08:00, m\n\n## User\n\nWhich?\nSay ```why```.\n\n## "
            "Assistant\n\n*Thought:*\n\n> "
            "Let me\n> see.\n\n*Calls find:*\n\n```json\n{\"q\":1}\n```\n\n### Result of "
            "find\n\n````\n```\nDanube\n"
            "```\n````\n\n## Assistant\n\nThe Danube.\n");
}

}  // namespace
}  // namespace anabranch
