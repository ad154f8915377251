// Answers that are messages with headers (gpt-oss), with its real template.
#include "output/message_reader.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "output/output_text.h"
#include "output/reasoning.h"

namespace anabranch {
namespace {

// Every byte is a token, as are the marks, which are special.
class MessageTokenizer {
 public:
  MessageTokenizer() {
    GgufVocab vocab;
    vocab.model = "llama";
    const auto add = [&](const std::string& text, int type) {
      vocab.tokens.push_back(text);
      vocab.types.push_back(type);
      vocab.scores.push_back(0);
    };
    add("<unk>", 2);
    for (int byte = 0; byte < 256; byte++) add(fmt::format("<0x{:02X}>", byte), 6);
    for (const std::string_view mark : kMessageMarks) add(std::string(mark), 3);
    vocab.unk = 0;
    vocab.add_space_prefix = false;
    auto made = Tokenizer::from_gguf(vocab);
    CHECK(made.ok(), "{}", made.error().message);
    tokenizer_ = *made;
  }
  const Tokenizer& get() const { return *tokenizer_; }
  // marks: as tokens; otherwise every byte is one.
  std::vector<int> tokens(std::string_view text, bool marks = true) const {
    std::vector<int> out;
    while (!text.empty()) {
      size_t size = 1;
      int id = 1 + static_cast<unsigned char>(text[0]);
      for (const std::string_view mark : kMessageMarks)
        if (marks && text.starts_with(mark)) id = *tokenizer_->find(mark), size = mark.size();
      out.push_back(id);
      text.remove_prefix(size);
    }
    return out;
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

const MessageTokenizer& words() {
  static const MessageTokenizer made;
  return made;
}

const auto kTools = std::make_shared<const Json>(Json::parse(R"([
    {"type": "function", "function": {"name": "weather", "description": "W", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])"));

std::shared_ptr<const ChatTemplate> gpt_oss() {
  const auto source = read_file(ANABRANCH_SOURCE_DIR "/tests/jinja/data/templates/gpt_oss.jinja", 1 << 20);
  auto chat = ChatTemplate::parse(*source, "", "<|return|>");
  CHECK(chat.ok(), "{}", chat.error().message);
  return *chat;
}

OutputRules rules(bool tools = true) {
  OutputRules out{.format = find_output_format(gpt_oss().get(), words().get())};
  if (tools) out.tools = kTools;
  return out;
}

// The events of all tokens at once and one by one, which must say the same.
ParsedOutput read(const std::vector<int>& tokens, const OutputRules& given) {
  ParsedOutput out[2];
  for (const size_t step : {size_t{1}, tokens.size() + 1}) {
    OutputText text(words().get(), {}, given);
    ParsedOutput& parsed = out[step > 1];
    for (size_t at = 0; at < tokens.size(); at += step)
      for (const auto& event : text.push(std::span(tokens).subspan(at, std::min(step, tokens.size() - at))))
        parsed.add(event);
    for (const auto& event : text.finish()) parsed.add(event);
  }
  EXPECT_EQ(out[0].reasoning, out[1].reasoning);
  EXPECT_EQ(out[0].content, out[1].content);
  EXPECT_EQ(out[0].calls, out[1].calls);
  return out[1];
}
ParsedOutput read(std::string_view text, const OutputRules& given = rules()) {
  return read(words().tokens(text), given);
}

TEST(Messages, TheFormatIsThatOfTheTemplateAndOfTheVocabulary) {
  for (const auto& chat : {gpt_oss(), std::shared_ptr<const ChatTemplate>()}) {
    const OutputFormat format = find_output_format(chat.get(), words().get());
    EXPECT_EQ(format.tools, ToolFormat::messages);
    ASSERT_TRUE(format.reasoning);
    EXPECT_TRUE(format.reasoning->are_messages());
  }
}

TEST(Messages, ChannelsAreThoughtsContentAndCalls) {
  const auto answer = read(
      "<|channel|>analysis<|message|>Let me see.\n<|end|><|start|>assistant<|channel|>final<|message|>It is "
      "4.");
  EXPECT_EQ(answer, (ParsedOutput{"Let me see.", "It is 4.", {}}));
  // Two thoughts, a text before the call, and the call.
  const auto call = read(
      "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
      "<|start|>assistant<|channel|>commentary<|message|>I "
      "look.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.weather <|constrain|>json<|message|>{\"city\": \"Rom\"}<|call|>");
  EXPECT_EQ(call, (ParsedOutput{"One.\n\nTwo.", "I look.", {{"weather", "{\"city\": \"Rom\"}"}}}));
  const auto both =
      read("<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Last.");
  EXPECT_EQ(both, (ParsedOutput{"", "First.\n\nLast.", {}}));
}

TEST(Messages, TheRecipientMayStandInEitherPlace) {
  const ParsedOutput expected{"", "", {{"weather", "{\"city\":\"Rom\",\"days\":2}"}}};
  for (const char* header : {"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>",
                             "<|channel|>commentary to=functions.weather<|constrain|>json<|message|>",
                             "<|channel|>commentary to=functions.weather json<|message|>",
                             "<|channel|>commentary to=functions.weather<|message|>",
                             "<|channel|>commentary to=weather <|constrain|>json<|message|>",
                             "<|channel|>analysis to=functions.weather code<|message|>",
                             " to=functions.weather<|channel|>commentary json<|message|>",
                             " to=functions.weather<|channel|>commentary <|constrain|>json<|message|>",
                             " to=functions.weather<|channel|>analysis<|message|>"})
    for (const char* end : {"<|call|>", "", "\n<|end|>"})
      EXPECT_EQ(read(header + std::string("{\"city\":\"Rom\",\"days\":2}") + end), expected) << header << end;
}

TEST(Messages, WhatGoesToTheUserIsContent) {
  for (const char* recipient : {"user", "all"}) {
    const std::string to = " to=" + std::string(recipient), text = "<|message|>I look.<|end|>";
    EXPECT_EQ(read("<|channel|>commentary" + to + text), (ParsedOutput{"", "I look.", {}})) << recipient;
    EXPECT_EQ(read(to + "<|channel|>final" + text), (ParsedOutput{"", "I look.", {}})) << recipient;
  }
}

TEST(Messages, WithoutToolsACallIsContent) {
  EXPECT_EQ(read("<|channel|>commentary to=functions.weather<|message|>{}<|call|>", rules(false)),
            (ParsedOutput{"", "{}", {}}));
}

TEST(Messages, MarksSpelledWithOtherTokensAreText) {
  const std::string spelled =
      "<|end|> and <|channel|>commentary to=functions.weather<|message|>{\"city\": \"Rom\"}<|call|>";
  auto tokens = words().tokens("<|channel|>final<|message|>");
  const auto text = words().tokens(spelled, false);
  tokens.insert(tokens.end(), text.begin(), text.end());
  EXPECT_EQ(read(tokens, rules()), (ParsedOutput{"", spelled, {}}));
  tokens[1] = words().tokens("F")[0];  // another channel is content, too
  EXPECT_EQ(read(tokens, rules()).content, spelled);
}

TEST(Messages, TextWithoutAHeaderIsContent) {
  EXPECT_EQ(read("Hello there."), (ParsedOutput{"", "Hello there.", {}}));
  const std::string text(700, 'a');
  EXPECT_EQ(read(text).content, text);
  EXPECT_EQ(read("<|channel|>final"), (ParsedOutput{"", "", {}}));  // cut in a header
  EXPECT_EQ(read(" to=functions.wea"), (ParsedOutput{"", "", {}}));
  EXPECT_EQ(read("<|start|>assist"), (ParsedOutput{"", "", {}}));
  EXPECT_EQ(read("Set to=functions.x, to=5").content, "Set to=functions.x, to=5");
  EXPECT_EQ(read(" to=" + std::string(1100, 'b')).content.size(), 1104u) << "no recipient is that long";
}

// Nothing is lost where a header should stand, whatever mark comes before or after.
TEST(Messages, TextWithoutAHeaderIsContentBehindOtherMessages) {
  const std::string thought = "<|channel|>analysis<|message|>Hm.<|end|>", start = "<|start|>assistant";
  const std::string many(700, 'a');
  for (const std::string& text : {std::string("Yes it is."), many})
    for (const std::string& between : {std::string(), start, "\n" + start})
      for (const char* end : {"", "<|end|>", "<|return|>", "<|end|>\n"}) {
        EXPECT_EQ(read(thought + between + text + end), (ParsedOutput{"Hm.", text, {}})) << between << end;
        EXPECT_EQ(read("<|channel|>final<|message|>A<|end|>" + between + text + end),
                  (ParsedOutput{"", "A\n\n" + text, {}}))
            << between << end;
      }
  EXPECT_EQ(read("I look.<|channel|>commentary to=functions.weather<|message|>{\"city\": \"Rom\"}<|call|>"),
            (ParsedOutput{"", "I look.", {{"weather", "{\"city\": \"Rom\"}"}}}));
  EXPECT_EQ(read("One.<|end|>" + start + "<|channel|>final<|message|>Two.").content, "One.\n\nTwo.");
  EXPECT_EQ(read(thought + start + "<|end|>" + start + "<|channel|>final<|message|>Two."),
            (ParsedOutput{"Hm.", "Two.", {}}));
}

// Models forget <|message|>: the text is that of the channel, however long it is.
TEST(Messages, AHeaderWithoutItsEndHoldsTheText) {
  std::string prose;
  for (int i = 0; prose.size() < 2000; i++) prose += fmt::format("word {}, ", i);
  prose += "end.";
  const std::string end = "<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
  for (const std::string& text : {std::string("It is 4."), prose}) {
    EXPECT_EQ(read("<|channel|>final " + text), (ParsedOutput{"", text, {}}));
    EXPECT_EQ(read("<|channel|>final\n" + text + "<|return|>"), (ParsedOutput{"", text, {}}));
    EXPECT_EQ(read("<|channel|>commentary " + text + "<|message|>" + text).content.substr(0, 8),
              text.substr(0, 8));
    EXPECT_EQ(read("<|channel|>analysis " + text + end), (ParsedOutput{text, "Yes.", {}}));
    EXPECT_EQ(read("<|channel|>commentary to=functions.weather json{\"city\": \"" + text + "\"}<|call|>"),
              (ParsedOutput{"", "", {{"weather", "{\"city\": \"" + text + "\"}"}}}));
    EXPECT_EQ(
        read("<|channel|>commentary to=functions.weather <|constrain|>json {\"city\": \"" + text + "\"}"),
        (ParsedOutput{"", "", {{"weather", "{\"city\": \"" + text + "\"}"}}}));
  }
  // What is no header at all is shown as it is.
  for (const std::string& odd : {"commentary to=functions.weather " + prose, std::string(2000, 'x')})
    EXPECT_EQ(read("<|channel|>" + odd), (ParsedOutput{"", odd, {}}));
  EXPECT_EQ(read("<|channel|>final Set to=5."), (ParsedOutput{"", "Set to=5.", {}}));
  // What ends within a header has no text.
  for (const char* header : {"<|channel|>", "<|channel|>final", "<|channel|>final json",
                             "<|channel|>commentary to=functions.weather json",
                             "<|channel|>final <|constrain|>json", "<|channel|>analysis "})
    EXPECT_EQ(read(header), ParsedOutput()) << header;
}

TEST(Messages, StopStringsCountInTextWithoutAHeader) {
  const std::string thought = "<|channel|>analysis<|message|>A STOP.<|end|>";
  for (const std::string& before : {std::string(), thought, thought + "<|start|>assistant"})
    for (const std::string& after : {std::string(), std::string("<|end|>"), std::string(400, 'b')}) {
      OutputText text(words().get(), {"STOP", "end"}, rules());
      ParsedOutput parsed;
      for (const int token : words().tokens(before + "Yes STOP no" + after))
        for (const auto& event : text.push({&token, 1})) parsed.add(event);
      for (const auto& event : text.finish()) parsed.add(event);
      EXPECT_EQ(parsed, (ParsedOutput{before.empty() ? "" : "A STOP.", "Yes ", {}})) << before << after;
      EXPECT_TRUE(text.stopped());
      EXPECT_EQ(text.stop_found(), "STOP") << "the closing tag is no text";
    }
}

TEST(Messages, AnOutputMayBeginWithinAMessage) {
  OutputRules inside = rules();
  inside.thinking_open = true;
  EXPECT_EQ(read("Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", inside),
            (ParsedOutput{"Hm.", "Yes.", {}}));
  OutputRules answer = rules();
  answer.goes_on = true;
  EXPECT_EQ(read(" and so on", answer), (ParsedOutput{"", " and so on", {}}));
}

TEST(Messages, CallsThatAreNoJsonStayText) {
  const auto broken = read("<|channel|>commentary to=functions.weather<|message|>no json<|call|>");
  EXPECT_TRUE(broken.calls.empty());
  EXPECT_NE(broken.content.find("no json"), std::string::npos);
}

// What the template writes for a call and an answer, the parser reads; thoughts go with the calls that
// follow.
TEST(Messages, TheTemplateRoundTripsAndShowsThoughtsBeforeCalls) {
  Json messages = Json::parse(R"([
      {"role": "user", "content": "Weather?"},
      {"role": "assistant", "content": "", "reasoning_content": "I need the tool.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rom\"}"}}]}])");
  TemplateOptions options;
  options.add_generation_prompt = false;
  options.now = 0;
  const auto pieces = gpt_oss()->render(messages, *kTools, options);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  const std::string text = join(*pieces), role = "<|start|>assistant";
  const size_t at = text.find(role);
  ASSERT_NE(at, text.npos);
  EXPECT_EQ(read(text.substr(at + role.size())),
            (ParsedOutput{"I need the tool.", "", {{"weather", "{\"city\": \"Rom\"}"}}}));
  options.add_generation_prompt = true;
  options.extra = {{"reasoning_effort", "high"}};
  messages.push_back({{"role", "tool"}, {"tool_call_id", "a"}, {"content", "Sun"}});
  const auto next = gpt_oss()->render(messages, *kTools, options);
  ASSERT_TRUE(next.ok());
  EXPECT_NE(join(*next).find("Reasoning: high"), std::string::npos);
  EXPECT_TRUE(
      join(*next).ends_with("to=assistant<|channel|>commentary<|message|>\"Sun\"<|end|><|start|>assistant"));
}

// A text before the call is sent back as part of its thought, because the template takes only one of both.
TEST(Messages, TheTemplateKeepsTheTextBesideACall) {
  Json messages = Json::parse(R"([
      {"role": "user", "content": "Weather?"},
      {"role": "assistant", "content": "I look.", "reasoning_content": "I need the tool.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rom\"}"}}]},
      {"role": "tool", "tool_call_id": "a", "content": "Sun"}])");
  TemplateOptions options;
  options.now = 0;
  const auto rendered = [&] {
    const auto pieces = gpt_oss()->render(messages, *kTools, options);
    const std::string text = pieces.ok() ? join(*pieces) : pieces.error().message,
                      role = "<|start|>assistant";
    const size_t at = text.find(role);
    return at == text.npos ? text : text.substr(at + role.size(), text.find("<|call|>") - at - role.size());
  };
  const std::vector<ToolCall> call = {{"weather", "{\"city\": \"Rom\"}"}};
  EXPECT_EQ(read(rendered()), (ParsedOutput{"I need the tool.\n\nI look.", "", call}));
  messages[1]["content"] =
      Json::parse(R"([{"type": "text", "text": "I"}, {"type": "text", "text": "look."}])");
  EXPECT_EQ(read(rendered()), (ParsedOutput{"I need the tool.\n\nI\n\nlook.", "", call}));
  messages[1]["thinking"] = "Other.";
  messages[1].erase("reasoning_content");
  EXPECT_EQ(read(rendered()), (ParsedOutput{"Other.\n\nI\n\nlook.", "", call}));
  messages[1].erase("thinking");
  EXPECT_EQ(read(rendered()), (ParsedOutput{"I\nlook.", "", call}));
}

