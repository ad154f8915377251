#include "terminal/markdown.h"

#include <gtest/gtest.h>

#include "terminal/characters.h"
#include "terminal/inline_markdown.h"

namespace anabranch::terminal {
namespace {

// With styles as readable tags: "{b}bold{}".
std::string tagged(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\033') {
      out += text[i];
      continue;
    }
    const size_t end = text.find('m', i);
    const std::string codes = text.substr(i + 2, end - i - 2);
    i = end;
    out += codes == "0"      ? "{}"
           : codes == "0;1"  ? "{b}"
           : codes == "0;3"  ? "{i}"
           : codes == "0;36" ? "{c}"
           : codes == "0;2"  ? "{d}"
           : codes == "0;4"  ? "{l}"
                             : "{" + codes + "}";
  }
  return out;
}

std::string plain(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++)
    if (text[i] == '\033')
      i = text.find('m', i);
    else
      out += text[i];
  return out;
}

std::string show(const std::string& text, size_t width = 0) {
  Markdown markdown([width] { return width; });
  std::string out = markdown.push(text);
  return out += markdown.finish();
}

// The same whatever pieces the text comes in.
std::string show_in_pieces(const std::string& text, size_t piece, size_t width) {
  Markdown markdown([width] { return width; });
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += markdown.push(text.substr(at, piece));
  return out += markdown.finish();
}

TEST(Markdown, Emphasis) {
  EXPECT_EQ(tagged(show("a **b c** d *e* `f` ~~g~~")), "a {b}b c{} d {i}e{} {c}f{} {0;9}g{}");
  EXPECT_EQ(tagged(show("***x*** and **a *b* c**")), "{0;1;3}x{} and {b}a {0;1;3}b{b} c{}");
}

TEST(Markdown, WhatIsNoEmphasisStays) {
  for (const char* text : {"2 * 3 * 4", "snake_case_name and __init__x", "*prices vary", "a ** b", "**open",
                           "5*3*2", "f(*args, **kwargs)", "`open", "[x] done", "a [b", "~5 to ~6", "C:\\dir"})
    EXPECT_EQ(plain(show(text)), text);
  EXPECT_EQ(show("\\*not\\*"), "*not*");
  EXPECT_EQ(plain(show("`a ** b ** c`")), "a ** b ** c");
}

TEST(Markdown, Links) {
  EXPECT_EQ(tagged(show("see [the docs](https://a.b/c) now")), "see {l}the docs{} ({d}https://a.b/c{}) now");
  EXPECT_EQ(plain(show("[https://a.b](https://a.b)")), "https://a.b");
}

TEST(Markdown, HeadingsListsQuotesRules) {
  EXPECT_EQ(tagged(show("## Title\ntext\n")), "{b}Title{}\ntext\n");
  EXPECT_EQ(plain(show("#hashtag\n#!x\n")), "#hashtag\n#!x\n");
  EXPECT_EQ(plain(show("- a\n  * b\n+ c\n1. d\n12) e\n")), "• a\n  • b\n• c\n1. d\n12) e\n");
  EXPECT_EQ(plain(show("> q\n>q\n")), "│ q\n│ q\n");
  EXPECT_EQ(plain(show("---\n-x\n-- y\n3.5 is\n2024\n")).substr(60), "\n-x\n-- y\n3.5 is\n2024\n");
}

TEST(Markdown, CodeStaysAsItIs) {
  const std::string code = "```python\ndef f(*a):\n    return  **a # x\n  ``` not the end\n```\nafter *x*\n";
  EXPECT_EQ(plain(show(code, 10)),
            "```python\ndef f(*a):\n    return  **a # x\n  ``` not the end\n```\nafter x\n");
  EXPECT_EQ(plain(show("````\n```\n````\n")), "````\n```\n````\n");
  EXPECT_EQ(plain(show("```\nopen")), "```\nopen");
  EXPECT_EQ(plain(show("1. Do:\n    ```sh\n    ls\n    ```\nThen **x**\n")),
            "1. Do:\n    ```sh\n    ls\n    ```\nThen x\n");
  EXPECT_EQ(plain(show("```\na\n``` \n**b**\n")), "```\na\n``` \nb\n");
  EXPECT_EQ(plain(show("```a``` is code\n")), "a is code\n");
}

TEST(Markdown, WordsBreakAtTheWidth) {
  EXPECT_EQ(show("one two three four", 9), "one two\nthree\nfour");
  EXPECT_EQ(show("- one two three", 9), "• one two\n  three");
  EXPECT_EQ(show("10. aa bb cc", 9), "10. aa bb\n    cc");
  EXPECT_EQ(plain(show("> aa bb cc", 8)), "│ aa bb\n│ cc");
  EXPECT_EQ(show("你好世界你好", 8), "你好世界\n你好");
  EXPECT_EQ(show("tiny unbreakablylongword x", 8), "tiny\nunbreakablylongword\nx");
  EXPECT_EQ(show("exactly9 fits", 8), "exactly9\nfits");
}

