#include "output/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "base/clock.h"
#include "slow.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

// The rule itself, on the whole text: everything before the stop string that begins first. keep: with the
// shortest that begins there.
Outcome expected(std::string_view text, const std::vector<std::string>& stops, bool keep = false) {
  size_t first = std::string_view::npos, length = 0;
  for (const auto& stop : stops) {
    const size_t at = stop.empty() ? std::string_view::npos : text.find(stop);
    if (at < first || (at == first && at != std::string_view::npos && stop.size() < length))
      first = at, length = stop.size();
  }
  if (first == std::string_view::npos) return {std::string(text), false};
  return {std::string(text.substr(0, first + (keep ? length : 0))), true};
}

Outcome stream(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
               bool keep = false) {
  StopMatcher matcher(stops, keep);
  Outcome out;
  for (const auto& piece : pieces) {
    StopMatcher::Step step = matcher.push(piece);
    out.text += step.text;
    out.stopped = out.stopped || step.stopped;
  }
  out.text += matcher.flush();
  return out;
}

// Few characters, so that stop strings, their beginnings and overlaps are frequent.
std::string random_text(std::mt19937& rng, size_t length, const std::vector<std::string>& alphabet) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += alphabet[rng() % alphabet.size()];
  return text;
}

std::vector<std::string> random_cuts(std::mt19937& rng, const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t size = std::min<size_t>(rng() % 5, text.size() - at);  // empty ones too
    pieces.push_back(text.substr(at, size));
    at += size;
  }
  return pieces;
}

// The longest end of `text` with which a stop string could still begin.
size_t longest_beginning(std::string_view text, const std::vector<std::string>& stops) {
  for (size_t n = text.size(); n > 0; --n)
    for (const auto& stop : stops)
      if (n < stop.size() && text.substr(text.size() - n) == stop.substr(0, n)) return n;
  return 0;
}

const std::vector<std::string> kTwoLetters{"a", "b"};

TEST(StopMatcher, CutsDoNotMatter) {
  std::mt19937 rng(1);
  int met = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = rng() % 4; i > 0; --i) stops.push_back(random_text(rng, rng() % 6, kTwoLetters));
    const std::string text = random_text(rng, rng() % 25, kTwoLetters);
    const Outcome want = expected(text, stops);
    met += want.stopped;
    const auto pieces = random_cuts(rng, text);
    const Outcome got = stream(pieces, stops);
    ASSERT_EQ(got.text, want.text) << text << " with " << ::testing::PrintToString(stops) << " in "
                                   << ::testing::PrintToString(pieces);
    // A stop string that ends only while another, begun earlier, was possible comes to light in flush().
    if (got.stopped) {
      ASSERT_TRUE(want.stopped);
    }
  }
  EXPECT_GT(met, 5000);
}

TEST(StopMatcher, MayKeepTheStopString) {
  std::mt19937 rng(5);
  const std::vector<std::string> alphabet = {"a", "b", "c"};
  int kept = 0;
  for (int i = 0; i < 3000; i++) {
    std::vector<std::string> stops;
    for (size_t n = rng() % 4; n > 0; n--) stops.push_back(random_text(rng, 1 + rng() % 5, alphabet));
    const std::string text = random_text(rng, rng() % 30, alphabet);
    const Outcome want = expected(text, stops, true);
    ASSERT_EQ(stream(random_cuts(rng, text), stops, true).text, want.text) << text;
    kept += want.stopped;
  }
  EXPECT_GT(kept, 1000);
}

// A stop string counts by where it ends.
TEST(StopMatcher, SomeTextDoesNotCount) {
  const auto shown = [](const std::vector<std::pair<std::string, bool>>& pieces) {
    StopMatcher matcher({"stop", "op!"});
    std::string out;
    for (const auto& [text, counts] : pieces) out += matcher.push(text, counts).text;
    return out + matcher.flush();
  };
  EXPECT_EQ(shown({{"a stop b", false}, {" stop c", true}}), "a stop b ");
  EXPECT_EQ(shown({{"a sto", false}, {"p b", true}}), "a ");
  EXPECT_EQ(shown({{"a stop", false}, {"! b", true}}), "a st");
  EXPECT_EQ(shown({{"a stop", false}, {" b", true}}), "a stop b");
  EXPECT_EQ(shown({{"a stop", true}, {" b", false}}), "a ");
}

TEST(StopMatcher, HoldsBackNoMoreThanItMust) {
  std::mt19937 rng(2);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 1 + rng() % 3; i > 0; --i) stops.push_back(random_text(rng, 1 + rng() % 5, kTwoLetters));
    const std::string text = random_text(rng, rng() % 25, kTwoLetters);
    StopMatcher matcher(stops);
    std::string shown;
    for (size_t at = 0; at < text.size(); ++at) {
      const auto step = matcher.push(std::string_view(text).substr(at, 1));
      shown += step.text;
      // Nothing of a stop string was shown, complete or not.
      const std::string_view so_far = std::string_view(text).substr(0, at + 1);
      ASSERT_LE(shown.size(), expected(so_far, stops).text.size());
      if (step.stopped || expected(so_far, stops).stopped) break;
      ASSERT_EQ(shown.size(), so_far.size() - longest_beginning(so_far, stops))
          << so_far << " with " << ::testing::PrintToString(stops);
    }
  }
}

