#include "hub/model_name.h"

#include <gtest/gtest.h>

namespace anabranch::hub {
namespace {

TEST(ModelName, HasAFewForms) {
  const auto plain = parse_model_name("mlx-community/Qwen3.5-9B-4bit");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repo, "mlx-community/Qwen3.5-9B-4bit");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->quant + plain->file, "");

  EXPECT_EQ(parse_model_name("org/name:Q4_K_M")->quant, "Q4_K_M");
  EXPECT_EQ(parse_model_name("org/name:a/b.gguf")->file, "a/b.gguf");
  EXPECT_EQ(parse_model_name("org/name/a/b.gguf")->file, "a/b.gguf");
  EXPECT_EQ(parse_model_name("org/name/model.safetensors")->file, "model.safetensors");
  EXPECT_EQ(parse_model_name("org/name@refs/pr/1")->revision, "refs/pr/1");

  EXPECT_FALSE(parse_model_name("hf.co/hf.co/name"));
  for (const char* text : {"org/name:Q8_0@v1", "org/name@v1:Q8_0", "hf.co/org/name:Q8_0@v1",
                           "https://huggingface.co/org/name:Q8_0@v1"}) {
    const auto name = parse_model_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->repo, "org/name");
    EXPECT_EQ(name->quant, "Q8_0");
    EXPECT_EQ(name->revision, "v1");
    EXPECT_EQ(name->text(), "org/name:Q8_0@v1");
  }
}

TEST(ModelName, TextIsParsedToTheSame) {
  for (const char* text : {"a/b", "a/b:Q4_0", "a/b/c/d.gguf", "a/b/c.gguf@x/y", "a/b@0123"})
    EXPECT_EQ(parse_model_name(text)->text(), text);
}

TEST(ModelName, PathsAreNone) {
  for (const char* text : {"",
                           "model",
                           "/org/name",
                           "./org/name",
                           "../org/name",
                           "org/name/",
                           "org//name",
                           "org/name/sub",
                           "a/b/c/d",
                           "org/model.gguf",
                           "models/x.safetensors",
                           "~/org/name",
                           "org/na me",
                           "org/n\xc3\xa4me",
                           "org/name:",
                           "org/name@",
                           "org/name@../x",
                           "org/name@/x",
                           "org/name:a/../b.gguf",
                           "org/name/../b.gguf",
                           "org/name/b.gguf:Q4_0",
                           "org/name:Q4_0@v1:Q4_0",
                           "org/..",
                           "org/-x",
                           "org/a--b",
                           "org/name:Q4 0"})
    EXPECT_FALSE(parse_model_name(text)) << text;
  EXPECT_FALSE(parse_model_name("org/" + std::string(97, 'a')));
}

TEST(SafePath, StaysBelow) {
  for (const char* path : {"a", "a/b", "a..b/c.d", "...", "ä/b"}) EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\nb", "a\x7f"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string(256, 'a')));
  EXPECT_TRUE(is_safe_path(std::string(255, 'a')));
}

TEST(IsCommit, IsFortyDigits) {
  EXPECT_TRUE(is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789abcdef"));
}

}  // namespace
}  // namespace anabranch::hub