// By token: which belong to thoughts and headers, and which to the answer.
TEST(Messages, TheTrackerTellsThoughtsFromAnswers) {
  const Tokenizer& tokenizer = words().get();
  const ReasoningTags tags = *find_reasoning_tags(tokenizer);
  const auto shown = [&](ThoughtTracker tracker, std::string_view text) {
    std::string out;
    for (const int token : words().tokens(text)) {
      const bool part = tracker.accept(token, false);
      out += tracker.inside() ? 'I' : part ? 't' : 'A';
    }
    return out;
  };
  using Begin = ThoughtTracker::Begin;
  const auto tracker = [&](Begin begin, bool headers_answer) {
    return ThoughtTracker(*message_tokens(tags, tokenizer), *tokenizer.find(tags.close), begin,
                          headers_answer);
  };
  const std::string thought = "<|channel|>analysis<|message|>ab<|end|>", next = "<|start|>assistant",
                    final = "<|channel|>final<|message|>xy";
  EXPECT_EQ(shown(tracker(Begin::turn, false), thought + next + final),
            std::string(9, 't') + "III" + "t" + std::string(10 + 7, 't') + "AA");
  // A call in the channel of thoughts is none.
  EXPECT_EQ(shown(tracker(Begin::turn, false), "<|channel|>analysis to=x<|message|>ab"),
            std::string(9 + 6, 't') + "AA");
  // Nor is a message whose channel only begins like that of thoughts one.
  EXPECT_EQ(shown(tracker(Begin::turn, false), "<|channel|><|message|>ab"), "ttAA");
  EXPECT_EQ(shown(tracker(Begin::turn, false), "<|channel|>anal<|message|>ab"), "ttttttAA");
  // A grammar writes the headers: only the turn behind a thought does not count.
  EXPECT_EQ(shown(tracker(Begin::thought, true), "ab<|end|>" + next + final),
            "IIt" + std::string(10, 't') + std::string(9, 'A'));
  // Text without a header is answer, also behind a thought; a role is none.
  EXPECT_EQ(shown(tracker(Begin::turn, false), "abc<|end|>"), "AAAA");
  auto blank = tracker(Begin::turn, false);
  const auto letters = words().tokens("a b");
  EXPECT_TRUE(!blank.accept(letters[0], false) && !blank.accept(letters[1], true) &&
              !blank.accept(letters[2], false));
  EXPECT_EQ(shown(tracker(Begin::thought, false), "a<|end|>" + next + "xy"),
            "It" + std::string(10, 't') + "AA");
  EXPECT_EQ(shown(tracker(Begin::turn, false), "<|channel|>final<|message|>a<|end|>" + next + "<|channel|>f"),
            std::string(7, 't') + "AA" + std::string(12, 't'));
  // The mark of a channel begins a header anywhere.
  EXPECT_EQ(shown(tracker(Begin::answer, false), "a" + thought + "b"),
            "AA" + std::string(8, 't') + "IIIt" + "A");
  EXPECT_EQ(shown(tracker(Begin::thought, false), "a<|channel|>final<|message|>b"),
            "It" + std::string(6, 't') + "A");
  // A header that goes on and on is text of its channel.
  const std::string endless(300, 'x');
  EXPECT_EQ(shown(tracker(Begin::turn, false), "<|channel|>final " + endless).substr(255),
            "t" + std::string(1 + 6 + 300 - 256, 'A'));
  EXPECT_EQ(shown(tracker(Begin::turn, false), "<|channel|>analysis " + endless).substr(255),
            "t" + std::string(1 + 9 + 300 - 256, 'I'));
  auto bare = tracker(Begin::turn, false);
  EXPECT_FALSE(bare.answering());
  bare.accept(words().tokens("a")[0], false);
  EXPECT_TRUE(bare.answering());
  auto closed = tracker(Begin::turn, false);
  EXPECT_FALSE(closed.opens(words().tokens("a")[0]));
  closed.accept(*tokenizer.find("<|channel|>"), false);
  EXPECT_TRUE(closed.opens(words().tokens("a")[0]));
  EXPECT_FALSE(closed.opens(words().tokens("f")[0]));
}

TEST(Messages, AClosedThoughtLeadsIntoTheNextMessage) {
  const Tokenizer& tokenizer = words().get();
  const ReasoningTags tags = *find_reasoning_tags(tokenizer);
  EXPECT_EQ(closing_tokens(tokenizer, "x", tags, false), words().tokens("x<|end|><|start|>assistant"));
  EXPECT_EQ(closing_tokens(tokenizer, "x", tags, true),
            words().tokens("x<|end|><|start|>assistant<|channel|>final<|message|>"));
}

}  // namespace
}  // namespace anabranch