TEST(Markdown, Tables) {
  EXPECT_EQ(plain(show("| a | long |\n|---|:--|\n| 1 | `x|y` |\n| **2** |\nend\n")),
            "a │ long\n──┼─────\n1 │ x|y\n2 │ \nend\n");
  const std::string narrow = plain(show("| a | b |\n|--|--|\n| x | some words that are long |\n\nend", 20));
  for (size_t at = 0; at < narrow.size();) {
    const size_t end = std::min(narrow.find('\n', at), narrow.size());
    EXPECT_LE(cells(narrow.substr(at, end - at)), 20u) << narrow;
    at = end + 1;
  }
  EXPECT_NE(narrow.find("long"), narrow.npos);
  EXPECT_EQ(plain(show("| no table\nx\n")), "| no table\nx\n");
  EXPECT_EQ(plain(show("|x| = 3\n")), "|x| = 3\n");
}

TEST(Markdown, PiecesDoNotMatter) {
  const std::string text =
      "# Head\n\nText **bold text** with `code` and 你好 🎉 [l](u) *open\n\n- item one\n- item *two*\n\n"
      "```c\nint x = a*b; // ü\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n---\n1. x\nlast";
  for (const size_t width : {0u, 12u, 80u})
    for (const size_t piece : {1u, 2u, 3u, 7u, 50u})
      EXPECT_EQ(plain(show_in_pieces(text, piece, width)), plain(show(text, width))) << width << " " << piece;
}

TEST(Markdown, ShowsWordsAsTheyCome) {
  Markdown markdown([] { return size_t{80}; });
  EXPECT_EQ(markdown.push("Hello wor"), "Hello");
  EXPECT_EQ(markdown.push("ld and "), " world and");
  EXPECT_EQ(markdown.push("**bold "), "");
  EXPECT_EQ(tagged(markdown.push("text** x")), " {b}bold text");
  EXPECT_EQ(tagged(markdown.finish()), "{} x");
}

TEST(Markdown, ScriptsWithoutSpaces) {
  EXPECT_EQ(tagged(show("这是**重要**的，注意：**x**。")), "这是{b}重要{}的，注意：{b}x{}。");
  Markdown markdown([] { return size_t{80}; });
  std::string out = markdown.push("你好，世界。") + "";
  EXPECT_NE(out, "");
  EXPECT_EQ(show_in_pieces("你好，**世界**。再见", 1, 0), show("你好，**世界**。再见"));
}

TEST(Markdown, FormulasKeepTheirBackslashes) {
  EXPECT_EQ(plain(show("\\(x^2\\) and \\[y\\] a \\\\ b \\{c\\}")), "\\(x^2\\) and \\[y\\] a \\\\ b \\{c\\}");
}

TEST(Markdown, NoCellIsLost) {
  EXPECT_EQ(plain(show("|a|b|\n|-|-|\n|x|y|z|\n")), "a │ b │ \n──┼───┼──\nx │ y │ z\n");
}

// Whatever the line or table has no end of, what is shown lags behind by a bounded number of bytes.
TEST(Markdown, WhatIsHeldBackIsBounded) {
  const struct {
    const char *begin, *more;
  } endless[] = {
      {"*", "word "},   {"**", "word "},     {"`", "word "},         {"[", "word "},   {"~~", "word "},
      {"| ", "word "},  {"| ", "cell | "},   {"| a |\n", "| b |\n"}, {"# ", "word "},  {"> *", "word "},
      {"- [", "word "}, {"```c\n", "word "}, {"```c\n", "line\n"},   {"```\n", "`` "},
  };
  for (const auto& c : endless) {
    Markdown markdown([] { return size_t{80}; });
    size_t pushed = 0, shown = 0, most = 0;
    const auto push = [&](std::string_view text) {
      pushed += text.size();
      shown += markdown.push(text).size();
      most = std::max(most, pushed - std::min(pushed, shown));
    };
    push(c.begin);
    for (int i = 0; i < 30000; i++) push(c.more);
    EXPECT_GT(shown, pushed / 2) << c.begin << c.more;
    EXPECT_LT(most, 100'000u) << c.begin << c.more;
  }
}

TEST(Markdown, FencesCloseWithTheirOwnMarksOnly) {
  for (const char* inside : {"`x`", "```c", "``` x", "``", "~~~", "`"})
    EXPECT_EQ(plain(show(std::string("````\n") + inside + "\n````\n*t*\n")),
              std::string("````\n") + inside + "\n````\nt\n")
        << inside;
}

TEST(Markdown, LinesAreNoLongerThanTheWindow) {
  const std::string text =
      "aa bbb cccc ddddd eeeeee 你好 fff 🎉 gg *hhh iii* `jj` kkkk\n- ll mmm nnnn ooooo ppp\n";
  for (size_t width = 8; width < 30; width++) {
    std::string line;
    for (const char c : plain(show(text, width)) + "\n") {
      if (c != '\n') {
        line += c;
        continue;
      }
      EXPECT_LE(cells(line), width) << line;
      line.clear();
    }
  }
}

TEST(Markdown, NothingIsHeldForEver) {
  Markdown markdown([] { return size_t{80}; });
  std::string out = markdown.push("*");
  for (int i = 0; i < 300; i++) out += markdown.push("word ");
  EXPECT_GT(out.size(), 1000u);
  out = markdown.push("\n|");
  for (int i = 0; i < 20000; i++) out += markdown.push(" cell |\n|");
  EXPECT_GT(out.size(), 10000u);
  out = markdown.push("\n\n|");
  for (int i = 0; i < 2000; i++) out += markdown.push(" --- |");
  EXPECT_GT(out.size(), 3000u);
}

}  // namespace
}  // namespace anabranch::terminal
