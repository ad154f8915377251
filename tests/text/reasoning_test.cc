#include "text/reasoning.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"

namespace anabranch::text {
namespace {

struct Split {
  std::string reasoning, content;
  bool operator==(const Split&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Split& s) {
  return out << '{' << testing::PrintToString(s.reasoning) << ", " << testing::PrintToString(s.content)
             << '}';
}

Split stream(const std::vector<std::string>& pieces, bool open) {
  ReasoningSplitter splitter({}, open);
  Split out;
  const auto add = [&](const ReasoningDelta& delta) {
    EXPECT_TRUE(is_valid_utf8(delta.reasoning) && is_valid_utf8(delta.content));
    out.reasoning += delta.reasoning;
    out.content += delta.content;
  };
  for (const auto& piece : pieces) add(splitter.push(piece));
  add(splitter.flush());
  return out;
}

void trim_start(std::string& text) {
  text.erase(0, text.find_first_not_of(" \t\r\n"));
}
void trim_end(std::string& text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  text.erase(last == std::string::npos ? 0 : last + 1);
}

// The rule itself, on the whole text: sections between tags, trimmed at their borders.
Split expected(std::string text, bool inside) {
  Split out;
  bool after_tag = inside;
  for (;;) {
    const size_t open = text.find("<think>"), close = text.find("</think>"), at = std::min(open, close);
    std::string section = text.substr(0, at);
    if (after_tag) trim_start(section);
    if (inside) trim_end(section);
    (inside ? out.reasoning : out.content) += section;
    if (at == std::string::npos) return out;
    text.erase(0, at + (open < close ? 7 : 8));
    inside = open < close;
    after_tag = true;
  }
}

const std::vector<std::string> kParts{"<think>", "</think>", "<", "</", "think>", "<thi", "nk>",
                                      " ",       "\n",       "a", "é",  "你",     "😀",    "</thin"};

// Pieces end between parts, so they are UTF-8, as the detokeniser's are; tags are also cut by bytes.
std::vector<std::string> random_pieces(std::mt19937& rng) {
  std::vector<std::string> pieces;
  for (size_t i = rng() % 14; i > 0; --i) {
    const std::string& part = kParts[rng() % kParts.size()];
    const bool ascii = static_cast<unsigned char>(part[0]) < 0x80;
    const size_t cut = ascii ? rng() % (part.size() + 1) : 0;
    pieces.push_back(part.substr(0, cut));
    pieces.push_back(part.substr(cut));
  }
  return pieces;
}

TEST(ReasoningSplitter, CutsDoNotMatter) {
  std::mt19937 rng(1);
  int both = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto pieces = random_pieces(rng);
    std::string whole;
    for (const auto& piece : pieces) whole += piece;
    const bool open = rng() % 2 == 0;
    const Split want = expected(whole, open);
    both += !want.reasoning.empty() && !want.content.empty();
    ASSERT_EQ(stream(pieces, open), want) << testing::PrintToString(pieces) << open;
    ASSERT_EQ(stream({whole}, open), want) << whole << open;
  }
  EXPECT_GT(both, 3000);
}

TEST(ReasoningSplitter, HoldsBackOnlyTagsAndSpaces) {
  ReasoningSplitter splitter({}, false);
  EXPECT_EQ(splitter.push("a").content, "a");
  EXPECT_EQ(splitter.push(" <").content, " ");
  EXPECT_EQ(splitter.push("b").content, "<b");
  EXPECT_EQ(splitter.push("</think").content, "");
  EXPECT_EQ(splitter.push("er>").content, "</thinker>");
  EXPECT_EQ(splitter.push("<think>").content, "");
  EXPECT_EQ(splitter.push("\n\nwhy").reasoning, "why");
  EXPECT_EQ(splitter.push(" ").reasoning, "");
  EXPECT_EQ(splitter.push("not").reasoning, " not");
  EXPECT_EQ(splitter.push("\n").reasoning, "");
  const auto end = splitter.push("</think>\n\nSo");
  EXPECT_EQ(end.reasoning, "");
  EXPECT_EQ(end.content, "So");
  EXPECT_EQ(splitter.push(" it goes\n").content, " it goes\n");
}

TEST(ReasoningSplitter, UsualAnswers) {
  EXPECT_EQ(stream({"<think>\nHm.\n</think>\n\nYes."}, false), (Split{"Hm.", "Yes."}));
  EXPECT_EQ(stream({"Hm.\n</think>\n\nYes."}, true), (Split{"Hm.", "Yes."}));
  EXPECT_EQ(stream({"\n\n</think>\n\nYes."}, true), (Split{"", "Yes."}));
  EXPECT_EQ(stream({"Yes. "}, false), (Split{"", "Yes. "}));
  EXPECT_EQ(stream({"Not done "}, true), (Split{"Not done", ""}));
  EXPECT_EQ(stream({"It ends in </thi"}, true), (Split{"It ends in </thi", ""}));
  EXPECT_EQ(stream({"<think>a</think></think>b"}, false), (Split{"a", "b"}));
  EXPECT_EQ(stream({"<think>a"}, true), (Split{"a", ""}));
  EXPECT_EQ(stream({"a<think>b</think>c<think>d</think>e"}, false), (Split{"bd", "ace"}));
}

TEST(Reasoning, PromptEndsInsideABlock) {
  const ReasoningTags tags;
  EXPECT_TRUE(ends_inside_reasoning("<|im_start|>assistant\n<think>\n", tags));
  EXPECT_FALSE(ends_inside_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n", tags));
  EXPECT_FALSE(ends_inside_reasoning("<|im_start|>assistant\n", tags));
  EXPECT_TRUE(ends_inside_reasoning("<think>a</think>b<think>", tags));
  EXPECT_FALSE(ends_inside_reasoning("</think>", tags));
  EXPECT_FALSE(ends_inside_reasoning("", tags));
}

}  // namespace
}  // namespace anabranch::text