TEST(StopMatcher, EveryStepIsUtf8) {
  std::mt19937 rng(3);
  const std::vector<std::string> letters{"a", "é", "è", "你", "佡", "😀", "😁"};
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops, pieces;
    for (size_t i = 1 + rng() % 3; i > 0; --i) stops.push_back(random_text(rng, 1 + rng() % 2, letters));
    std::string text;
    for (size_t i = rng() % 10; i > 0; --i) text += pieces.emplace_back(random_text(rng, rng() % 3, letters));
    StopMatcher matcher(stops);
    std::string shown;
    for (const auto& piece : pieces) {
      const auto step = matcher.push(piece);
      ASSERT_TRUE(is_valid_utf8(step.text)) << text;
      shown += step.text;
    }
    const std::string rest = matcher.flush();
    ASSERT_TRUE(is_valid_utf8(rest));
    ASSERT_EQ(shown + rest, expected(text, stops).text) << text;
  }
}

TEST(StopMatcher, ShowsWhatCannotBecomeAStop) {
  StopMatcher matcher({"</s>", "\n\nUser:"});
  EXPECT_EQ(matcher.push("Hello").text, "Hello");
  EXPECT_EQ(matcher.push(" <").text, " ");
  EXPECT_EQ(matcher.push("/b>").text, "</b>");
  EXPECT_EQ(matcher.push("\n").text, "");
  EXPECT_EQ(matcher.push("\nUse").text, "");
  EXPECT_EQ(matcher.push("ful\n").text, "\n\nUseful");
  EXPECT_EQ(matcher.flush(), "\n");
}

TEST(StopMatcher, StopsAndStaysStopped) {
  StopMatcher matcher({"END"});
  const auto step = matcher.push("one END two");
  EXPECT_EQ(step.text, "one ");
  EXPECT_TRUE(step.stopped);
  EXPECT_TRUE(matcher.push("three").stopped);
  EXPECT_EQ(matcher.push("three").text, "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, TheOneThatBeginsFirstWins) {
  EXPECT_EQ(stream({"x", "ab", "cd"}, {"bc", "abcd"}).text, "x");
  // "abcd" never comes to an end: the text ends at "bc" after all.
  EXPECT_EQ(stream({"x", "ab", "c", "z"}, {"bc", "abcd"}).text, "xa");
  EXPECT_EQ(stream({"x", "ab", "c"}, {"bc", "abcd"}).text, "xa");
  EXPECT_EQ(stream({"aab"}, {"ab"}).text, "a");
  EXPECT_EQ(stream({"a", "a", "b"}, {"ab", "aab"}).text, "");
}

TEST(StopMatcher, WithoutStopStringsTextPasses) {
  for (const std::vector<std::string>& stops : {std::vector<std::string>{}, {""}, {"", ""}}) {
    StopMatcher matcher(stops);
    EXPECT_EQ(matcher.push("as it is").text, "as it is");
    EXPECT_FALSE(matcher.push("").stopped);
    EXPECT_EQ(matcher.flush(), "");
  }
}

TEST(StopMatcher, LongStreamsAreLinear) {
  StopMatcher matcher({std::string(1000, 'a') + "b", "</s>"});
  size_t shown = 0;
  for (int i = 0; i < 20000; ++i) shown += matcher.push("aaaa").text.size();
  EXPECT_EQ(shown, 80000u - 1000u);
  EXPECT_EQ(matcher.flush().size(), 1000u);
}

// Each byte of the text is examined once, however long the stop string is and however much of it has matched.
TEST(StopMatcher, LongStopStringsAreLinear) {
  constexpr size_t kLength = 1 << 19;
  std::string stop(2 * kLength + 2, 'a');
  stop[kLength] = 'b';
  stop.back() = 'c';
  StopMatcher matcher({stop});
  const double start = thread_seconds();
  size_t shown = 0;
  const auto push = [&](size_t count, const char* text) {
    for (size_t i = 0; i < count; i++) shown += matcher.push(text).text.size();
  };
  push(kLength + 1000, "a");
  EXPECT_EQ(shown, 1000u) << "all else may begin the stop string";
  push(1, "b");
  push(kLength, "a");
  EXPECT_EQ(shown, 1000u);
  push(1, "b");  // only the second half may still begin it
  EXPECT_EQ(shown, 1000u + kLength + 1);
  EXPECT_FALSE(matcher.stopped());
  push(kLength, "a");
  EXPECT_TRUE(matcher.push("c").stopped);
  EXPECT_EQ(shown, 1000u + kLength + 1);
  EXPECT_LT(thread_seconds() - start, 2 * kSlowdown);
}

// Text after a flush() is another text: a stop string does not span both.
TEST(StopMatcher, AFlushEndsAMatch) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("one EN").text, "one ");
  EXPECT_EQ(matcher.flush(), "EN");
  EXPECT_EQ(matcher.push("D two").text, "D two");
  EXPECT_EQ(matcher.push(" END").text, " ");
  EXPECT_TRUE(matcher.stopped());
}

}  // namespace
}  // namespace anabranch
