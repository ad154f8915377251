// Thoughts, calls and stop strings in one stream of tokens, cut at every place.
#include "output/output_text.h"

#include <gtest/gtest.h>

#include <random>

namespace anabranch {
namespace {

// Every byte is a token, as are the marks and some longer texts.
class WordTokenizer {
 public:
  WordTokenizer() {
    GgufVocab vocab;
    vocab.model = "llama";
    const auto add = [&](const std::string& text, int type) {
      vocab.tokens.push_back(text);
      vocab.types.push_back(type);
      vocab.scores.push_back(0);
    };
    add("<unk>", 2);
    for (int byte = 0; byte < 256; byte++) add(fmt::format("<0x{:02X}>", byte), 6);
    for (const char* mark : {"<think>", "</think>", "<tool_call>", "</tool_call>", "<s>"}) add(mark, 3);
    for (const char* word : {"\n\n", "STOP", "ST", "OP", "Pa", "ris", "</", "think>", "\n", " ", "\n\n\n"})
      add(word, 1);
    vocab.unk = 0;
    vocab.add_space_prefix = false;
    auto made = Tokenizer::from_gguf(vocab);
    CHECK(made.ok(), "{}", made.error().message);
    tokenizer_ = *made;
    for (size_t i = 257; i < vocab.tokens.size(); i++) words_.push_back(vocab.tokens[i]);
  }
  const Tokenizer& get() const { return *tokenizer_; }
  // The text's tokens: marks as one token each; of the others the longest that fits, or bytes.
  std::vector<int> tokens(std::string_view text, bool bytes_only) const {
    std::vector<int> out;
    while (!text.empty()) {
      size_t size = 1;
      int id = 1 + static_cast<unsigned char>(text[0]);
      for (size_t i = 0; i < words_.size(); i++)
        if (text.starts_with(words_[i]) && words_[i].size() > size && (i < 5 || !bytes_only))
          id = 257 + static_cast<int>(i), size = words_[i].size();
      out.push_back(id);
      text.remove_prefix(size);
    }
    return out;
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> words_;
};

const WordTokenizer& words() {
  static const WordTokenizer made;
  return made;
}

struct Shown {
  ParsedOutput output;
  bool stopped = false;
  bool operator==(const Shown&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  return out << ::testing::PrintToString(shown.output.reasoning) << " | "
             << ::testing::PrintToString(shown.output.content) << " | " << shown.output.calls.size()
             << " calls" << (shown.stopped ? ", stopped" : "");
}

// sizes: of the pushes, in tokens; the last one repeats.
Shown show_tokens(std::span<const int> tokens, const OutputRules& rules, const std::vector<std::string>& stop,
                  const std::vector<size_t>& sizes) {
  OutputText output(words().get(), stop, rules);
  Shown out;
  for (size_t at = 0, step = 0; at < tokens.size(); step++) {
    const size_t size = std::min(sizes[std::min(step, sizes.size() - 1)], tokens.size() - at);
    for (const auto& event : output.push(tokens.subspan(at, size))) out.output.add(event);
    at += size;
  }
  for (const auto& event : output.finish()) out.output.add(event);
  out.stopped = output.stopped();
  return out;
}

struct StreamCase {
  std::string text;
  std::vector<std::string> stop;
  Shown want;
  bool open = false;  // the prompt ends in a thought
};

OutputRules stream_rules(bool open) {
  OutputRules rules;
  rules.format = {ReasoningTags(), ToolFormat::tagged};
  rules.tools = std::make_shared<const Json>(Json::array(
      {{{"type", "function"},
        {"function", {{"name", "f"}, {"parameters", {{"properties", {{"city", {{"type", "string"}}}}}}}}}}}));
  rules.thinking_open = open;
  return rules;
}

std::vector<StreamCase> stream_cases() {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"city": "Paris"}}</tool_call>)";
  const ToolCall paris{"f", R"({"city": "Paris"})"};
  return {
      {"<think>a STOP b</think>\n\nYes STOP no", {"STOP"}, {{"a STOP b", "Yes ", {}}, true}},
      {"a STOP b\n</think>\n\nYes STOP no", {"STOP"}, {{"a STOP b", "Yes ", {}}, true}, true},
      // Line ends behind a thought are the thought's.
      {"<think>a</think>\n\nYes\n\nno", {"\n\n"}, {{"a", "Yes", {}}, true}},
      {"<think>a\n\nb</think>\n\n\n\nYes.", {"\n\n"}, {{"a\n\nb", "Yes.", {}}, false}},
      // A stop string has no part in a thought.
      {"one ST<think>OP</think>OP two", {"STOP"}, {{"OP", "one STOP two", {}}, false}},
      {"one ST<think>x</think>\nOP STOP", {"STOP"}, {{"x", "one STOP ", {}}, true}},
      // Calls, before and behind thoughts.
      {"<think>a</think>" + call, {}, {{"a", "", {paris}}, false}},
      {"<think>a " + call + " b</think>c", {}, {{"a " + call + " b", "c", {}}, false}},
      {"<think>a " + call, {}, {{"a", "", {paris}}, false}},
      {"Well. " + call + "\n" + call + " STOP", {"STOP"}, {{"", "Well.", {paris, paris}}, true}},
      // A stop string in a call cuts it: it is neither shown nor made.
      {"Well. " + call, {"Paris"}, {{"", "Well.", {}}, true}},
      {"Well. " + call, {"aris\""}, {{"", "Well.", {}}, true}},
      {call + " more", {"</tool_call>"}, {{"", "", {paris}}, true}},  // whole all the same
      // Characters of several bytes, and bytes that are none.
      {"<think>é</think>ü你😀STO", {"STOP"}, {{"é", "ü你😀STO", {}}, false}},
      {"ST\xe4", {"STOP"}, {{"", "ST\uFFFD", {}}, false}},
      {"\xe4\xbdSTOP", {"STOP"}, {{"", "\uFFFD", {}}, true}},
      {"a\xf0\x9f\x98", {}, {{"", "a\uFFFD", {}}, false}},
      {"<think>a\xf0\x9f</think>b\xed\xa0\x80", {}, {{"a\uFFFD", "b\uFFFD\uFFFD\uFFFD", {}}, false}},
  };
}

// A mark that is spelled is text, so only the marks' own tokens are whole.
TEST(OutputStream, CutsAndTokensDoNotMatter) {
  for (const StreamCase& c : stream_cases()) {
    const OutputRules rules = stream_rules(c.open);
    const std::string text = ::testing::PrintToString(c.text);
    for (const bool bytes_only : {true, false}) {
      const auto tokens = words().tokens(c.text, bytes_only);
      ASSERT_EQ(show_tokens(tokens, rules, c.stop, {tokens.size()}), c.want) << text;
      ASSERT_EQ(show_tokens(tokens, rules, c.stop, {1}), c.want) << text << " token by token";
      for (size_t cut = 1; cut < tokens.size(); cut++)
        ASSERT_EQ(show_tokens(tokens, rules, c.stop, {cut, tokens.size()}), c.want)
            << text << " cut at " << cut;
    }
  }
}

// Random rows of the parts above, in random pieces.
// What a stop token would show is hidden, unless the text is to have its end.
TEST(OutputStream, StopTokensAndFirstTokens) {
  OutputRules rules = stream_rules(false);
  const auto shown = [&](const std::string& text, const std::vector<std::string>& stop) {
    const auto tokens = words().tokens(text, false);
    const Shown whole = show_tokens(tokens, rules, stop, {tokens.size()});
    EXPECT_EQ(show_tokens(tokens, rules, stop, {1}), whole) << text;
    return whole.output.content;
  };
  rules.stop_tokens = words().tokens("STOP", false);
  EXPECT_EQ(shown("Paris STOP", {}), "Paris ");
  EXPECT_EQ(shown("Paris STOP", {" "}), "Paris");
  rules.keep_stop = true;
  EXPECT_EQ(shown("Paris STOP", {}), "Paris STOP");
  EXPECT_EQ(shown("Paris, and", {"s,", "s, and"}), "Paris,");
  rules = stream_rules(false);
  rules.min_tokens = 4;  // Pa ris " " STOP
  EXPECT_EQ(shown("Paris STOP", {"ris", "STOP"}), "Paris STOP");
  EXPECT_EQ(shown("Paris STOP STOP", {"STOP"}), "Paris STOP ");
  rules.min_tokens = 3;
  EXPECT_EQ(shown("Paris STOP", {" STOP"}), "Paris");
  // Thoughts do not count.
  rules = stream_rules(true);
  rules.min_tokens = 2;
  EXPECT_EQ(shown("a b c</think>Paris Paris", {"is"}), "Paris Par");
}

// A stop string does not count in white space that may stand before a thought.
TEST(OutputStream, WhiteSpaceBeforeAThought) {
  OutputRules rules = stream_rules(false);
  const auto shown = [&](const std::string& text) {
    const auto tokens = words().tokens(text, false);
    return show_tokens(tokens, rules, {"\n"}, {1});
  };
  EXPECT_EQ(shown("\n<think>a</think>\nYes\nno"), (Shown{{"", "", {}}, true}));
  rules.format.reasoning->blanks_before = true;
  EXPECT_EQ(shown("\n<think>a</think>\nYes\nno"), (Shown{{"a", "Yes", {}}, true}));
  EXPECT_EQ(shown("\nYes\nno"), (Shown{{"", "Yes", {}}, true}));
  EXPECT_EQ(shown("Yes\n<think>a</think>"), (Shown{{"", "Yes", {}}, true}));
}

TEST(OutputStream, RandomCutsDoNotMatter) {
  std::mt19937 random(3);
  std::vector<std::string> parts = {"a", " ", "\n", "ST", "OP", "é", "<think>", "</think>", "{", "STOP"};
  for (const StreamCase& c : stream_cases()) parts.push_back(c.text);
  for (int round = 0; round < 1500; round++) {
    std::string text;
    for (size_t n = random() % 5; n > 0; n--) text += parts[random() % parts.size()];
    const OutputRules rules = stream_rules(random() % 2 == 0);
    std::vector<std::string> stop;
    if (random() % 3 > 0) stop.push_back("STOP");
    if (random() % 3 == 0) stop.push_back("\n\n");
    const auto tokens = words().tokens(text, random() % 2 == 0);
    if (tokens.empty()) continue;
    std::vector<size_t> sizes;
    for (int i = 0; i < 20; i++) sizes.push_back(1 + random() % 7);
    ASSERT_EQ(show_tokens(tokens, rules, stop, sizes), show_tokens(tokens, rules, stop, {tokens.size()}))
        << ::testing::PrintToString(text) << " in round " << round;
  }
}

// Whoever writes the marks letter by letter opens and calls nothing.
TEST(OutputStream, SpelledMarksAreText) {
  const std::string text = R"(<think>a</think><tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  std::vector<int> spelled;
  for (const char byte : text) spelled.push_back(1 + static_cast<unsigned char>(byte));
  for (const std::vector<size_t>& sizes : {std::vector<size_t>{1}, {3}, {spelled.size()}})
    EXPECT_EQ(show_tokens(spelled, stream_rules(false), {}, sizes), (Shown{{"", text, {}}, false}));
}

}  // namespace
}  // namespace anabranch
