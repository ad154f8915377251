#include "server/api/shorten.h"

#include <gtest/gtest.h>

#include "server/api/content_parts.h"

namespace anabranch::server {
namespace {

const std::string kSummary = "[Summary of the conversation before this message]\n";

// One message for each letter: s(ystem), u(ser), a(nswer), t(ool's result), k(ept summary). A capital one
// holds an image.
ChatRequest chat_of(const std::string& letters) {
  ChatRequest chat;
  for (const char c : letters) {
    const char small = static_cast<char>(std::tolower(c));
    const char* role = small == 's'                   ? "system"
                       : small == 'u' || small == 'k' ? "user"
                       : small == 'a'                 ? "assistant"
                                                      : "tool";
    Json message = {{"role", role}, {"content", std::string(1, c)}};
    if (small == 'k') message["content"] = kSummary;
    if (small != c) {
      message["content"] =
          Json::array({{{"type", "image"}}, {{"type", "text"}, {"text", std::string(1, c)}}});
      chat.images.push_back({std::to_string(chat.images.size()), {}, ""});
    }
    chat.messages.push_back(std::move(message));
  }
  return chat;
}

// The letters that each step leaves, and the numbers of the images.
std::vector<std::string> steps(const std::string& letters) {
  const ChatRequest chat = chat_of(letters);
  std::vector<std::string> all;
  for (size_t step = 0; step <= steps_to_shorten(chat.messages); ++step) {
    const ChatRequest shorter = shortened(chat, step);
    std::string left;
    for (const Json& message : shorter.messages)
      left += message["content"].is_array()               ? string_at(message["content"][1], "text")
              : string_at(message, "content") == kSummary ? "k"
                                                          : string_at(message, "content");
    for (const ImageInput& image : shorter.images) left += image.bytes;
    all.push_back(left);
  }
  return all;
}

using Steps = std::vector<std::string>;

TEST(Shorten, LeavesOutTheOldestTurnsAndThenTheOldestCalls) {
  EXPECT_EQ(steps("suaua"), (Steps{"suaua", "sua"}));
  EXPECT_EQ(steps("ssuauau"), (Steps{"ssuauau", "ssuau", "ssu"}));
  EXPECT_EQ(steps("suatattata"), (Steps{"suatattata", "suattata", "suata", "sua"}));
  EXPECT_EQ(steps("uauatatat"), (Steps{"uauatatat", "uatatat", "uatat", "uat"}));
  EXPECT_EQ(steps("u"), (Steps{"u"}));
  EXPECT_EQ(steps("su"), (Steps{"su"}));
  EXPECT_EQ(steps("sa"), (Steps{"sa"}));
  EXPECT_EQ(steps(""), (Steps{""}));
  EXPECT_EQ(steps("ausu"), (Steps{"ausu", "u"})) << "a later system message goes with its turn";
}

TEST(Shorten, SummariesStay) {
  EXPECT_EQ(steps("skaua"), (Steps{"skaua", "skua"}));
  EXPECT_EQ(steps("ukaua"), (Steps{"ukaua", "kaua", "kua"}));
  EXPECT_EQ(steps("UukUaU"), (Steps{"UukUaU012", "ukUaU12", "kUaU12", "kUaU12", "kU2"}));
  EXPECT_EQ(steps("ukatatat"), (Steps{"ukatatat", "katatat", "katat", "kat"}));
  const ChatRequest chat = chat_of("sukuau");
  EXPECT_EQ(from_turn(chat.messages, 3).size(), 3u) << "instructions, summary and the last turn";
  EXPECT_EQ(begin_of_turn(chat.messages, 3), 5u);
  EXPECT_EQ(begin_of_turn(chat.messages, 4), std::nullopt);
}

TEST(Shorten, ImagesGoWithTheirMessages) {
  EXPECT_EQ(steps("sUaU"), (Steps{"sUaU01", "sU1"}));
  EXPECT_EQ(steps("UaUaTaTu"), (Steps{"UaUaTaTu0123", "UaTaTu123", "u"}));
  EXPECT_EQ(steps("UaUaTaT"), (Steps{"UaUaTaT0123", "UaTaT123", "UaT13"}));
}

TEST(ContentParts, BecomeLinesAndPlaceholders) {
  std::string text = "a\n";
  add_line(text, "b");
  add_line(text, "c");
  EXPECT_EQ(text, "a\nb\nc");
  const auto shown = [](const std::string& type) { return shown_text({{"type", type}}); };
  EXPECT_EQ(shown("video_url"), "[video_url: not shown, this model reads text only]");
  for (const std::string& odd : {std::string(33, 'x'), std::string("a]b"), std::string()})
    EXPECT_EQ(shown(odd), "[content: not shown, this model reads text only]") << odd;
}

TEST(KeptMessages, AreThoseThatWereAnsweredOrStandBesideResults) {
  const auto kept = [](const Json& messages) {
    std::string marks;
    for (const bool one : kept_messages(messages)) marks += one ? 'k' : '.';
    return marks;
  };
  const auto of = [&](const std::string& letters) { return kept(chat_of(letters).messages); };
  EXPECT_EQ(of("u"), ".");
  EXPECT_EQ(of("suu"), "...");
  EXPECT_EQ(of("suau"), "kkk.");
  EXPECT_EQ(of("suatu"), "kkkkk");
  EXPECT_EQ(of("suauatuau"), "kkkkkkkk.");
  EXPECT_EQ(of("ua"), ".k") << "the answer at the end has only begun";
  EXPECT_EQ(of("uaua"), "kk.k");
  EXPECT_EQ(of("aa"), "kk");
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(
      kept(Json::array({{{"role", "user"}, {"content", {{{"type", "tool_result"}}, {{"type", "image"}}}}}})),
      "k");
  EXPECT_EQ(kept({{{"type", "function_call_output"}}, {{"role", "user"}, {"content", "a"}}}), "kk");
  EXPECT_EQ(kept({{{"role", "function"}, {"name", "f"}}, {{"role", "user"}, {"content", "a"}}}), "kk");
  EXPECT_EQ(kept({{{"role", "user"}}, {{"type", "reasoning"}}, {{"type", "message"}, {"role", "user"}}}),
            "kk.");
  EXPECT_EQ(kept({{{"role", "user"}}, {{"type", "custom_tool_call"}}, {{"role", "user"}}}), "kk.");
  EXPECT_EQ(kept({1, "a", Json(), {{"role", 2}, {"content", 3}}}), "....");
}

}  // namespace
}  // namespace anabranch::server
