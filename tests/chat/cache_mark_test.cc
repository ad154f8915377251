#include "chat/cache_mark.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

using In = CacheMark::In;

Json say(const char* role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

TEST(CacheMark, ChangesOnlyWhatStandsBehindIt) {
  const Json messages = Json::array({say("user", "apple"), say("assistant", "Anton"), say("user", "cherry")});
  const auto changed = [&](const CacheMark& mark) -> std::pair<int, std::string> {
    Json copy = messages, tools;
    const auto place = change_behind(mark, copy, tools);
    std::string text;
    for (const Json& message : copy) text += message["content"].get<std::string>() + " ";
    return {place ? static_cast<int>(*place) : -1, text};
  };
  EXPECT_EQ(changed({In::message, 0, 2}), std::pair(0, std::string("apAple Anton cherry ")));
  EXPECT_EQ(changed({In::message, 0, 5}), std::pair(1, std::string("apple 9 cherry ")));  // not an A again
  EXPECT_EQ(changed({In::message, 1}), std::pair(2, std::string("apple Anton A ")));
  EXPECT_EQ(changed({In::message, 2}).first, -1);  // nothing follows
  EXPECT_EQ(changed({In::message, 3}).first, -1);
  EXPECT_EQ(changed({In::tools, 0}).first, -1);
}

TEST(CacheMark, CountsTheTextBetweenImages) {
  const Json image = {{"type", "image"}};
  const auto text = [](const char* words) { return Json{{"type", "text"}, {"text", words}}; };
  const Json messages = Json::array({say("user", Json::array({text("ab"), image, text("cd")})),
                                     say("user", Json::array({image, text("e")}))});
  const auto changed = [&](size_t bytes) {
    Json copy = messages, tools;
    change_behind({In::message, 0, bytes}, copy, tools);
    return copy;
  };
  EXPECT_EQ(changed(1)[0]["content"][0]["text"], "aAb");
  EXPECT_EQ(changed(2)[0]["content"][2]["text"], "Acd");
  EXPECT_EQ(changed(3)[0]["content"][2]["text"], "cAd");
  EXPECT_EQ(changed(4)[0], messages[0]);
  EXPECT_EQ(changed(4)[1]["content"][0], text("A"));
}

TEST(CacheMark, DoesNotCutCharacters) {
  Json messages = Json::array({say("user", "\xC3\xA9x")}), tools;
  change_behind({In::message, 0, 1}, messages, tools);
  EXPECT_EQ(messages[0]["content"], "A\xC3\xA9x");
}

TEST(CacheMark, WritesAreWhatWasNotReadFromTheCache) {
  const auto writes = [](const std::vector<MarkedLength>& marks, int cached) {
    const CacheWrites found = cache_writes(marks, cached);
    return std::pair(found.five_minutes, found.hour);
  };
  EXPECT_EQ(writes({}, 10), std::pair(0, 0));
  EXPECT_EQ(writes({{50, true}, {70, false}}, 0), std::pair(20, 50));
  EXPECT_EQ(writes({{50, true}, {70, false}}, 40), std::pair(20, 10));
  EXPECT_EQ(writes({{50, true}, {70, false}}, 60), std::pair(10, 0));
  EXPECT_EQ(writes({{50, true}, {70, false}}, 80), std::pair(0, 0));
  EXPECT_EQ(writes({{50, false}, {70, true}}, 0), std::pair(0, 70));
}

}  // namespace
}  // namespace anabranch
