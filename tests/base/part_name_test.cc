#include "base/part_name.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

TEST(PartName, IsReadFromTheEndOfThePath) {
  const auto part = parse_part_name("dir/x-00012-of-00345.gguf");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->stem, "dir/x");
  EXPECT_EQ(part->part, 12);
  EXPECT_EQ(part->count, 345);
  EXPECT_EQ(part->of(7), "dir/x-00007-of-00345.gguf");
  for (const char* other : {"x.gguf", "-00001-of-00002.gguf", "x-0001-of-00002.gguf", "x-00001-of-00002.bin",
                            "x-00001_of-00002.gguf", "x-0000a-of-00002.gguf", ""})
    EXPECT_FALSE(parse_part_name(other)) << other;
}

TEST(PartName, AllParts) {
  const std::vector<std::string> two = {"x-00001-of-00002.gguf", "x-00002-of-00002.gguf"};
  EXPECT_EQ(paths_of_parts(two[0]), two);
  EXPECT_EQ(paths_of_parts(two[1]), two);
  EXPECT_EQ(paths_of_parts("x-00001-of-04096.gguf").size(), 4096u);
  for (const std::string alone :
       {"x.gguf", "x-00003-of-00002.gguf", "x-00000-of-00002.gguf", "x-00001-of-04097.gguf"})
    EXPECT_EQ(paths_of_parts(alone), std::vector{alone});
}

}  // namespace
}  // namespace anabranch
