// Tokenizers against Hugging Face's (goldens by tools/make_tokenizer_goldens.py; tools/check_tokenizers.py
// compares whole vocabularies), and what must hold for any of them.
#include "tokenizer/tokenizer.h"
#include "tokenizer/encode_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "output/output_text.h"
#include "tokenizer/components.h"

namespace anabranch {
namespace {

using namespace testing;

const TokenizerPtr& default_tokenizer() {
  static const TokenizerPtr tokenizer = [] {
    auto made = Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json");
    CHECK(made.ok(), "{}", made.error().message);
    return *made;
  }();
  return tokenizer;
}

std::vector<int> ids_of(const Json& json) {
  return json.get<std::vector<int>>();
}

bool replaced(const std::string& text) {
  return text.find("\uFFFD") != std::string::npos;
}

void compare(const Json& test) {
  const TokenizerPtr tokenizer = parse(definition(test));
  std::vector<std::string> texts = components()["strings"].get<std::vector<std::string>>();
  const auto extra = test["extra"].get<std::vector<std::string>>();
  texts.insert(texts.end(), extra.begin(), extra.end());
  ASSERT_EQ(texts.size(), test["ids"].size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer->encode(texts[i], true), ids_of(test["ids"][i])) << texts[i];
    EXPECT_EQ(tokenizer->encode(std::vector<PromptPiece>{{texts[i], true}}), ids_of(test["ids"][i]))
        << texts[i];
  }
  for (size_t i = 0; i < extra.size(); ++i)
    EXPECT_EQ(tokenizer->encode(extra[i], false), ids_of(test["plain_ids"][i])) << extra[i];
  const size_t first = texts.size() - test["decoded"].size();
  for (size_t i = first; i < texts.size(); ++i) {
    const Json& decoded = test["decoded"][i - first];
    if (decoded.is_null()) continue;  // see the maker
    EXPECT_EQ(tokenizer->decode(ids_of(test["ids"][i]), false), decoded.get<std::string>());
  }
  if (!test.contains("random")) return;
  for (const Json& random : test["random"]) {
    for (const bool skip : {false, true}) {
      const std::string text = random[skip ? 2 : 1];
      EXPECT_EQ(tokenizer->decode(ids_of(random[0]), skip), text) << random[0];
      // In broken sequences SentencePiece's decoder replaces every byte, and the stream what UTF-8 asks for.
      if (!replaced(text)) {
        EXPECT_EQ(stream(*tokenizer, ids_of(random[0]), skip), text) << random[0];
      }
    }
  }
}

// Ends exactly when there are more tokens than wanted, however early that is found out.
void check_limits(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, true);
  for (const size_t most :
       {size_t{0}, size_t{1}, ids.size() / 2, ids.size() - 1, ids.size(), ids.size() + 3}) {
    if (most > ids.size() + 3) continue;  // of a text without tokens
    EncodeLimit limit(most, {});
    const auto limited = tokenizer.encode(text, true, &limit);
    EXPECT_EQ(limit.too_long(), ids.size() > most) << text << " " << most;
    EXPECT_FALSE(limit.cancelled());
    if (!limit.stopped()) {
      EXPECT_EQ(limited, ids) << text;
    }
  }
}

