// Limits that a template reaches with many small parts.
#include <gtest/gtest.h>

#include "jinja/parser.h"
#include "jinja/run.h"

namespace anabranch::jinja {
namespace {

std::string result_of(const std::string& source, const std::string& message = "") {
  try {
    const auto ast = parse(source);
    return std::to_string(evaluate(*ast, {{"m", Value(Text(message, false))}}, 0).size()) + " bytes";
  } catch (const Failure& failure) {
    return failure.error.message;
  }
}

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::string kPiece = "{% set t = 'x' * 600000 %}";

// Each text is far below the limit of 64 MiB, all together are above it.
TEST(JinjaLimits, ManyPiecesOfOutputAreBounded) {
  EXPECT_PART(result_of(kPiece + "{% for i in range(120) %}{{ t }}{% endfor %}"), "a text of more than");
  EXPECT_PART(result_of(kPiece + "{% macro f() %}{% for i in range(120) %}{{ t }}{% endfor %}{% endmacro %}"
                                 "{{ f() | length }}"),
              "a text of more than");
  EXPECT_EQ(result_of(kPiece + "{% for i in range(10) %}{{ t }}{% endfor %}"), "6000000 bytes");
}

// The text ends at its limit, not at that of the steps: 20 times as much memory.
TEST(JinjaLimits, TextsThatAreJoinedAreBounded) {
  const std::string huge = "{% set t = ('x' * 600000) * 100 %}";
  for (const char* end : {"{{ ([t] * 40) | join | length }}", "{{ ('a' * 40).replace('a', t) | length }}"})
    EXPECT_PART(result_of(huge + end), "a text of more than");
  EXPECT_PART(result_of(kPiece + "{{ (t ~ t ~ t ~ t) * 30 }}"), "a text of more than");
}

// What lists hold takes steps, so that joining them in a loop ends.
TEST(JinjaLimits, ListsThatGrowInALoopTakeSteps) {
  EXPECT_PART(result_of("{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = ns.l + [i] %}"
                        "{% endfor %}{{ ns.l | length }}"),
              "too many steps");
  EXPECT_EQ(result_of("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = ns.l + [i] %}"
                      "{% endfor %}{{ ns.l | length }}"),
            "4 bytes");
  EXPECT_PART(result_of("{{ (range(100000) | list * 1000) | length }}"), "too many steps");
}

TEST(JinjaLimits, RangesAreBounded) {
  EXPECT_EQ(result_of("{{ range(100000) | length }}"), "6 bytes");
  for (const char* source : {"{{ range(100001) | length }}", "{{ range(1, 300002, 2) | length }}",
                             "{{ range(0, -100001, -1) | length }}"})
    EXPECT_PART(result_of(source), "a range of more than");
}

TEST(JinjaLimits, NestingOfValuesIsBounded) {
  const auto nested = [](int levels) {
    return "{% set ns = namespace(l=[]) %}{% for i in range(" + std::to_string(levels) +
           ") %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | string | length }}";
  };
  EXPECT_EQ(result_of(nested(140)), "3 bytes");
  EXPECT_PART(result_of(nested(160)), "values nested deeper");
}

// From both ends, over all lengths and steps, nothing is read beyond the text or the list.
TEST(JinjaLimits, SlicesStayWithinTheText) {
  const std::string text = "aé你😀z";  // five characters
  const std::vector<std::string> characters = {"a", "é", "你", "😀", "z"};
  for (int start = -7; start <= 7; start++)
    for (int stop = -7; stop <= 7; stop++)
      for (const int step : {-7, -2, -1, 1, 2, 7}) {
        // Python's rule: negative places count from the end, then all are clamped.
        const auto clamped = [&](int at) {
          if (at < 0) at += 5;
          return step > 0 ? std::clamp(at, 0, 5) : std::clamp(at, -1, 4);
        };
        std::string want;
        for (int i = clamped(start); step > 0 ? i < clamped(stop) : i > clamped(stop); i += step)
          want += characters[static_cast<size_t>(i)];
        const std::string source = fmt::format("{{{{ m[{}:{}:{}] }}}}", start, stop, step);
        const auto ast = parse(source);
        ASSERT_EQ(evaluate(*ast, {{"m", Value(Text(text, false))}}, 0).bytes(), want) << source;
      }
  for (const char* source : {"{{ m[::-1] }}", "{{ (m | list)[::-1] | join }}", "{{ m | reverse }}"}) {
    const auto ast = parse(source);
    EXPECT_EQ(evaluate(*ast, {{"m", Value(Text(text, false))}}, 0).bytes(), "z😀你éa") << source;
  }
}

// No filter or method makes a user's text the template's own.
TEST(JinjaLimits, FiltersKeepTextUntrusted) {
  for (const char* source : {"{{ m }}",
                             "{{ m | upper }}",
                             "{{ m | lower }}",
                             "{{ m | title }}",
                             "{{ m | capitalize }}",
                             "{{ m.upper() }}",
                             "{{ m.lower() }}",
                             "{{ m.title() }}",
                             "{{ m.swapcase() }}",
                             "{{ m | escape }}",
                             "{{ m | e }}",
                             "{{ m | trim }}",
                             "{{ m | tojson }}",
                             "{{ m | string }}",
                             "{{ m | reverse }}",
                             "{{ m[::-1] }}",
                             "{{ m | replace('a', m) }}",
                             "{{ m.split('a') | join(m) }}",
                             "{{ m | list | join }}",
                             "{{ m * 3 }}",
                             "{{ m ~ m }}",
                             "{{ '%s' % m }}",
                             "{{ '%s' | format(m) }}",
                             "{{ '{}'.format(m) }}",
                             "{{ [m] | first }}",
                             "{{ [m] | string }}",
                             "{{ {m: m} | string }}",
                             "{% set s %}{{ m }}{% endset %}{{ s }}",
                             "{% filter upper %}{{ m }}{% endfilter %}",
                             "{{ m.strip('q') }}",
                             "{{ m | indent(0) }}",
                             "{{ m.removeprefix('q') }}"}) {
    const auto ast = parse(source);
    const Text out = evaluate(*ast, {{"m", Value(Text("a<b>&\"'ß", false))}}, 0);
    for (size_t at = 0; at < out.size(); at++)
      ASSERT_FALSE(out.trusted_at(at)) << source << ": " << out.bytes();
    EXPECT_GT(out.size(), 0u) << source;
  }
}

}  // namespace
}  // namespace anabranch::jinja
