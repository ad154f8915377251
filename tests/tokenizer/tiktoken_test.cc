// tiktoken's own files, as Kimi and Hunyuan ship them.
#include <optional>

#include "base/base64.h"
#include "temp_dir.h"
#include "tokenizer/components.h"

namespace anabranch {
namespace {

using namespace testing;

// All bytes, and then tokens whose order is not that of their parts in a word. Lines end as on Windows, too.
std::string ranks() {
  std::string out;
  for (int byte = 0; byte < 256; byte++)
    out += fmt::format("{} {}\n", to_base64(std::string(1, static_cast<char>(byte))), byte);
  return out +
         "ZWw= 256\nbGw= 257\nbG8= 258\naGU= 259\r\naGVs 260\nbGxv 261\nIHc= 262\nb3I= 263\nbGQ= 264\n"
         "IHdvcg== 265\nIHdvcmxk 266 \n5rw= 267\n5ryi 268\n5a0= 269\n5a2X 270\n5ryi5a2X 271\nMTI= "
         "272\n\nMTIz "
         "273\ncXp4 274\n";
}

constexpr const char* kConfig =
    R"({"tokenizer_class": "TikTokenTokenizer", "eos_token": "<|im_end|>", "added_tokens_decoder": {
        "300": {"content": "[BOS]", "special": true}, "301": {"content": "<|im_end|>", "special": true}}})";

class Tiktoken : public ::testing::Test {
 protected:
  Result<TokenizerPtr> load_as(const std::string& name, const std::string& text,
                               const std::string& config = kConfig) {
    dir_.emplace();
    dir_->write(name, text);
    dir_->write("tokenizer_config.json", config);
    return Tokenizer::from_directory(dir_->path());
  }
  std::string error(const std::string& text) {
    const auto made = load_as("tiktoken.model", text);
    return made.ok() ? "" : made.error().message;
  }
  std::optional<TempDir> dir_;
};

// The ids are those of tiktoken with the model's pattern.
TEST_F(Tiktoken, GivesTheIdsOfTiktoken) {
  const auto kimi = load_as("tiktoken.model", ranks()).value();
  using Ids = std::vector<int>;
  EXPECT_EQ(kimi->encode("hello world", true), (Ids{260, 258, 266}));
  const std::string text = "hellohello 漢字abc漢 1234";
  const Ids ids{260, 258, 260, 258, 32, 271, 97, 98, 99, 268, 32, 273, 52};
  EXPECT_EQ(kimi->encode(text, true), ids);
  EXPECT_EQ(kimi->decode(ids, false), text);
  EXPECT_EQ(kimi->encode("<|im_end|>helo", true), (Ids{301, 260, 111}));
  EXPECT_EQ(kimi->encode("qzx", true), (Ids{274}));  // no two of its parts are a token
  EXPECT_EQ(kimi->encode("[BOS]<|reserved_token_302|>", true), (Ids{300, 302}));
  EXPECT_FALSE(kimi->find("<|reserved_token_301|>"));
  EXPECT_TRUE(kimi->is_special(300) && kimi->is_special(301));
  EXPECT_EQ(kimi->eos(), 301);
}

// Its special tokens stand in no file.
TEST_F(Tiktoken, HunyuanHasSpecialTokensOfItsOwn) {
  const char* config =
      R"({"tokenizer_class": "HYTokenizer", "eos_token": "<|eos|>", "pad_token": "<|pad|>"})";
  const auto hunyuan = load_as("hy.tiktoken", ranks(), config).value();
  using Ids = std::vector<int>;
  EXPECT_EQ(hunyuan->encode("123 world", true), (Ids{49, 50, 51, 266}));  // digits one by one
  EXPECT_EQ(hunyuan->encode("e\xCC\x81", true), (Ids{195, 169}));         // one letter
  EXPECT_EQ(hunyuan->encode("<|startoftext|><|extra_0|>lo<|eos|><|extra_204|>", true),
            (Ids{276, 280, 258, 278, 484}));
  EXPECT_EQ(hunyuan->eos(), 278);
}

TEST_F(Tiktoken, OtherModelsAreRefused) {
  const auto other = load_as("tiktoken.model", ranks(), R"({"tokenizer_class": "QWenTokenizer"})");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::unsupported);
}

TEST_F(Tiktoken, DamagedFilesAreRefused) {
  EXPECT_EQ(error(ranks()), "");
  EXPECT_NE(error("").find("the byte 0 is no token"), std::string::npos);
  EXPECT_NE(error(ranks() + "IHdv").find("line 277 should be"), std::string::npos);
  for (const char* line :
       {"IHdv -1", "IHdv 4194304", "IHdv 99999999999", "IHdv 2x", "IHdv ", " 280", "!! 280"})
    EXPECT_NE(error(ranks() + line), "") << line;
  EXPECT_NE(error(ranks() + "ZWw= 280\n").find("was there before"), std::string::npos);
  EXPECT_NE(error(ranks() + "enp6 273\n").find("was there before"), std::string::npos);
  EXPECT_EQ(error(ranks() + to_base64(std::string(4096, 'a')) + " 275"), "");
  EXPECT_NE(error(ranks() + to_base64(std::string(4097, 'a')) + " 275"), "");
}

}  // namespace
}  // namespace anabranch