TEST(Tokenizer, LimitsAreExact) {
  const auto strings = components()["strings"].get<std::vector<std::string>>();
  for (const Json& test : components()["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const TokenizerPtr tokenizer = parse(definition(test));
    for (const std::string& text : strings) check_limits(*tokenizer, text);
  }
  const Json goldens = load("tokenizer_default.json");
  for (const Json& text : goldens["strings"]) check_limits(*default_tokenizer(), text.get<std::string>());
}

TEST(Tokenizer, LongTextsEndEarly) {
  const Tokenizer& tokenizer = *default_tokenizer();
  std::string words;
  while (words.size() < (8u << 20)) words += "The river parts, and joins again 12345 times. ";
  for (const std::string& text : {words, std::string(8 << 20, 'a'), std::string(8 << 20, ' ')}) {
    EncodeLimit limit(8192, {});
    tokenizer.encode(std::vector<PromptPiece>{{text, false}}, nullptr, "", &limit);
    EXPECT_TRUE(limit.too_long());
    int questions = 0;
    EncodeLimit cancelled(SIZE_MAX, [&] { return ++questions > 2; });
    tokenizer.encode(text, false, &cancelled);
    EXPECT_TRUE(cancelled.cancelled());
    EXPECT_EQ(questions, 3);
  }
  // Bytes that the vocabulary lacks make no tokens.
  EncodeLimit limit(10, {});
  EXPECT_TRUE(tokenizer.encode(std::string(1 << 20, '\4'), false, &limit).empty());
  EXPECT_FALSE(limit.stopped());
}

TEST(Tokenizer, EveryComponentAsInHuggingFace) {
  ASSERT_GE(components()["cases"].size(), 70u);
  for (const Json& test : components()["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    compare(test);
  }
}

TEST(Tokenizer, DefaultModelAsInHuggingFace) {
  const Json goldens = load("tokenizer_default.json");
  const Tokenizer& tokenizer = *default_tokenizer();
  ASSERT_GE(goldens["strings"].size(), 200u);
  for (size_t i = 0; i < goldens["strings"].size(); ++i) {
    const std::string text = goldens["strings"][i];
    const auto ids = tokenizer.encode(text, true);
    EXPECT_EQ(ids, ids_of(goldens["ids"][i])) << text;
    EXPECT_EQ(tokenizer.decode(ids, false), text);
    EXPECT_EQ(stream(tokenizer, ids, false), text);
    const auto plain = tokenizer.encode(text, false);
    EXPECT_EQ(tokenizer.decode(plain, true), text);
    for (const int id : plain) EXPECT_FALSE(tokenizer.is_special(id)) << text;
  }
}

TEST(Tokenizer, DefaultModelKnowsItsTokens) {
  const Tokenizer& tokenizer = *default_tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_FALSE(tokenizer.add_bos());
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.find("<think>")));
  EXPECT_EQ(tokenizer.find("<|no such|>"), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(2), "<|im_end|>");
  EXPECT_EQ(tokenizer.token_bytes(-1), "");
  EXPECT_EQ(tokenizer.token_bytes(49152), "");
  EXPECT_EQ(tokenizer.decode(std::vector<int>{-1, 49152, 1 << 30}, false), "");
}

// A random text of words, special tokens and parts of them.
std::string random_text(std::mt19937& rng, const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = rng() % 8; i > 0; --i) text += parts[rng() % parts.size()];
  return text;
}

const std::vector<std::string> kParts{"<|im_end|>", "<|im_start|>", "<think>", "</think>", "<|im_", "end|>",
                                      "<th",        "ink>",         "<|",      "|>",       "<",     ">",
                                      " ",          "\n",           "user",    "Hello",    "é",     "你好",
                                      "😀",          "12",           "  "};

TEST(Tokenizer, MarkersInUntrustedTextStayText) {
  const Tokenizer& tokenizer = *default_tokenizer();
  std::mt19937 rng(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<PromptPiece> pieces;
    std::string all;
    bool trusted_any = false;
    for (size_t i = rng() % 5; i > 0; --i) {
      pieces.push_back({random_text(rng, kParts), rng() % 3 == 0});
      all += pieces.back().text;
      trusted_any = trusted_any || pieces.back().trusted;
    }
    const auto ids = tokenizer.encode(pieces);
    ASSERT_EQ(tokenizer.decode(ids, false), all);
    // Each control token lies within one stretch of trusted bytes.
    std::string trust;
    for (const PromptPiece& piece : pieces)
      trust += std::string(piece.text.size(), piece.trusted ? '#' : '.');
    size_t at = 0;
    for (const int id : ids) {
      const size_t size = tokenizer.token_bytes(id).size();
      if (id <= 16) {
        ASSERT_EQ(trust.substr(at, size), std::string(size, '#')) << all << "\n" << trust;
      }
      at += size;
    }
    ASSERT_EQ(at, all.size());
    for (PromptPiece& piece : pieces) piece.trusted = true;
    ASSERT_EQ(tokenizer.encode(pieces), tokenizer.encode(all, true)) << all;
  }
}

TEST(Tokenizer, EveryControlTokenCanBeRefused) {
  for (const char* name : {"Gemma", "Llama 2", "Unigram", "Unigram, bytes", "added tokens",
                           "added tokens, Prepend", "added tokens, Lowercase and NFC"}) {
    const Json json = definition(component(name));
    const TokenizerPtr tokenizer = parse(json);
    for (const Json& token : json["added_tokens"]) {
      const std::string content = token["content"];
      if (content.find_first_not_of(" ") == std::string::npos) continue;
      SCOPED_TRACE(name + (" " + content));
      const int id = token["id"];
      const auto trusted = tokenizer->encode(std::vector<PromptPiece>{{"a", false}, {content, true}});
      const auto untrusted = tokenizer->encode(std::vector<PromptPiece>{{"a ", false}, {content, false}});
      if (!token["single_word"] && !token["normalized"]) {
        EXPECT_EQ(trusted.back(), id);
      }
      EXPECT_EQ(std::count(untrusted.begin(), untrusted.end(), id), 0);
    }
  }
}

