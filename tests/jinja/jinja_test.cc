// The template language against Python's jinja2 (goldens by tools/make_template_goldens.py), and its limits.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/mapped_file.h"
#include "jinja/parser.h"
#include "jinja/run.h"

namespace anabranch::jinja {
namespace {

Json load(const std::string& name) {
  Result<std::string> text =
      read_file(std::string(ANABRANCH_SOURCE_DIR "/tests/jinja/data/") + name, 16u << 20);
  CHECK(text.ok(), "{}", text.error().message);
  Result<Json> json = parse_json(*text);
  CHECK(json.ok(), "{}", json.error().message);
  return std::move(*json);
}

Result<Text> run(const std::string& source, const Json& context = Json::object(), int64_t now = 0) {
  try {
    std::unique_ptr<const Ast> ast = parse(source);
    std::vector<std::pair<std::string, Value>> variables;
    for (const auto& [key, value] : context.items()) variables.emplace_back(key, from_json(value));
    return evaluate(*ast, variables, now);
  } catch (const Failure& failure) {
    return failure.error;
  }
}

std::string output(const std::string& source, const Json& context = Json::object()) {
  Result<Text> r = run(source, context);
  return r.ok() ? r->bytes() : "ERROR " + r.error().message;
}

TEST(Jinja, SnippetsAsInPython) {
  setenv("TZ", "UTC", 1);
  tzset();
  Json goldens = load("jinja_goldens.json");
  ASSERT_GT(goldens["cases"].size(), 200u);
  for (const Json& golden : goldens["cases"]) {
    const std::string source = golden["source"];
    SCOPED_TRACE(source);
    Result<Text> r = run(source, goldens["context"], goldens["now"].get<int64_t>());
    if (golden.contains("output")) {
      ASSERT_TRUE(r.ok()) << r.error().message;
      EXPECT_EQ(r->bytes(), golden["output"].get<std::string>());
    } else {
      EXPECT_FALSE(r.ok()) << "got: " << r->bytes();
      if (!r.ok() && golden.contains("error")) {
        EXPECT_EQ(r.error().message, golden["error"].get<std::string>());
      }
    }
  }
}

TEST(Jinja, ErrorsNameLineAndColumn) {
  EXPECT_EQ(output("ok\n  {{ 1 | nosuch }}"),
            "ERROR chat template, line 2, column 10: there is no filter named 'nosuch'");
  EXPECT_EQ(output("{{ 1 is nosuch }}"),
            "ERROR chat template, line 1, column 9: there is no test named 'nosuch'");
  EXPECT_EQ(output("a\n\n{% frob %}"),
            "ERROR chat template, line 3, column 4: the tag 'frob' is not supported");
  EXPECT_EQ(output("é {{ missing.x }}"), "ERROR chat template, line 1, column 13: 'missing' is undefined");
  EXPECT_EQ(output("{% if x %}"),
            "ERROR chat template, line 1, column 11: the template ends, but {% endif %} is missing");
  EXPECT_EQ(output("{{ raise_exception('as it is') }}"), "ERROR as it is");
  EXPECT_EQ(output("{% macro m() %}\n{{ 1 + '' }}{% endmacro %}{{ m() }}").substr(0, 38),
            "ERROR chat template, line 2, column 6:");
}

// Where the template's own characters stand in the output: '#' for trusted, '.' for untrusted.
std::string trust(const std::string& source, const Json& context) {
  Result<Text> r = run(source, context);
  if (!r.ok()) return r.error().message;
  std::string out(r->size(), '.');
  for (size_t i = 0; i < out.size(); ++i)
    if (r->trusted_at(i)) out[i] = '#';
  return out;
}

TEST(Jinja, TrustFollowsEveryCharacter) {
  Json c = {{"m", "ab cd"}, {"k", {{"x", "yz"}}}, {"l", {"p", "q"}}};
  EXPECT_EQ(trust("<{{ m }}>", c), "#.....#");
  EXPECT_EQ(trust("{{ '<' + m + '>' }}{{ '(' ~ m ~ ')' }}", c), "#.....##.....#");
  EXPECT_EQ(trust("{{ ('  ' + m + ' x ') | trim }}", c), ".....##");
  EXPECT_EQ(trust("{{ ('<a ' + m).split(' ') | join('|') }}", c), "###..#..");
  EXPECT_EQ(trust("{{ m.replace(' ', '<||>') }}", c), "..####..");
  EXPECT_EQ(trust("{{ '<T>'.replace('T', m) }}", c), "#.....#");
  EXPECT_EQ(trust("{{ ('<' ~ m ~ '>')[::-1] }}{{ ('<' ~ m)[1:3] }}", c), "#.....#..");
  EXPECT_EQ(trust("{{ ('x' ~ m) | upper }}{{ ('x' ~ m) | title }}{{ ('x' ~ m).capitalize() }}", c),
            "#.....#.....#.....");
  EXPECT_EQ(trust("{{ m | tojson }}{{ k | tojson }}", c), std::string(18, '.'));
  EXPECT_EQ(trust("{{ k }}", c), "...........");
  EXPECT_EQ(trust("{{ l | join('##') }}{{ '-'.join(l) }}", c), ".##..#.");
  EXPECT_EQ(trust("{% for ch in '<' ~ l[0] %}{{ ch }}{% endfor %}", c), "#.");
  EXPECT_EQ(trust("{% set s %}<{{ m }}>{% endset %}{{ s }}", c), "#.....#");
  EXPECT_EQ(trust("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(m) }}", c), "#.....#");
  EXPECT_EQ(trust("{{ '<%s>' % m }}{{ '<{}>'.format(m) }}{{ '<%s>' | format(m) }}", c),
            "#.....##.....##.....#");
  EXPECT_EQ(trust("{{ (m ~ '\\nx') | indent(2) }}", c), ".....####");
  EXPECT_EQ(trust("{{ m.center(9, '*') }}{{ m | truncate(4, true, '..') }}", c).substr(0, 9), "##.....##");
  EXPECT_EQ(trust("{{ (m ~ '#') * 2 }}", c), ".....#.....#");
  EXPECT_EQ(trust("{{ ('<b>' ~ l[0]) | escape }}", c), "#########.");
  EXPECT_EQ(trust("{{ m.partition(' ') | join }}{{ (m ~ '!').removesuffix('!') }}", c), "..#.......");
  EXPECT_EQ(trust("{{ 1 }}{{ true }}{{ none }}", c), std::string(9, '.'));
}

TEST(Jinja, HostileTemplatesEndInErrors) {
  auto repeated = [](const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  const std::string attacks[] = {
      "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
      "{{ " + repeated("[", 100000) + "}}",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ 1" + repeated(" + 1", 100000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 50000) + " }}",
      "{{ x" + repeated(".a", 100000) + " }}",
      "{{ x" + repeated("|list", 100000) + " }}",
      repeated("{% if 1 %}", 50000),
      "{% set x = " + repeated("(", 5000) + "a" + repeated(")", 5000) + " = 1 %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{{ 'x' * 1000000000 }}",
      "{{ 'x' * 60000000 * 60000000 }}",
      "{{ range(100000) | list * 100000 }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor "
      "%}",
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l "
      "}}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l }}",
      "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l|tojson }}",
      "{{ ['a'] | map(" + repeated("'map',", 100000) + "'upper') | list }}",
      "{{ 10 ** 100000000 }}",
      "{{ 170141183460469231731687303715884105727 + 1 }}",
      "{{ 99999999999999999999999999999999999999999999999 }}",
      "{{ 'a'.center(10000000000) }}",
      "{{ 'a' | indent(10000000000) }}",
      "{{ 'x' | replace('', 'y' * 60000000) }}",
      "{{ ('ab' * 30000000).replace('a', 'x' * 1000) }}",
      "{% set ns = namespace() %}{% for i in range(100000) %}{% for j in range(100) %}{% set n = namespace() "
      "%}{% endfor %}"
      "{% endfor %}",
      "{{ lipsum() }}",
      "{{ cycler.__init__.__globals__ }}",
      "{{ ''.__class__.__mro__ }}",
      std::string(2u << 20, ' '),
      "\xff\xfe",
  };
  auto start = std::chrono::steady_clock::now();
  for (const std::string& source : attacks) {
    SCOPED_TRACE(source.substr(0, 120));
    Result<Text> r = run(source);
    EXPECT_FALSE(r.ok());
    if (!r.ok()) {
      EXPECT_LT(r.error().message.size(), 500u);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

// The deepest nesting that is allowed must fit a small stack: macOS gives a second thread 512 KiB.
TEST(Jinja, DeepestNestingFitsASmallStack) {
  std::string nested = "1";
  for (int i = 0; i < kMaxSyntaxDepth - 4; ++i) nested = "(" + nested + " + 1)";
  std::string source =
      "{% macro m(n) %}{% if true %}{{ [{'a': [m(n + 1) | upper]}] }}{% endif %}{% endmacro %}";
  std::string first, second;
  auto work = [&] {
    first = output("{{ " + nested + " }}");
    second = output(source + "{{ m(0) }}");
  };
  std::thread(work).join();
  EXPECT_EQ(first, std::to_string(kMaxSyntaxDepth - 3));
  EXPECT_NE(second.find("nested deeper"), std::string::npos) << second;
}

}  // namespace
}  // namespace anabranch::jinja
