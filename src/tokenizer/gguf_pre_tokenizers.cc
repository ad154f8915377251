// How texts are cut into words before their tokens are looked up, under the names that llama.cpp gives to the
// patterns of the models' tokenizer.json files.
#include "base/outside_text.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/pre_tokenizer.h"

namespace anabranch {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeed =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kChineseJapanese = "[一-龥぀-ゟ゠-ヿ]+";
// Words of Chinese characters are words of their own, and no part of others.
constexpr std::string_view kKimi =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// As GPT-4o's, but a digit is a word.
constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuScripts =
    R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kLineEnd = R"([\r\n])";
// Letters that have a case, as DeepSeek's first models list them.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepSeekSigns = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kDeepSeekEast = R"([一-龥ࠀ-一가-퟿]+)";
constexpr std::string_view kViking = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
// Digits are cut from the right, three by three, if no other letter of a word follows.
constexpr std::string_view kAya = R"(\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?![\p{L}\p{M}\p{Nd}\p{Pc}])))";

constexpr GgufPreTokenizer kPre[] = {
    {"gpt-2", {kGpt2Pattern}},
    {"gpt2", {kGpt2Pattern}},
    {"smollm", {R"(\p{N})", kGpt2Pattern}},
    {"starcoder", {R"(\p{N})", kGpt2Pattern}},
    {"llama-bpe", {kLlama3}, false, true, true},
    {"llama3", {kLlama3}, false, true, true},
    {"llama-v3", {kLlama3}, false, true, true},
    {"lfm2", {kLlama3}, false, true, true},
    {"qwen2", {kQwen2}, true},
    {"deepseek-r1-qwen", {kQwen2}, false, false, true},
    {"qwen35", {kQwen35}, true},
    {"deepseek-v3", {kThreeDigits, kChineseJapanese, kDeepSeek3}, false, false, true},
    {"tekken", {kTekken}, false, true, true},
    {"gpt-4o", {kGpt4o}},
    {"llama4", {kGpt4o}, false, false, true},
    {"olmo", {kGpt2Pattern}},
    {"exaone4", {kGpt2Pattern}},
    {"refact", {R"(\p{N})", kGpt2Pattern}},  // Granite
    {"command-r", {R"(\p{N})", kGpt2Pattern}, true},
    {"dbrx", {kLlama3}},       // OLMo 2, Phi-4
    {"smaug-bpe", {kLlama3}},  // SmolLM3
    {"chatglm-bpe", {kLlama3}},
    {"glm4", {kLlama3}, false, true},
    {"stablelm2", {kQwen2}},
    {"hunyuan-dense", {kThreeDigits, kChineseJapanese, kDeepSeek3}},
    {"seed-coder", {kSeed}},
    {"falcon3", {kLlama3}, false, true, true},
    {"falcon-h1", {kLlama3}, false, true, true},
    {"pixtral", {kLlama3}, false, true, true},
    {"midm-2.0", {kLlama3}, false, true, true},
    {"minicpm5", {kThreeDigits, kMiniCpm5}, false, true},
    {"megrez", {kQwen2}},
    {"kormo", {kQwen2}},
    {"f2llmv2", {kQwen2}},
    {"hunyuan", {kQwen2}, true, true},
    {"solar-open", {kQwen2}},
    {"joyai-llm", {kThreeDigits, kChineseJapanese, kDeepSeek3}},
    {"kimi-k2", {kKimi}, false, true, false, true},
    {"youtu", {kYoutuScripts, kYoutu}, false, true},
    {"deepseek-llm", {kLineEnd, kDeepSeekLetters, kDeepSeekSigns, R"(\s+$)", kDeepSeekEast, R"(\p{N})"}},
    {"deepseek-coder", {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekEast, R"(\p{N})"}},
    {"minimax-m2", {kGpt4o}},
    {"kanana2", {kGpt4o}},
    {"exaone-moe", {kExaoneMoe}},
    {"tiny_aya", {kAya, kGpt4o}, true},
    {"cohere2moe", {kAya, kGpt4o}, true},
    {"viking", {kViking, R"(\p{N})"}},
    {"laguna", {R"([^\n]+|[\n]+)", kQwen2}},
    {"minerva-7b", {R"(\p{N})", kGpt2Pattern}},
    {"mellum2", {R"(\p{N})", kGpt2Pattern}},
    {"mellum", {kGpt2Pattern}},
    {"phi-2", {kGpt2Pattern}},
    {"gigachat", {kGpt2Pattern}},
    {"a.x-4.0", {kGpt2Pattern}},
    {"trillion", {kGpt2Pattern}},
    {"granite-docling", {kGpt2Pattern}},
};

}  // namespace

std::span<const GgufPreTokenizer> gguf_pre_tokenizers() {
  return kPre;
}

Result<const GgufPreTokenizer*> find_gguf_pre_tokenizer(std::string_view name) {
  std::string known;
  for (const GgufPreTokenizer& entry : kPre) {
    if (entry.name == name) return &entry;
    known += fmt::format("{}{}", known.empty() ? "" : " ", entry.name);
  }
  return make_error(
      ErrorKind::unsupported,
      "tokenizer.ggml.pre '{}' is not known (known: {}); use the model's tokenizer.json instead", shown(name),
      known);
}

}  // namespace anabranch