TEST(Detokenizer, RandomIdsGiveUtf8AndHoldBackLittle) {
  const Tokenizer& tokenizer = *default_tokenizer();
  std::mt19937 rng(4);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> ids;
    // Among the first ids are the single bytes, in any order.
    for (size_t i = rng() % 12; i > 0; --i)
      ids.push_back(static_cast<int>(rng() % (rng() % 4 ? 280 : 49152)));
    Detokenizer detokenizer(tokenizer, false);
    std::string bytes, shown;
    for (const int id : ids) {
      shown += detokenizer.push(id);
      bytes += tokenizer.token_bytes(id);
      const size_t ready = bytes.size() - unfinished_utf8_tail(bytes);
      ASSERT_EQ(shown, replace_invalid_utf8(bytes.substr(0, ready))) << ::testing::PrintToString(ids);
    }
    ASSERT_EQ(shown + detokenizer.flush(), tokenizer.decode(ids, false)) << ::testing::PrintToString(ids);
  }
}

TEST(Detokenizer, LeavesOutSpecialTokens) {
  const Tokenizer& tokenizer = *default_tokenizer();
  const auto ids = tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n", true);
  EXPECT_EQ(stream(tokenizer, ids, true), "user\nHi\n");
  EXPECT_EQ(stream(tokenizer, ids, false), "<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(tokenizer.decode(ids, true), "user\nHi\n");
}

TEST(Detokenizer, DropsTheSpaceThatSentencePieceAdds) {
  const TokenizerPtr llama = parse(definition(component("Llama 2")));
  for (const std::string text : {"the world", " the world", "  the", "你好 😀", "e"}) {
    const auto ids = llama->encode(text, true);
    EXPECT_EQ(llama->decode(ids, true), text);
    EXPECT_EQ(stream(*llama, ids, true), text);
  }
}

TEST(OutputText, MarkersMayBeSpecialTokens) {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>",       "<think>",      "</think>",        "a", "b", "<x>",
                  "<tool_call>", "</tool_call>", "{\"name\":\"f\"}"};
  vocab.types = {2, 3, 3, 1, 1, 3, 3, 3, 1};
  vocab.scores.assign(vocab.tokens.size(), 0);
  vocab.unk = 0;
  auto made = Tokenizer::from_gguf(vocab);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const OutputFormat format = find_output_format(nullptr, **made);
  ASSERT_TRUE(format.reasoning);
  EXPECT_EQ(format.tools, ToolFormat::tagged);
  const auto read = [&](const Json& tools) {
    OutputText output(**made, {}, {format, std::make_shared<const Json>(tools), false});
    const int tokens[] = {1, 3, 2, 5, 4, 6, 8, 7};
    ParsedOutput parsed;
    for (const auto& event : output.push(tokens)) parsed.add(event);
    for (const auto& event : output.finish()) parsed.add(event);
    return parsed;
  };
  EXPECT_EQ(read(Json::array({{{"function", {{"name", "f"}}}}})), (ParsedOutput{"a", "b", {{"f", "{}"}}}))
      << "other special tokens stay out";
  EXPECT_EQ(read(nullptr), (ParsedOutput{"a", "b{\"name\":\"f\"}", {}})) << "no tools: not markers";
  // Spelled in other tokens they are text, in whatever pieces they come.
  GgufVocab spelled = vocab;
  spelled.tokens.insert(spelled.tokens.end(), {"<thi", "nk>", "</thi", "<tool_", "call>"});
  spelled.types.resize(spelled.tokens.size(), 1);
  spelled.scores.resize(spelled.tokens.size(), 0);
  auto other = Tokenizer::from_gguf(spelled);
  ASSERT_TRUE(other.ok());
  const Json tools = Json::array({{{"function", {{"name", "f"}}}}});
  for (const bool at_once : {false, true}) {
    OutputText output(**other, {}, {format, std::make_shared<const Json>(tools), false});
    const std::vector<int> tokens = {1, 9, 10, 11, 10, 2, 3, 11, 10, 9, 10, 12, 13, 8, 6, 8, 7};
    ParsedOutput parsed;
    for (size_t i = 0; i < tokens.size(); i += at_once ? tokens.size() : 1)
      for (const auto& event : output.push(std::span(tokens).subspan(i, at_once ? tokens.size() : 1)))
        parsed.add(event);
    for (const auto& event : output.finish()) parsed.add(event);
    EXPECT_EQ(parsed, (ParsedOutput{
                          "<think></think>", "a</think><think><tool_call>{\"name\":\"f\"}", {{"f", "{}"}}}));
  }
  // Stop strings count in answers only.
  OutputText output(**made, {"a"}, {format, nullptr, true});
  ParsedOutput parsed;
  for (const int token : {3, 4, 2, 4, 1, 3, 2, 4, 3, 4})
    for (const auto& event : output.push(std::span(&token, 1))) parsed.add(event);
  for (const auto& event : output.finish()) parsed.add(event);
  EXPECT_TRUE(output.stopped());
  EXPECT_EQ(parsed, (ParsedOutput{"aba", "bb", {}}));
}

