// Vocabularies of GGUF files: as tokenizers, and written as Hugging Face's files.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tokenizer/components.h"
#include "tokenizer/gguf_export.h"
#include "tokenizer/gguf_files.h"
#include "tokenizer/gguf_vocab.h"

namespace anabranch {
namespace {

using namespace testing;

// The vocabulary of a component as GGUF stores it.
GgufVocab as_gguf(const Json& model, const std::string& kind, const std::string& pre) {
  GgufVocab vocab;
  vocab.model = kind;
  vocab.pre = pre;
  vocab.tokens.resize(model["vocab"].size());
  for (const auto& [text, id] : model["vocab"].items()) vocab.tokens[id.get<size_t>()] = text;
  for (const Json& merge : model["merges"])
    vocab.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return vocab;
}

TEST(GgufTokenizer, PreTokenizersAsInTokenizerJson) {
  const Json& model = components()["models"]["bytes"];
  for (const auto& [pre, name] : {std::pair{"gpt-2", "ByteLevel"},
                                  {"qwen35", "Split Qwen"},
                                  {"llama-bpe", "Split Llama 3"},
                                  {"tekken", "Split Tekken"}}) {
    SCOPED_TRACE(pre);
    auto made = Tokenizer::from_gguf(as_gguf(model, "gpt2", pre));
    ASSERT_TRUE(made.ok()) << made.error().message;
    // Some of them also compose characters or keep whole words that are tokens.
    Json reference = definition(component(name));
    reference["model"]["ignore_merges"] = pre == std::string("llama-bpe") || pre == std::string("tekken");
    if (pre == std::string("qwen35")) reference["normalizer"] = {{"type", "NFC"}};
    const TokenizerPtr expected = parse(reference);
    for (const Json& text : components()["strings"])
      EXPECT_EQ((*made)->encode(text.get<std::string>(), true),
                expected->encode(text.get<std::string>(), true))
          << text;
  }
}

// The words are those of Hugging Face's pre-tokenizers with the models' patterns.
TEST(GgufTokenizer, CutsTextsAsTheModelsDo) {
  const std::array<std::string, 3> texts = {"I'LL pay $1,234.56 für 漢字kana北京abc 12345678",
                                            "x = [\"a_b\"];\r\n\t  def f():\n\n  y  ",
                                            "안녕 नमस्ते Ünï ǅ！（好）、  …!?  9"};
  struct Row {
    const char* name;
    std::array<const char*, 3> words;
  };
  const Row rows[] = {
      {"falcon-h1",
       {"I|'LL| pay| $|1|,|234|.|56| für| 漢字kana北京abc| |123|456|78",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस|्त|े| Ünï| ǅ|！（|好|）、| | …!?| | |9"}},
      {"minicpm5",
       {"I|'LL| pay| $|1|,|234|.|56| für| 漢字kana北京abc| |123|456|78",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस|्त|े| Ünï| ǅ|！（|好|）、| | …!?|  |9"}},
      {"kimi-k2",
       {"I'LL| pay| $|1|,|234|.|56| für| |漢字|kana|北京|abc| |123|456|78",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस्ते| Ünï| ǅ|！（|好|）、| | …!?| | |9"}},
      {"youtu",
       {"I'LL| pay| $|1|,|2|3|4|.|5|6| für| |漢字|kana|北京|abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस्ते| Ünï| ǅ|！|（|好|）|、|  |…|!?| | |9"}},
      {"deepseek-llm",
       {"I|'|LL| pay| $|1|,|2|3|4|.|5|6| f|ü|r| |漢字|kana|北京|abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_|b|\"];|\r|\n|\t | def| f|():|\n|\n| | y|  ",
        "안녕| |नमस्ते| Ü|n|ï| ǅ|！（|好|）|、|  |…|!?|  |9"}},
      {"deepseek-coder",
       {"I|'|LL| pay| $|1|,|2|3|4|.|5|6| für| |漢字|kana|北京|abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_|b|\"];|\r|\n|\t | def| f|():|\n|\n| | y|  ",
        "안녕| |नमस|्|त|े| Ünï| ǅ|！（|好|）|、| | |…|!?|  |9"}},
      {"minimax-m2",
       {"I'LL| pay| $|1|,|234|.|56| für| 漢字kana北京abc| |123|456|78",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस्ते| Ünï| ǅ|！（|好|）、| | …!?| | |9"}},
      {"exaone-moe",
       {"I|'LL| pay| $|1|,|2|3|4|.|5|6| für 漢字kana北京abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_b|\"];\r|\n|\t | def f|():\n|\n| | y|  ", "안녕 नमस्ते Ünï ǅ|！（|好|）、| | …!?| | |9"}},
      {"tiny_aya",
       {"I'LL| pay| $|1|,|234|.|56| für| 漢字kana北京abc| |12|345|678",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस्ते| Ünï| ǅ|！（|好|）、| | …!?|  |9"}},
      {"viking",
       {"I'LL| pay| $|1|,|2|3|4|.|5|6| für| 漢字kana北京abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"a_b\"];|\r\n\t | def| f|()|:|\n\n | y|  ", "안녕| नमस्ते| Ünï| ǅ！（好）|、  …!? | |9"}},
      {"laguna",
       {"I|'LL| pay| $|1|,|2|3|4|.|5|6| für| 漢字kana北京abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_b|\"];\r|\n|\t | def| f|():|\n\n| | y|  ",
        "안녕| नमस|्त|े| Ünï| ǅ|！（|好|）、| | …!?| | |9"}},
      {"mellum2",
       {"I|'|LL| pay| $|1|,|2|3|4|.|5|6| für| 漢字kana北京abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_|b|\"];|\r\n\t | def| f|():|\n\n | y|  ",
        "안녕| नमस|्|त|े| Ünï| ǅ|！（|好|）、| | …!?|  |9"}},
      {"hunyuan",
       {"I|'LL| pay| $|1|,|2|3|4|.|5|6| für| 漢字kana北京abc| |1|2|3|4|5|6|7|8",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस|्त|े| Ünï| ǅ|！（|好|）、| | …!?| | |9"}},
      {"joyai-llm",
       {"I|'LL| pay| $|1|,|234|.|56| für| |漢字|kana|北京|abc| |123|456|78",
        "x| =| [\"|a|_b|\"];\r\n|\t | def| f|():\n\n| | y|  ",
        "안녕| नमस्ते| Ünï| ǅ|！（|好|）、| | …!?|  |9"}},
      {"phi-2",
       {"I|'|LL| pay| $|1|,|234|.|56| für| 漢字kana北京abc| 12345678",
        "x| =| [\"|a|_|b|\"];|\r\n\t | def| f|():|\n\n | y|  ",
        "안녕| नमस|्|त|े| Ünï| ǅ|！（|好|）、| | …!?| | 9"}},
  };
  for (const Row& row : rows) {
    const GgufPreTokenizer* pre = find_gguf_pre_tokenizer(row.name).value();
    std::vector<PreTokenizerStep> steps;
    for (const std::string_view pattern : pre->patterns)
      if (!pattern.empty()) steps.emplace_back().pattern.push_back(Regex::compile(pattern).value());
    const PreTokenizer cut(std::move(steps));
    for (size_t i = 0; i < texts.size(); i++) {
      const auto words = cut.apply(texts[i], true);
      std::string joined;
      for (const auto& [begin, end, at_start] : words.ranges)
        joined += (begin == 0 ? "" : "|") + words.text.substr(begin, end - begin);
      EXPECT_EQ(joined, row.words[i]) << row.name;
    }
  }
}

// llama.cpp reads such files of Kimi: a token's id is the rank of its merge.
TEST(GgufTokenizer, KimiNeedsNoMerges) {
  GgufVocab vocab = as_gguf(components()["models"]["bytes"], "gpt2", "kimi-k2");
  const TokenizerPtr merged = Tokenizer::from_gguf(vocab).value();
  vocab.merges.clear();
  const TokenizerPtr ranked = Tokenizer::from_gguf(vocab).value();
  int whole = 0;
  for (const Json& text : components()["strings"]) {
    const auto ids = ranked->encode(text.get<std::string>(), true);
    EXPECT_EQ(ids, merged->encode(text.get<std::string>(), true)) << text;
    for (const int id : ids) whole += id > 300;
  }
  EXPECT_GT(whole, 20);
  vocab.pre = "qwen2";
  EXPECT_FALSE(Tokenizer::from_gguf(vocab).ok());
}

GgufVocab gemma4() {
  GgufVocab vocab = as_gguf(components()["models"]["sentencepiece"], "gemma4", "");
  for (const std::string& token : vocab.tokens) vocab.types.push_back(token.starts_with("<0x") ? 6 : 1);
  vocab.types[0] = 2, vocab.types[1] = vocab.types[2] = 3;
  vocab.unk = 0, vocab.bos = 1, vocab.eos = 2;
  return vocab;
}

TEST(GgufTokenizer, Gemma4AsInTokenizerJson) {
  auto made = Tokenizer::from_gguf(gemma4());
  ASSERT_TRUE(made.ok()) << made.error().message;
  const TokenizerPtr expected = parse(definition(component("Gemma")));
  for (const Json& text : components()["strings"]) {
    const auto ids = expected->encode(text.get<std::string>(), true);
    EXPECT_EQ((*made)->encode(text.get<std::string>(), true), ids) << text;
    EXPECT_EQ((*made)->decode(ids, false), expected->decode(ids, false)) << text;
  }
  GgufVocab without = gemma4();
  without.merges.clear();
  EXPECT_FALSE(Tokenizer::from_gguf(without).ok());
}

TEST(GgufTokenizer, SentencePieceFallsBackToBytes) {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>"};
  vocab.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    vocab.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    vocab.types.push_back(6);
  }
  for (const char* piece : {"▁", "a", "b", "ab", "▁ab", "<x>"}) {
    vocab.tokens.push_back(piece);
    vocab.types.push_back(piece[0] == '<' ? 4 : 1);
  }
  vocab.scores.assign(vocab.tokens.size(), 0);
  for (size_t i = 259; i < vocab.tokens.size(); ++i) vocab.scores[i] = -static_cast<float>(i);
  vocab.bos = 1, vocab.eos = 2, vocab.unk = 0;
  auto made = Tokenizer::from_gguf(vocab);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Tokenizer& t = **made;
  EXPECT_EQ(t.encode("ab", true), (std::vector<int>{263}));
  EXPECT_EQ(t.encode("é", true), (std::vector<int>{259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(t.encode("b<x></s>", true), (std::vector<int>{259, 261, 264, 2}));
  EXPECT_EQ(t.encode(std::vector<PromptPiece>{{"<x></s><unk>", false}}).size(), 1 + 12u);
  EXPECT_EQ(t.decode(t.encode(" é", true), true), " é");
  EXPECT_EQ(stream(t, {259, 3 + 0xC3, 261}, true), "\uFFFDb");
  EXPECT_TRUE(t.add_bos());
  EXPECT_EQ(t.bos(), 1);
}

// The tokenizer that Hugging Face's files of the vocabulary make.
TokenizerPtr through_files(const GgufVocab& vocab) {
  const auto files = tokenizer_files(vocab);
  CHECK(files.ok(), "{}", files.error().message);
  auto made = parse_tokenizer_json(files->tokenizer, files->config);
  CHECK(made.ok(), "{}", made.error().message);
  return *made;
}

void expect_same(const GgufVocab& vocab) {
  const TokenizerPtr direct = Tokenizer::from_gguf(vocab).value(), written = through_files(vocab);
  EXPECT_EQ(written->vocab_size(), direct->vocab_size());
  EXPECT_EQ(written->bos(), direct->bos());
  EXPECT_EQ(written->eos(), direct->eos());
  EXPECT_EQ(written->add_bos(), direct->add_bos());
  std::vector<std::string> texts = {"<|end|>", "a <|end|>b", "  two  spaces\n\n\tx", "\"quoted\\\"",
                                    "<0x41>"};
  for (const Json& text : components()["strings"]) texts.push_back(text.get<std::string>());
  for (const std::string& text : texts)
    for (const bool special : {true, false}) {
      const auto ids = direct->encode(text, special);
      EXPECT_EQ(written->encode(text, special), ids) << text;
      EXPECT_EQ(written->decode(ids, false), direct->decode(ids, false)) << text;
    }
  for (int id = 0; id < direct->vocab_size(); ++id) {
    EXPECT_EQ(written->token_bytes(id), direct->token_bytes(id)) << id;
    EXPECT_EQ(written->is_special(id), direct->is_special(id)) << id;
  }
}

TEST(GgufFiles, ByteLevelVocabulariesGiveTheSameTokens) {
  GgufVocab vocab = as_gguf(components()["models"]["bytes"], "gpt2", "");
  vocab.types.assign(vocab.tokens.size(), 1);
  for (const auto& [text, type] : {std::pair{"<|end|>", 3}, {"<think>", 4}, {"\"\\\t", 1}}) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
  }
  vocab.eos = static_cast<int>(vocab.tokens.size()) - 3;
  for (const GgufPreTokenizer& pre : gguf_pre_tokenizers()) {
    SCOPED_TRACE(pre.name);
    vocab.pre = pre.name;
    vocab.bos = -1;
    expect_same(vocab);
    vocab.bos = vocab.eos;  // with BOS before a text where the name says so
    expect_same(vocab);
  }
}

// A trained vocabulary with scores as SentencePiece gives them: the earlier merged, the higher; then with
// ties.
TEST(GgufFiles, SentencePieceVocabulariesGiveTheSameTokens) {
  GgufVocab vocab = as_gguf(components()["models"]["sentencepiece"], "llama", "");
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    vocab.types.push_back(vocab.tokens[id].starts_with("<0x") ? 6 : 1);
    vocab.scores.push_back(-static_cast<float>(id));
  }
  vocab.merges.clear();
  vocab.unk = 0, vocab.bos = 1, vocab.eos = 2;
  vocab.types[0] = 2, vocab.types[1] = vocab.types[2] = 3;
  for (const auto& [text, type] : {std::pair{"<|end|>", 3}, {"   ", 4}, {"th<0x41>", 1}, {"never", 5}}) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
    vocab.scores.push_back(-1000);
  }
  expect_same(vocab);
  for (float& score : vocab.scores) score = static_cast<float>(static_cast<int>(score) / 50);
  expect_same(vocab);
  vocab.add_space_prefix = false;
  vocab.add_bos = false;
  expect_same(vocab);
}

TEST(GgufFiles, Gemma4VocabulariesGiveTheSameTokens) {
  GgufVocab vocab = gemma4();
  for (const auto& [text, type] : {std::pair{"<|end|>", 3}, {"<|tool_call>", 4}, {"▁▁▁", 4}}) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
  }
  vocab.add_bos = true;
  expect_same(vocab);
}

// The files of a vocabulary, and what GGUF would say of them.
Result<GgufVocab> exported(const GgufVocab& vocab) {
  const auto files = tokenizer_files(vocab).value();
  const std::string directory =
      (std::filesystem::temp_directory_path() / fmt::format("anabranch-export-{}", getpid())).string();
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/tokenizer.json") << files.tokenizer;
  std::ofstream(directory + "/tokenizer_config.json") << files.config;
  auto out = export_gguf_vocab(directory);
  std::filesystem::remove_all(directory);
  return out;
}

TEST(GgufExport, ByteLevelVocabulariesComeBack) {
  GgufVocab vocab = as_gguf(components()["models"]["bytes"], "gpt2", "");
  vocab.types.assign(vocab.tokens.size(), 1);
  for (const auto& [text, type] : {std::pair{"<|end|>", 3}, {"<think>", 4}}) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
  }
  vocab.bos = vocab.eos = static_cast<int>(vocab.tokens.size()) - 2;
  for (const GgufPreTokenizer& pre : gguf_pre_tokenizers()) {
    SCOPED_TRACE(pre.name);
    vocab.pre = pre.name;
    const auto out = exported(vocab);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(out->model, "gpt2");
    const GgufPreTokenizer* found =
        find_gguf_pre_tokenizer(out->pre).value();  // the first of those that mean the same
    EXPECT_EQ(found->patterns, pre.patterns);
    EXPECT_EQ(found->ignore_merges, pre.ignore_merges);
    EXPECT_EQ(out->tokens, vocab.tokens);
    EXPECT_EQ(out->types, vocab.types);
    EXPECT_EQ(out->merges, vocab.merges);
    EXPECT_EQ(out->bos, vocab.bos);
    EXPECT_EQ(out->eos, vocab.eos);
  }
}

TEST(GgufExport, SentencePieceVocabulariesComeBack) {
  GgufVocab vocab = as_gguf(components()["models"]["sentencepiece"], "llama", "");
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    vocab.types.push_back(vocab.tokens[id].starts_with("<0x") ? 6 : 1);
    vocab.scores.push_back(-static_cast<float>(id));
  }
  vocab.merges.clear();
  vocab.unk = 0, vocab.bos = 1, vocab.eos = 2;
  vocab.types[0] = 2, vocab.types[1] = vocab.types[2] = 3;
  for (const auto& [text, type] : {std::pair{"<|end|>", 3}, {"   ", 4}}) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
    vocab.scores.push_back(-1000);
  }
  for (const bool prefix : {true, false}) {
    vocab.add_space_prefix = prefix;
    const auto out = exported(vocab);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(out->model, "llama");
    EXPECT_EQ(out->tokens, vocab.tokens);
    EXPECT_EQ(out->types, vocab.types);
    EXPECT_EQ(out->unk, 0);
    EXPECT_EQ(out->add_space_prefix, prefix);
    const TokenizerPtr was = Tokenizer::from_gguf(vocab).value(), is = Tokenizer::from_gguf(*out).value();
    for (const Json& text : components()["strings"])
      EXPECT_EQ(is->encode(text.get<std::string>(), true), was->encode(text.get<std::string>(), true))
          << text;
  }
}

TEST(GgufExport, WaysToCutWithoutANameAreRefused) {
  GgufVocab vocab = as_gguf(components()["models"]["bytes"], "gpt2", "gpt-2");
  auto files = tokenizer_files(vocab).value();
  const std::string directory =
      (std::filesystem::temp_directory_path() / fmt::format("anabranch-cut-{}", getpid())).string();
  std::filesystem::create_directories(directory);
  const size_t at = files.tokenizer.find("\"Regex\": \"");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(directory + "/tokenizer.json") << files.tokenizer.replace(at, 10, "\"Regex\": \"[a-z]|");
  const auto out = export_gguf_vocab(directory);
  std::filesystem::remove_all(directory);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message.find("no name for how its tokenizer cuts"), std::string::npos)
      << out.error().message;
}

TEST(GgufFiles, WhatCannotBeWrittenIsSaid) {
  const auto fails = [](const GgufVocab& vocab, const std::string& why) {
    const auto files = tokenizer_files(vocab);
    ASSERT_FALSE(files.ok()) << why;
    EXPECT_NE(files.error().message.find(why), std::string::npos) << files.error().message;
  };
  GgufVocab vocab = as_gguf(components()["models"]["bytes"], "gpt2", "new");
  fails(vocab, "use the model's tokenizer.json instead");
  vocab.pre = "gpt-2";
  vocab.tokens.push_back("\xff");
  fails(vocab, "is not UTF-8");
  vocab = {.model = "llama", .unk = 0};
  for (size_t n = 1; n < 4000; ++n) vocab.tokens.push_back(std::string(n, 'a'));
  vocab.scores.assign(vocab.tokens.size(), 0);
  fails(vocab, "merges");
}

TEST(GgufTokenizer, PreTokenizersWithoutANameByFamily) {
  const GgufVocab named = as_gguf(components()["models"]["bytes"], "gpt2", "gpt-2");
  const auto ids = [&](const char* architecture, const char* token, const char* pre) {
    GgufVocab vocab = named;
    vocab.pre = pre;
    vocab.architecture = architecture;
    vocab.tokens.emplace_back(token);
    if (!vocab.types.empty()) vocab.types.push_back(3);
    const auto made = Tokenizer::from_gguf(vocab);
    return made.ok() ? (*made)->encode("it's 12345 e\u0301 ab\n  x", false) : std::vector<int>();
  };
  for (const auto& [architecture, token, pre] : {std::tuple{"qwen2", "<|im_start|>", "qwen2"},
                                                 {"qwen3", "<|im_start|>", "qwen2"},
                                                 {"qwen35", "<|im_start|>", "qwen35"},
                                                 {"llama", "<|begin_of_text|>", "llama-bpe"},
                                                 {"qwen2", "<｜begin▁of▁sentence｜>", "deepseek-r1-qwen"},
                                                 {"llama", "[AVAILABLE_TOOLS]", "tekken"},
                                                 {"llama", "<reponame>", "smollm"}}) {
    EXPECT_EQ(ids(architecture, token, ""), ids(architecture, token, pre)) << architecture;
    EXPECT_EQ(ids(architecture, token, "default"), ids(architecture, token, pre)) << architecture;
    EXPECT_FALSE(ids(architecture, token, pre).empty());
  }
  EXPECT_NE(ids("llama", "<|begin_of_text|>", ""), ids("qwen2", "<|im_start|>", ""));
  EXPECT_TRUE(ids("llama", "<|im_start|>", "").empty());  // many fine-tuned models have this token
  EXPECT_TRUE(ids("qwen2", "x", "").empty());
  EXPECT_TRUE(ids("", "<|im_start|>", "").empty());
  GgufVocab unknown = named;
  unknown.pre = "";
  unknown.architecture = "llama";
  const auto made = Tokenizer::from_gguf(unknown);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("of this llama model"), std::string::npos) << made.error().message;
}

TEST(GgufTokenizer, BadVocabulariesAreErrors) {
  const auto fails = [](const GgufVocab& vocab, const std::string& why) {
    auto made = Tokenizer::from_gguf(vocab);
    ASSERT_FALSE(made.ok()) << why;
    EXPECT_NE(made.error().message.find(why), std::string::npos) << made.error().message;
  };
  const GgufVocab good = as_gguf(components()["models"]["bytes"], "gpt2", "gpt-2");
  ASSERT_TRUE(Tokenizer::from_gguf(good).ok());
  GgufVocab bad = good;
  bad.model = "bert";
  fails(bad, "'bert' is not supported");
  bad = good, bad.pre = "new";
  fails(bad, "tokenizer.ggml.pre 'new' is not known");
  bad = good, bad.merges.push_back("alone");
  fails(bad, "is not two tokens");
  bad = good, bad.merges.push_back("no such");
  fails(bad, "no");
  bad = good, bad.types = {1};
  fails(bad, "token_type has 1 entries");
  bad = good, bad.eos = 100000;
  fails(bad, "eos_token_id is 100000");
  bad = good, bad.tokens.clear();
  fails(bad, "tokens is missing");
  bad = good, bad.model = "llama";
  fails(bad, "scores has 0 entries");
}

}  // namespace
}  // namespace anabranch
