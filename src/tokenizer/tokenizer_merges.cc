// Tokenizers from GPT-2's vocab.json and merges.txt, as Qwen2 ships them.
#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/outside_text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

constexpr size_t kMaxMerges = 8u << 20;

// The pre-tokenizer of a class of tokenizers, and its tokens if no file names others.
struct Class {
  std::string_view name;
  std::string_view pre;  // as GGUF names it
  std::string_view bos, eos;
};
constexpr Class kClasses[] = {{"Qwen2Tokenizer", "qwen2", "", "<|endoftext|>"},
                              {"Qwen3_5Tokenizer", "qwen35", "", "<|endoftext|>"},
                              {"GPT2Tokenizer", "gpt-2", "<|endoftext|>", "<|endoftext|>"}};

// Models for which the family decides, whatever class their files name.
struct Family {
  std::string_view model_type, name;
};
constexpr Family kFamilies[] = {{"qwen2", "Qwen2Tokenizer"},
                                {"qwen2_moe", "Qwen2Tokenizer"},
                                {"qwen3", "Qwen2Tokenizer"},
                                {"qwen3_moe", "Qwen2Tokenizer"},
                                {"qwen3_next", "Qwen2Tokenizer"},
                                {"qwen4_exp", "Qwen3_5Tokenizer"},
                                {"qwen4_exp_text", "Qwen3_5Tokenizer"},
                                {"qwen3_5", "Qwen3_5Tokenizer"},
                                {"qwen3_5_text", "Qwen3_5Tokenizer"},
                                {"qwen3_5_moe", "Qwen3_5Tokenizer"},
                                {"qwen3_5_moe_text", "Qwen3_5Tokenizer"}};

Result<Class> find_class(const TokenizerSettings& settings) {
  const auto* family = std::ranges::find(kFamilies, settings.model_type, &Family::model_type);
  const std::string_view name =
      family != std::end(kFamilies) ? family->name : std::string_view(settings.tokenizer_class);
  if (const auto* known = std::ranges::find(kClasses, name, &Class::name); known != std::end(kClasses))
    return *known;
  return make_error(ErrorKind::unsupported,
                    "vocab.json and merges.txt do not say how to cut a text into words, and {} is not known "
                    "(Qwen2Tokenizer, Qwen3_5Tokenizer and GPT2Tokenizer are): save the tokenizer with "
                    "Transformers to get a tokenizer.json",
                    name.empty() ? "no 'tokenizer_class' is in tokenizer_config.json"
                                 : fmt::format("'tokenizer_class' {}", shown(name)));
}

Result<void> read_vocab(std::string_view json, Vocab& vocab) {
  simdjson::dom::parser parser;
  simdjson::dom::element e;
  simdjson::dom::object tokens;
  if (const auto error = parser.parse(json.data(), json.size()).get(e))
    return make_error(ErrorKind::invalid, "vocab.json is not JSON: {}", simdjson::error_message(error));
  if (e.get(tokens) != simdjson::SUCCESS)
    return make_error(ErrorKind::invalid, "vocab.json should be an object");
  vocab.reserve(tokens.size());
  for (const auto field : tokens) {
    int64_t id = -1;
    if (field.value.get(id) != simdjson::SUCCESS || id < 0 || id > Vocab::kMaxId)
      return make_error(ErrorKind::invalid, "vocab.json: the id of '{}' should be from 0 to {}",
                        shown(field.key), Vocab::kMaxId);
    if (field.key.size() > kMaxTokenBytes)
      return make_error(ErrorKind::exhausted, "vocab.json: token {} has {} bytes; the limit is {}", id,
                        field.key.size(), kMaxTokenBytes);
    if (!vocab.add(field.key, static_cast<int>(id)))
      return make_error(ErrorKind::invalid, "vocab.json: tokens '{}' and '{}' share the id {}",
                        shown(vocab.text(static_cast<int>(id))), shown(field.key), id);
  }
  return {};
}

// Lines "a b", the first merge first. Calls merge(left, right).
template <class Merge>
Result<void> for_each_merge(std::string_view text, const Merge& merge) {
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == 0 || space == line.npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos)
      return make_error(ErrorKind::invalid, "merges.txt: line {} is not two tokens: '{}'", number,
                        shown(line));
    TRY_VOID(merge(line.substr(0, space), line.substr(space + 1)));
  }
  return {};
}

Result<void> read_merges(std::string_view text, Bpe& bpe) {
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n')) + 1;
  if (lines > kMaxMerges)
    return make_error(ErrorKind::exhausted, "merges.txt has {} lines; the limit is {}", lines, kMaxMerges);
  bpe.reserve_merges(lines);
  uint32_t rank = 0;
  return for_each_merge(text, [&](std::string_view left, std::string_view right) {
    return bpe.add_merge(left, right, rank++);
  });
}

}  // namespace

Result<TokenizerParts> read_merges_tokenizer(std::string_view vocab, std::string_view merges,
                                             const TokenizerSettings& settings) {
  TRY(const Class known, find_class(settings));
  TRY(const auto pre, find_gguf_pre_tokenizer(known.pre));
  TokenizerParts parts;
  TRY_VOID(read_vocab(vocab, *parts.vocab));
  parts.bos = known.bos;
  parts.eos = known.eos;
  TRY_VOID(apply_tokenizer_settings(settings, parts));
  Bpe bpe(parts.vocab.get(), {});
  bpe.set_blocked(control_ids(parts.added));
  TRY_VOID(read_merges(merges, bpe));
  parts.model = std::move(bpe);
  TRY_VOID(set_byte_level(pre->patterns, pre->nfc, settings.add_prefix_space, parts));
  parts.add_bos = settings.add_bos.value_or(false);
  return parts;
}

}  // namespace anabranch
