// Outputs that come in pieces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "output/output_parser.h"
#include "tokenizer/utf8.h"

namespace anabranch {

inline std::ostream& operator<<(std::ostream& out, const ToolCall& call) {
  return out << call.name << ::testing::PrintToString(call.arguments);
}
inline std::ostream& operator<<(std::ostream& out, const ParsedOutput& p) {
  return out << "{reasoning " << ::testing::PrintToString(p.reasoning) << ", content "
             << ::testing::PrintToString(p.content) << ", calls " << ::testing::PrintToString(p.calls) << '}';
}

// Cut at the given places; joins what comes out and checks the order of each call's events.
inline ParsedOutput streamed(const std::vector<std::string>& pieces, const OutputRules& rules) {
  OutputParser parser(rules);
  std::vector<OutputEvent> events;
  for (const auto& piece : pieces) parser.push(piece, events);
  parser.finish(events);
  ParsedOutput out;
  int calls = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_TRUE(is_valid_utf8(events[i].text));
    out.add(events[i]);
    if (events[i].kind == OutputEvent::Kind::call_begin) {
      EXPECT_EQ(events[i].call, calls++);
      EXPECT_EQ(events.at(i + 1).kind, OutputEvent::Kind::call_arguments);
      EXPECT_EQ(events.at(i + 2).kind, OutputEvent::Kind::call_end);
      EXPECT_TRUE(Json::accept(events.at(i + 1).text)) << events.at(i + 1).text;
    }
  }
  EXPECT_EQ(calls, static_cast<int>(out.calls.size()));
  return out;
}

// An output that something else than the model cut off.
inline ParsedOutput cut(const std::string& text, const OutputRules& rules) {
  OutputParser parser(rules);
  std::vector<OutputEvent> events;
  parser.push(text, events);
  parser.finish(events, true);
  ParsedOutput out;
  for (const auto& event : events) out.add(event);
  return out;
}

// The output gives `want` as a whole, cut in two anywhere, and character by character.
inline void expect_at_any_cut(const std::string& text, const OutputRules& rules, const ParsedOutput& want) {
  ASSERT_EQ(parse_output(text, rules), want) << text;
  std::vector<std::string> characters;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] & 0xC0) == 0x80) {  // pieces are UTF-8
      characters.back() += text[i];
      continue;
    }
    if (i < text.size()) characters.emplace_back(1, text[i]);
    ASSERT_EQ(streamed({text.substr(0, i), text.substr(i)}, rules), want) << text << " cut at " << i;
  }
  ASSERT_EQ(streamed(characters, rules), want) << text << " by characters";
}

}  // namespace anabranch
