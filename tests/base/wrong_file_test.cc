#include "base/wrong_file.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

TEST(WrongFile, KnowsWhatDownloadsLeaveBehind) {
  const auto says = [](std::string_view text, std::string_view part) {
    return what_it_is_instead(text).find(part) != std::string::npos;
  };
  EXPECT_TRUE(says("", "it is empty"));
  EXPECT_TRUE(says("version https://git-lfs.github.com/spec/v1\noid sha256:00", "git lfs pull"));
  EXPECT_TRUE(says("\n <!DocType HTML><html>", "web page"));
  EXPECT_TRUE(says("<html lang=\"en\">", "web page"));
  EXPECT_TRUE(says("GGUF\3", ".gguf"));
  EXPECT_TRUE(says(std::string_view("PK\3\4\0\0", 6), "safetensors and GGUF"));
  EXPECT_TRUE(says("\x80\x02}q", "PyTorch"));
}

TEST(WrongFile, SaysNothingOfOtherFiles) {
  for (std::string_view text : {"{}", "P", "<", "<!-- a comment -->", "\xff\xff", " "})
    EXPECT_EQ(what_it_is_instead(text), "") << text;
}

}  // namespace
}  // namespace anabranch