TEST(TokenizerJson, BosAndEosComeFromTheConfig) {
  const Json json = definition(component("Llama 2"));
  EXPECT_EQ(parse(json)->bos(), std::nullopt);
  const TokenizerPtr t =
      parse(json, R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true})");
  EXPECT_EQ(t->bos(), 1);
  EXPECT_EQ(t->eos(), 2);
  EXPECT_TRUE(t->add_bos());
  EXPECT_FALSE(parse(json, R"({"bos_token": "<s>"})")->add_bos());
  EXPECT_FALSE(parse_tokenizer_json(json.dump(), "[]").ok());
}

TEST(TokenizerJson, IntegersBeyond64BitsAreNumbers) {
  const std::string text = definition(component("Llama 2")).dump();
  for (const std::string number : {"1000000000000000019884624838656", "-9223372036854775809"}) {
    const auto made = parse_tokenizer_json("{\"more\":" + number + "," + text.substr(1),
                                           R"({"eos_token": "</s>", "model_max_length": )" + number + "}");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ((*made)->eos(), 2);
  }
  EXPECT_FALSE(parse_tokenizer_json(text, R"({"model_max_length": 1000000000000000019884624838656x})").ok());
}

TEST(TokenizerJson, BadFilesAreErrors) {
  const Json good = definition(component("Gemma"));
  std::vector<Json> bad(21, good);
  bad[0]["model"]["type"] = "WordPiece";
  bad[1]["model"]["vocab"] = 3;
  bad[2]["model"]["vocab"]["new"] = -1;
  bad[3]["model"]["vocab"]["new"] = 1 << 30;
  bad[4]["model"]["vocab"]["new"] = 5;  // taken
  bad[5]["model"]["merges"].push_back(Json::array({"▁", "no such token"}));
  bad[6]["model"]["merges"].push_back(7);
  bad[7]["model"]["unk_token"] = "no such token";
  bad[8]["model"]["dropout"] = 0.5;
  bad[9]["decoder"] = nullptr;
  bad[10]["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  bad[11]["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}};
  bad[12]["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}};
  bad[13]["added_tokens"][0]["id"] = -3;
  bad[14].erase("model");
  Json deep = good["normalizer"];
  for (int i = 0; i < 1000; ++i) deep = {{"type", "Sequence"}, {"normalizers", Json::array({deep})}};
  bad[15]["normalizer"] = deep;
  // Texts that would double with every step.
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  bad[16]["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(Json::array_t(40, twice))}};
  bad[17]["decoder"] = {{"type", "Sequence"}, {"decoders", Json(Json::array_t(40, twice))}};
  // Ids that mean two texts, and a text with two ids.
  bad[18]["added_tokens"].push_back(good["added_tokens"][0]);
  bad[18]["added_tokens"].back()["content"] = "other";
  bad[19]["added_tokens"][0]["id"] = 300;
  bad[20]["added_tokens"][0]["id"] = 5000;
  for (size_t i = 0; i < bad.size(); ++i) {
    auto made = parse_tokenizer_json(bad[i].dump(), "");
    EXPECT_FALSE(made.ok()) << i;
    if (!made.ok()) {
      EXPECT_FALSE(made.error().message.empty());
    }
  }
  for (const char* text : {"", "{", "[]", "null", "{}", "\xff"})
    EXPECT_FALSE(parse_tokenizer_json(text, "").ok()) << text;
  EXPECT_FALSE(Tokenizer::from_file("/nonexistent/tokenizer.json").ok());
}

TEST(Tokenizer, InvalidUtf8IsReplaced) {
  const Tokenizer& t = *default_tokenizer();
  EXPECT_EQ(t.encode("a\xff\xfe z", true), t.encode("a\uFFFD\uFFFD z", true));
  EXPECT_EQ(t.encode(std::vector<PromptPiece>{{"\xe4\xbd", true}, {"<|im_end|>", true}}),
            t.encode("\uFFFD<|im_end|>", true));
}

TEST(Tokenizer, LongTextsTakeLinearTime) {
  std::mt19937 rng(7);
  std::string random;
  for (int i = 0; i < 300000; ++i) random += static_cast<char>('a' + rng() % 26);
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : {"ByteLevel without regex", "Split words", "Gemma", "Llama 2", "Unigram, bytes"}) {
    const TokenizerPtr tokenizer = parse(definition(component(name)));
    for (const std::string& text : {random, std::string(300000, 'a'), std::string(300000, ' ')})
      EXPECT_FALSE(tokenizer->encode(text, true).empty()) << name;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace anabranch
