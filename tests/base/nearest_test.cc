#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace anabranch {
namespace {

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> flags = {"--model", "--memory", "--max-tokens", "--temp", "-m"};
  EXPECT_EQ(nearest("--modle", flags), "--model");
  EXPECT_EQ(nearest("--max-token", flags), "--max-tokens");
  EXPECT_EQ(nearest("--memroy", flags), "--memory");
  EXPECT_EQ(nearest("--tpem", flags), "--temp");
  EXPECT_EQ(nearest("--something-else", flags), std::nullopt);
  EXPECT_EQ(nearest("", flags), std::nullopt);
  EXPECT_EQ(nearest("x", flags), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'a'), flags), std::nullopt);
}

TEST(Nearest, SaysSo) {
  const std::vector<std::string> names = {"hybrid-146m"};
  EXPECT_EQ(did_you_mean("hybird-146m", names), "; did you mean hybrid-146m?");
  EXPECT_EQ(did_you_mean("llama", names), "");
}

}  // namespace
}  // namespace anabranch
