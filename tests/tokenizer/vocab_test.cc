// Vocabularies that are not tokenizer.json, against their publishers' tools (fixtures and goldens by
// tools/make_vocab_fixtures.py).
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using TokenizerPtr = std::shared_ptr<const Tokenizer>;

std::string fixture(const std::string& folder, const std::string& file = "") {
  return std::string(ANABRANCH_SOURCE_DIR "/tests/tokenizer/data/vocab/") + folder + "/" + file;
}

std::string text_of(const std::string& path) {
  auto text = read_file(path, 16u << 20);
  CHECK(text.ok(), "{}", text.error().message);
  return *text;
}

Json goldens(const std::string& folder) {
  return parse_json(text_of(fixture(folder, "goldens.json"))).value();
}

TokenizerPtr load(const std::string& directory) {
  auto made = Tokenizer::from_directory(directory);
  CHECK(made.ok(), "{}", made.error().message);
  return *made;
}

std::vector<int> ids_of(const Json& json) {
  return json.get<std::vector<int>>();
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

class Vocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(Vocabulary, GivesThePublishersIds) {
  const Json golden = goldens(GetParam());
  const TokenizerPtr tokenizer = load(fixture(GetParam()));
  for (const Json& one : golden["plain"])
    EXPECT_EQ(tokenizer->encode(one[0].get<std::string>(), false), ids_of(one[1])) << one[0];
  for (const Json& one : golden["special"])
    EXPECT_EQ(tokenizer->encode(one[0].get<std::string>(), true), ids_of(one[1])) << one[0];
  for (const Json& one : golden["invalid"])
    EXPECT_EQ(tokenizer->encode(from_hex(one[0].get<std::string>()), false), ids_of(one[1])) << one[0];
}

// Transformers' decoder, which decode() follows, differs from SentencePiece's own in two ways: each byte of a
// run of byte tokens that is no UTF-8 becomes U+FFFD, where SentencePiece and a stream keep the valid ones;
// and a space at the beginning stays or goes by other rules.
TEST_P(Vocabulary, GivesThePublishersText) {
  const TokenizerPtr tokenizer = load(fixture(GetParam()));
  const Json golden = goldens(GetParam());
  const bool sentencepiece = golden["tool"].get<std::string>().starts_with("sentencepiece");
  int compared = 0;
  for (const Json& one : golden["decoded"]) {
    const std::vector<int> ids = ids_of(one[0]);
    const auto publisher = one[1].get<std::string>();
    const std::string whole = tokenizer->decode(ids, true);
    Detokenizer stream(*tokenizer, true);
    std::string streamed;
    for (const int id : ids) streamed += stream.push(id);
    streamed += stream.flush();
    if (sentencepiece && (publisher.starts_with(' ') || whole.starts_with(' '))) continue;
    EXPECT_EQ(streamed, publisher) << one[0];
    if (!sentencepiece || publisher.find("\uFFFD") == publisher.npos) {
      EXPECT_EQ(whole, publisher) << one[0];
    }
    compared++;
  }
  EXPECT_GE(compared, 12);
}

TEST_P(Vocabulary, KnowsItsSpecialTokens) {
  const Json golden = goldens(GetParam());
  const TokenizerPtr tokenizer = load(fixture(GetParam()));
  const auto text = [&](std::optional<int> id) {
    return id ? Json(std::string(tokenizer->token_bytes(*id))) : Json();
  };
  EXPECT_EQ(text(tokenizer->bos()), golden["bos"]);
  EXPECT_EQ(text(tokenizer->eos()), golden["eos"]);
  EXPECT_EQ(tokenizer->add_bos(), golden["add_bos"].get<bool>());
  for (const auto id : {tokenizer->bos(), tokenizer->eos()}) EXPECT_TRUE(!id || tokenizer->is_special(*id));
}

TEST_P(Vocabulary, ControlTokensNeverComeOutOfUntrustedText) {
  const TokenizerPtr tokenizer = load(fixture(GetParam()));
  std::string all;
  for (int id = 0; id < tokenizer->vocab_size(); ++id)
    if (tokenizer->is_special(id)) all += std::string(tokenizer->token_bytes(id)) + " x";
  for (const char* more : {"<think>", "<tool_call>", "<sep>", "<start_of_turn>", "<table>"}) all += more;
  const auto trusted = tokenizer->encode(std::vector<PromptPiece>{{all, true}});
  EXPECT_TRUE(std::ranges::any_of(trusted, [&](int id) { return tokenizer->is_special(id); }));
  EXPECT_EQ(trusted, tokenizer->encode(all, true));
  const auto unknown = tokenizer->find("<unk>");
  for (const int id : tokenizer->encode(std::vector<PromptPiece>{{all, false}})) {
    EXPECT_TRUE(!tokenizer->is_special(id) || id == unknown) << id;
    for (const char* more : {"<think>", "<tool_call>", "<sep>", "<start_of_turn>", "<table>"})
      EXPECT_NE(tokenizer->token_bytes(id), more);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Vocabulary,
                         ::testing::Values("llama", "mistral", "gemma", "rules", "unknown", "unigram",
                                           "unigram_bytes", "tekken", "tekken_old", "qwen2", "qwen3_5",
                                           "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

// ---------------------------------------------------------------------------------- files made here

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
std::string number(int field, uint64_t value) {
  std::string out;
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, value);
  return out;
}
std::string bytes(int field, std::string_view value) {
  std::string out;
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, value.size());
  return out += value;
}
std::string piece(std::string_view text, float score = 0, int type = 1) {
  std::string score_field("\x15");
  score_field.append(reinterpret_cast<const char*>(&score), sizeof score);
  return bytes(1, bytes(1, text) + score_field + number(3, static_cast<uint64_t>(type)));
}
constexpr int kModelType = 3, kBpe = 2;
std::string trainer(std::string fields = number(kModelType, kBpe)) {
  return bytes(2, fields);
}
// A normalizer that changes nothing but spaces.
std::string plain_normalizer(std::string fields = "") {
  return bytes(3, fields + number(3, 0) + number(4, 0));
}
std::string first_pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
}

std::string error_of(const Result<TokenizerParts>& parts) {
  return parts.ok() ? "" : parts.error().message;
}

TEST(SentencePiece, EqualScoresMergeFromTheLeft) {
  const std::string model = first_pieces() + piece("a", -9) + piece("aa", -1) + piece("ab", -1) +
                            piece("b", -9) + trainer() + plain_normalizer();
  auto parts = read_sentencepiece_tokenizer(model, {});
  ASSERT_TRUE(parts.ok()) << error_of(parts);
  const auto tokenizer = make_tokenizer(std::move(*parts));
  EXPECT_EQ(tokenizer->encode("aab", false), (std::vector{4, 6}));
  EXPECT_EQ(tokenizer->encode("aaa", false), (std::vector{4, 3}));
}

TEST(SentencePiece, BadFilesAreErrors) {
  const std::string good = first_pieces() + piece("a") + trainer() + plain_normalizer();
  ASSERT_TRUE(read_sentencepiece_tokenizer(good, {}).ok());
  const auto error = [](const std::string& model) {
    return error_of(read_sentencepiece_tokenizer(model, {}));
  };
  EXPECT_NE(error(""), "");
  EXPECT_NE(error("IQ== 0\nIg== 1\n").find("not a SentencePiece model"), std::string::npos);
  EXPECT_NE(error(good + piece("a")).find("are both 'a'"), std::string::npos);
  EXPECT_NE(error(good + piece("")).find("piece 4 is not UTF-8"), std::string::npos);
  EXPECT_NE(error(good + piece("\xff")).find("piece 4 is not UTF-8"), std::string::npos);
  EXPECT_NE(error(good + piece(std::string(kMaxTokenBytes + 1, 'x'))).find("piece 4"), std::string::npos);
  EXPECT_EQ(error(good + piece(std::string(kMaxTokenBytes, 'x'))), "");
  EXPECT_NE(error(good + piece("b", NAN)).find("score of piece 4"), std::string::npos);
  EXPECT_NE(error(good + piece("b", 0, 7)).find("unknown type 7"), std::string::npos);
  EXPECT_NE(error(good + "\x0a\x7f").find("longer than the file"), std::string::npos);
  EXPECT_NE(error(good + trainer(number(kModelType, 3))).find("words or characters"), std::string::npos);
  EXPECT_NE(error(good + trainer(number(24, 1))).find("treat_whitespace_as_suffix"), std::string::npos);
  for (const char* map : {"\1", "\4\0\0\0abc", "\2\0\0\0ab"})
    EXPECT_NE(error(good + plain_normalizer(bytes(2, map))).find("precompiled_charsmap"), std::string::npos);
  const std::string units = std::string("\4\0\0\0", 4) + std::string(4, '\0');
  EXPECT_EQ(error(good + plain_normalizer(bytes(2, units + std::string(256, 'x')))), "");
  EXPECT_NE(error(good + plain_normalizer(bytes(2, units + std::string(257, 'x')))).find("257 bytes"),
            std::string::npos);
}

TEST(SentencePiece, CutFilesAreErrorsOrWork) {
  for (const char* folder : {"rules", "unigram"}) {
    const std::string model = text_of(fixture(folder, "tokenizer.model"));
    for (size_t size = 0; size < model.size(); size += 61) {
      auto parts = read_sentencepiece_tokenizer(std::string_view(model).substr(0, size), {});
      if (parts.ok()) make_tokenizer(std::move(*parts))->encode("ﬁ e\u0301 <s> x", true);
    }
  }
}

TEST(SentencePiece, AddedTokensNameReservedPiecesAnew) {
  const std::string model =
      first_pieces() + piece("[control_8]", 0, 3) + piece("a") + trainer() + plain_normalizer();
  TokenizerSettings settings;
  AddedToken token;
  token.id = 3;
  token.content = "<|im_end|>";
  token.special = true;
  settings.added = {token};
  settings.eos = "<|im_end|>";
  auto parts = read_sentencepiece_tokenizer(model, settings);
  ASSERT_TRUE(parts.ok()) << error_of(parts);
  const auto tokenizer = make_tokenizer(std::move(*parts));
  EXPECT_EQ(tokenizer->encode("a<|im_end|>", true), (std::vector{4, 3}));
  EXPECT_EQ(tokenizer->eos(), 3);
  settings.added[0].content = "a";  // which has an id already
  EXPECT_NE(error_of(read_sentencepiece_tokenizer(model, settings)), "");
}

// The bytes, and then `more`.
std::string tekken(const std::string& more = "", int size = 260, int special = 3,
                   const std::string& tail = "") {
  std::string vocab;
  for (int b = 0; b < 256; ++b)
    vocab += fmt::format("{}{{\"rank\": {}, \"token_bytes\": \"{}\", \"token_str\": null}}", b ? "," : "", b,
                         to_base64(std::string(1, static_cast<char>(b))));
  return fmt::format(
      R"({{"config": {{"pattern": "\\w+|\\W", "default_vocab_size": {}, "default_num_special_tokens": {}}},)"
      R"("vocab": [{}{}], "special_tokens": [{{"rank": 0, "token_str": "<unk>"}}, {{"rank": 1, "token_str": "<s>"}}{}]}})",
      size, special, vocab, more, tail);
}

TEST(Tekken, BadFilesAreErrors) {
  const std::string more = R"(,{"rank": 256, "token_bytes": "YWI=", "token_str": "ab"})";
  auto good = read_tekken_tokenizer(tekken(more));
  ASSERT_TRUE(good.ok()) << error_of(good);
  const auto tokenizer = make_tokenizer(std::move(*good));
  EXPECT_EQ(tokenizer->encode("<s>ab", true), (std::vector{1, 259}));
  EXPECT_EQ(tokenizer->find("<SPECIAL_2>"), 2);
  const auto error = [](const std::string& json) { return error_of(read_tekken_tokenizer(json)); };
  EXPECT_NE(error("{"), "");
  EXPECT_NE(error("[]"), "");
  EXPECT_NE(error("{}").find("config"), std::string::npos);
  EXPECT_NE(error(tekken(more, 261)).find("257 tokens; 258 are needed"), std::string::npos);
  EXPECT_EQ(error(tekken(more, 259)), "");  // the file may have more tokens than the model
  EXPECT_NE(error(tekken(more, 257)).find("256 are needed"), std::string::npos);
  EXPECT_NE(error(tekken(more, 260, 1)).find("is not among 1"), std::string::npos);
  EXPECT_NE(error(tekken(more, 260, 261)).find("default_num_special_tokens"), std::string::npos);
  EXPECT_NE(error(tekken(more, 1 << 30)).find("default_vocab_size"), std::string::npos);
  EXPECT_NE(error(tekken(more, 260, 3, R"(,{"rank": 1, "token_str": "x"})")).find("same rank"),
            std::string::npos);
  EXPECT_NE(error(tekken(more, 260, 3, R"(,{"rank": 2, "token_str": "<s>"})")).find("twice"),
            std::string::npos);
  EXPECT_NE(error(tekken(more, 260, 3, R"(,{"rank": -1, "token_str": "x"})")).find("rank -1"),
            std::string::npos);
  EXPECT_NE(error(tekken(R"(,{"rank": 257, "token_bytes": "YWI="})")).find("vocab[256]"), std::string::npos);
  EXPECT_NE(error(tekken(R"(,{"rank": 256, "token_bytes": "YQ=="})")).find("twice"), std::string::npos);
  EXPECT_NE(error(tekken(R"(,{"rank": 256, "token_bytes": "???"})")).find("base64"), std::string::npos);
}

TEST(Merges, BadFilesAreErrors) {
  TokenizerSettings settings;
  settings.tokenizer_class = "GPT2Tokenizer";
  const auto error = [&](const char* vocab, const char* merges) {
    return error_of(read_merges_tokenizer(vocab, merges, settings));
  };
  constexpr const char* kVocab = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";
  EXPECT_EQ(error(kVocab, "#version: 0.2\r\na b\r\n"), "");
  EXPECT_EQ(error(kVocab, "a b"), "");
  for (const char* merges : {"ab", "a b a", " a b", "a ", "a  b"})
    EXPECT_NE(error(kVocab, merges).find("line 1 is not two tokens"), std::string::npos) << merges;
  EXPECT_NE(error(kVocab, "a c"), "");
  EXPECT_NE(error("[]", ""), "");
  EXPECT_NE(error(R"({"a": -1})", "").find("'a'"), std::string::npos);
  EXPECT_NE(error(R"({"a": 5000000})", "").find("'a'"), std::string::npos);
  EXPECT_NE(error(R"({"a": 0, "b": 0})", "").find("share the id 0"), std::string::npos);
  settings.tokenizer_class = "BartTokenizer";
  EXPECT_NE(error(kVocab, "a b").find("BartTokenizer"), std::string::npos);
  settings.tokenizer_class = "";
  EXPECT_NE(error(kVocab, "a b").find("no 'tokenizer_class'"), std::string::npos);
  settings.model_type = "qwen2";
  EXPECT_EQ(error(kVocab, "a b"), "");
}

TEST(Merges, TextOfFilesIsShownEscaped) {
  TokenizerSettings settings;
  settings.tokenizer_class = "GPT2Tokenizer";
  const std::string merges = "a\x1b[31m " + std::string(5000, 'b') + " c";
  const std::string error = error_of(read_merges_tokenizer(R"({"a": 0})", merges, settings));
  EXPECT_NE(error.find("a\\x1b[31m bbb"), std::string::npos) << error;
  EXPECT_LT(error.size(), 400u);
}

TEST(TokenizerSettings, BadFilesAreErrors) {
  const auto error = [](TokenizerSideFiles files) {
    const auto read = read_tokenizer_settings(files);
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error({R"({"bos_token": null, "model_max_length": 1000000000000000019884624838656})"}), "");
  for (const char* config :
       {"[]", "{", R"({"bos_token": 3})", R"({"add_bos_token": "yes"})", R"({"added_tokens_decoder": []})",
        R"({"added_tokens_decoder": {"x": "a"}})", R"({"added_tokens_decoder": {"-1": "a"}})",
        R"({"added_tokens_decoder": {"4194304": "a"}})", R"({"added_tokens_decoder": {"1": ""}})",
        R"({"added_tokens_decoder": {"1": {"content": "a", "special": 1}}})",
        R"({"additional_special_tokens": 3})"})
    EXPECT_NE(error({config}).find("tokenizer_config.json"), std::string::npos) << config;
  EXPECT_NE(error({"", R"({"eos_token": []})"}).find("special_tokens_map.json"), std::string::npos);
  EXPECT_NE(error({"", "", R"({"a": "b"})"}).find("added_tokens.json"), std::string::npos);
  // With a table in tokenizer_config.json the older files do not count.
  EXPECT_EQ(error({R"({"added_tokens_decoder": {"1": "a"}})", "[]", "[]"}), "");
}

TEST(TokenizerSettings, ATokenHasOneIdAndAnIdOneToken) {
  const auto add = [](int id, const char* content) {
    AddedToken token;
    token.id = id;
    token.content = content;
    TokenizerParts parts;
    parts.vocab->add("a", 0);
    TokenizerSettings settings;
    settings.added = {token};
    settings.special = {"<new>", "a"};
    const auto applied = apply_tokenizer_settings(settings, parts);
    if (!applied.ok()) return std::string("error");
    std::string ids;
    for (const AddedToken& t : parts.added) ids += fmt::format("{}={} ", t.content, t.id);
    return ids;
  };
  EXPECT_EQ(add(5, "b"), "b=5 <new>=6 a=0 ");
  EXPECT_EQ(add(0, "a"), "a=0 <new>=1 ");
  EXPECT_EQ(add(0, "b"), "error");
  EXPECT_EQ(add(1, "a"), "error");
  EXPECT_EQ(add(Vocab::kMaxId, "b"), "error");
}

class TokenizerDirectory : public ::testing::Test {
 protected:
  TokenizerDirectory() { fs::create_directories(path_); }
  ~TokenizerDirectory() override { fs::remove_all(path_); }
  void copy(const std::string& folder, const std::string& file, const std::string& as = "") {
    fs::copy_file(fixture(folder, file), path_ / (as.empty() ? file : as),
                  fs::copy_options::overwrite_existing);
  }
  int size() {
    const auto made = Tokenizer::from_directory(path_.string());
    return made.ok() ? (*made)->vocab_size() : -1;
  }
  const fs::path path_ = fs::temp_directory_path() / fmt::format("anabranch-vocab-{}", ::getpid());
};

TEST_F(TokenizerDirectory, FilesAreTakenInTheirOrder) {
  const auto none = Tokenizer::from_directory(path_.string());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::not_found);
  EXPECT_NE(none.error().message.find("tokenizer.json, tekken.json, tokenizer.model"), std::string::npos);
  copy("gpt2", "vocab.json");
  EXPECT_EQ(size(), -1);
  copy("gpt2", "merges.txt");
  copy("gpt2", "tokenizer_config.json");
  EXPECT_EQ(size(), load(fixture("gpt2"))->vocab_size());
  copy("unknown", "tokenizer.model", "tokenizer.model.v3");
  EXPECT_EQ(size(), load(fixture("unknown"))->vocab_size() + 1);  // the configuration names <|endoftext|>
  copy("unigram", "tokenizer.model");
  EXPECT_EQ(size(), load(fixture("unigram"))->vocab_size() + 1);
  copy("tekken", "tekken.json");
  EXPECT_EQ(size(), load(fixture("tekken"))->vocab_size());
  std::ofstream(path_ / "tokenizer.json") << "{}";
  EXPECT_EQ(size(), -1);
}

// Without a config.json, params.json shows that Mistral made the files, whose code puts a dummy prefix before
// each stretch of text.
TEST_F(TokenizerDirectory, MistralsOwnLayout) {
  copy("mistral", "tokenizer.model");
  const auto encode = [&] {
    return Tokenizer::from_directory(path_.string()).value()->encode("<s>a</s>a", true);
  };
  EXPECT_EQ(encode()[1], encode().back());
  const auto plain = encode();
  std::ofstream(path_ / "params.json") << "{}";
  EXPECT_NE(encode(), plain);
}

}  // namespace
}  // namespace anabranch
