// Outputs that come in pieces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "output/output_parser.h"
#include "output/partial_object.h"
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
  bool inside = false;  // a call
  for (const OutputEvent& event : events) {
    EXPECT_TRUE(is_valid_utf8(event.text));
    out.add(event);
    const bool begins = event.kind == OutputEvent::Kind::call_begin;
    EXPECT_EQ(inside, !begins && event.call >= 0);
    if (begins) calls++;
    if (event.call >= 0) {
      EXPECT_EQ(event.call, calls - 1);
      inside = event.kind != OutputEvent::Kind::call_end;
    }
    if (event.kind != OutputEvent::Kind::call_end) continue;
    const std::string& arguments = out.calls.back().arguments;
    EXPECT_TRUE(parse_json(arguments).ok() || parse_json(closed_object(arguments)).ok()) << arguments;
  }
  EXPECT_FALSE(inside);
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
