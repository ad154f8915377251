#include "hub/model_name.h"

#include "hub/address.h"

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
  // A second host, hidden from the first look.
  for (const char* name : {"hf.co//hf.co/org/name", "www.huggingface.co//hf.co/org/x/hf.co/org/y",
                           "hf.co/hf%2Eco/org/name", "hf.co/ollama%2Ecom/org/name/tree/main"})
    EXPECT_FALSE(parse_model_name(name)) << name;
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

TEST(ModelName, AddressesOfPagesAndFiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"https://huggingface.co/org/name/", "org/name"},
      {"https://huggingface.co/org/name/tree/main", "org/name"},
      {"https://huggingface.co/org/name/tree/main/", "org/name"},
      {"https://huggingface.co/org/name/tree/v1.0", "org/name@v1.0"},
      {"https://huggingface.co/org/name/tree/main/UD-Q4_K_XL", "org/name:UD-Q4_K_XL"},
      {"https://huggingface.co/org/name/tree/main/onnx", "org/name"},
      {"https://huggingface.co/org/name/blob/main/a/m-Q8_0.gguf", "org/name/a/m-Q8_0.gguf"},
      {"https://huggingface.co/org/name/resolve/main/m.gguf?download=true", "org/name/m.gguf"},
      {"http://www.huggingface.co/org/name/raw/main/m.safetensors#L1", "org/name/m.safetensors"},
      {"huggingface.co/org/name/blob/refs%2Fpr%2F3/m%20x.gguf", "org/name/m x.gguf@refs/pr/3"},
      {"https://huggingface.co/org/name/blob/main/README.md", "org/name"},
      {"https://huggingface.co/org/name/blob/main/config.json", "org/name"},
      {"https://huggingface.co/org/name/discussions/12#65", "org/name"},
      {"https://huggingface.co/org/name/commits/main", "org/name"},
      {"https://huggingface.co/org/name?library=vllm", "org/name"},
      {"https://HuggingFace.co/org/name.git", "org/name"},
      {"https://hf-mirror.com/org/name", "org/name"},
      {"hf://org/name/m.gguf", "org/name/m.gguf"},
      {"hf.co/org/name/m.gguf", "org/name/m.gguf"},
      {"hf.co/org/name@refs/pr/1", "org/name@refs/pr/1"},
      {"hf.co/org/name:latest", "org/name"},
      {"hf.co/org/name:Q8_0", "org/name:Q8_0"},
      {"org/name:LATEST", "org/name"},
      {"org/name:latest@v1", "org/name@v1"},
      {"org/name:i1-Q4_K_M", "org/name:i1-Q4_K_M"},
  };
  for (const auto& [text, expected] : cases) {
    const auto name = parse_model_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->text(), expected) << text;
  }
}

TEST(ModelName, OtherAddressesAreNone) {
  for (const char* text :
       {"https://huggingface.co/", "https://huggingface.co/org", "https://huggingface.co/datasets/org/name",
        "https://huggingface.co/spaces/org/name", "https://huggingface.co/org/name/blob/../x.gguf",
        "https://huggingface.co/org/name/blob/main/../x.gguf", "https://huggingface.co/hf.co/name",
        "https://ollama.com/library/qwen3", "ollama.com/someone/model", "https://github.com/org/name",
        "https://modelscope.cn/models/org/name", "modelscope.cn/org", "https://x/org/name/m.gguf",
        "ollama:qwen3"}) {
    const auto name = parse_model_name(text);
    EXPECT_TRUE(!name || name->text() == "org/name") << text << " " << name->text();
    if (name) {
      EXPECT_NE(std::string(text).find("/blob/"), std::string::npos) << text;
    }
  }
}

TEST(AdviceOn, SaysWhatToDo) {
  const auto has = [](const char* text, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
      EXPECT_NE(advice_on(text).find(part), std::string::npos) << text << ": " << advice_on(text);
  };
  has("https://ollama.com/library/qwen3:8b", {"`ollama pull qwen3:8b`", "ollama:qwen3:8b"});
  has("ollama.com/someone/model/", {"`ollama pull someone/model`", "ollama:someone/model"});
  has("ollama:qwen3", {"`ollama pull qwen3`"});
  has("https://www.modelscope.cn/models/Qwen/Qwen3-8B/summary",
      {"`anabranch pull Qwen/Qwen3-8B`", "`modelscope download --model Qwen/Qwen3-8B"});
  has("https://github.com/org/name", {"no address of the Hugging Face hub", "ORG/NAME"});
  has("llama3.2", {"on the hub it is unsloth/Llama-3.2-3B-Instruct-GGUF", "ORG/NAME", "ollama:llama3.2"});
  has("Qwen2.5-Coder:1.5b-instruct-q4_K_M", {"Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"});
  has("qwen3:latest", {"Qwen/Qwen3-8B-GGUF"});
  has("phi4", {"do not run here", "ollama:phi4"});
  EXPECT_EQ(advice_on("qwen3:999b").find("on the hub it is"), std::string::npos);
  EXPECT_EQ(advice_on("my-model").find("on the hub it is"), std::string::npos);
  has("a b", {"give ORG/NAME"});
  // Nothing of a text that is no name goes into a command.
  EXPECT_EQ(advice_on("https://ollama.com/library/`rm x`").find("rm x"), std::string::npos);
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

TEST(ModelName, AnEscapeThatIsCutIsNotReadBeyondTheEnd) {
  const std::string_view whole = "hf.co/org/name/tree/v%31";
  const auto name = parse_model_name(whole);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->revision, "v1");
  EXPECT_FALSE(parse_model_name(whole.substr(0, whole.size() - 1)));
}

}  // namespace
}  // namespace anabranch::hub
