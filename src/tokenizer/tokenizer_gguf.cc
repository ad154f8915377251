// Tokenizers from GGUF metadata: llama.cpp names the pre-tokenizer instead of storing it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/outside_text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/tokenizer_impl.h"

namespace anabranch {
namespace {

// Vocabularies that are recognised by the architecture and a token. The first matching row counts.
struct PlainFamily {
  std::string_view architecture, token, pre;
};
constexpr PlainFamily kPlainFamilies[] = {
    {"qwen2", "<｜begin▁of▁sentence｜>", "deepseek-r1-qwen"},
    {"qwen2", "<|im_start|>", "qwen2"},
    {"qwen3", "<|im_start|>", "qwen2"},
    {"qwen3moe", "<|im_start|>", "qwen2"},
    {"qwen3next", "<|im_start|>", "qwen2"},
    {"qwen35", "<|im_start|>", "qwen35"},
    {"qwen35moe", "<|im_start|>", "qwen35"},
    {"llama", "<|begin_of_text|>", "llama-bpe"},
    {"llama", "[AVAILABLE_TOOLS]", "tekken"},
    {"mistral3", "[AVAILABLE_TOOLS]", "tekken"},
    {"llama", "<reponame>", "smollm"},
    {"qwen2vl", "<|im_start|>", "qwen2"},
    {"qwen25vl", "<|im_start|>", "qwen2"},
    {"command-r", "<|START_OF_TURN_TOKEN|>", "command-r"},
};

Result<void> check(const GgufVocab& v) {
  if (v.tokens.empty()) return make_error(ErrorKind::invalid, "tokenizer.ggml.tokens is missing or empty");
  if (v.tokens.size() > static_cast<size_t>(Vocab::kMaxId))
    return make_error(ErrorKind::exhausted, "tokenizer.ggml.tokens has {} entries; the limit is {}",
                      v.tokens.size(), Vocab::kMaxId);
  if (!v.types.empty() && v.types.size() != v.tokens.size())
    return make_error(ErrorKind::invalid, "tokenizer.ggml.token_type has {} entries for {} tokens",
                      v.types.size(), v.tokens.size());
  for (size_t id = 0; id < v.scores.size(); ++id)
    if (!std::isfinite(v.scores[id]))
      return make_error(ErrorKind::invalid, "tokenizer.ggml.scores: entry {} is not a number", id);
  for (const auto& [name, id] :
       {std::pair{"bos", v.bos}, {"eos", v.eos}, {"unknown", v.unk}, {"padding", v.pad}}) {
    if (id >= static_cast<int>(v.tokens.size()))
      return make_error(ErrorKind::invalid, "tokenizer.ggml.{}_token_id is {} of {} tokens", name, id,
                        v.tokens.size());
  }
  return {};
}

// The vocabulary, with control and user-defined tokens as added tokens.
Result<void> fill_vocab(const GgufVocab& v, TokenizerParts& parts) {
  parts.vocab->reserve(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    std::string text = gguf_token_text(v, id);
    if (text.size() > kMaxTokenBytes)
      return make_error(ErrorKind::exhausted, "token {} has {} bytes; the limit is {}", id, text.size(),
                        kMaxTokenBytes);
    parts.vocab->add(text, static_cast<int>(id));
    const int type = gguf_token_type(v, id);
    if ((type != kControl && type != kUserDefined) || text.empty()) continue;
    AddedToken token;
    token.id = static_cast<int>(id);
    token.content = std::move(text);
    token.special = type == kControl;
    parts.added.push_back(std::move(token));
  }
  if (v.bos >= 0) parts.bos = v.tokens[v.bos];
  if (v.eos >= 0) parts.eos = v.tokens[v.eos];
  return {};
}

Result<void> add_merges(const GgufVocab& v, Bpe& bpe) {
  if (v.merges.empty()) return make_error(ErrorKind::invalid, "tokenizer.ggml.merges is missing");
  bpe.reserve_merges(v.merges.size());
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    TRY(const auto pair, split_gguf_merge(v.merges[rank], rank));
    TRY_VOID(bpe.add_merge(pair.first, pair.second, static_cast<uint32_t>(rank)));
  }
  return {};
}

Result<void> build_byte_level(const GgufVocab& v, TokenizerParts& parts) {
  TRY(const auto pre, gguf_pre_tokenizer(v));
  Bpe::Options options;
  options.ignore_merges = pre->ignore_merges;
  Bpe bpe(parts.vocab.get(), options);
  bpe.set_blocked(control_ids(parts.added));
  if (pre->ranked && v.merges.empty())
    bpe.merge_by_id();
  else
    TRY_VOID(add_merges(v, bpe));
  parts.model = std::move(bpe);

  TRY_VOID(set_byte_level(pre->patterns, pre->nfc, v.add_space_prefix.value_or(false), parts));
  parts.add_bos = v.add_bos.value_or(pre->add_bos);
  return {};
}

// Sets the score of user-defined tokens to 0, as in SentencePiece; GGUF files have other scores for them.
Result<void> merge_by_score(const GgufVocab& v, Bpe& bpe) {
  if (v.scores.size() != v.tokens.size())
    return make_error(ErrorKind::invalid, "tokenizer.ggml.scores has {} entries for {} tokens",
                      v.scores.size(), v.tokens.size());
  std::vector<float> scores = v.scores;
  for (size_t id = 0; id < v.types.size(); ++id) {
    if (v.types[id] == kUserDefined) scores[id] = 0;
  }
  bpe.merge_by_score(scores, Bpe::Ties::derived_merges);
  return {};
}

Result<void> build_sentencepiece(const GgufVocab& v, TokenizerParts& parts) {
  Bpe::Options options;
  options.unk = v.unk;
  options.fuse_unk = true;
  options.byte_fallback = true;
  Bpe bpe(parts.vocab.get(), options);
  std::vector<bool> blocked = control_ids(parts.added);
  blocked.resize(v.tokens.size());
  for (size_t id = 0; id < v.types.size(); ++id) {
    if (v.types[id] == kUnknown || v.types[id] == kUnused || v.types[id] == kByte) blocked[id] = true;
  }
  bpe.set_blocked(std::move(blocked));
  const bool listed = has_listed_merges(v);
  TRY_VOID(listed ? add_merges(v, bpe) : merge_by_score(v, bpe));
  parts.model = std::move(bpe);

  const bool prefix = v.add_space_prefix.value_or(!listed);
  std::vector<NormalizerStep> normal;
  if (prefix) {
    NormalizerStep step;
    step.kind = NormalizerStep::Kind::prepend;
    step.content = kMetaspace;
    normal.push_back(std::move(step));
  }
  NormalizerStep spaces;
  spaces.kind = NormalizerStep::Kind::replace;
  spaces.literal = " ";
  spaces.content = kMetaspace;
  normal.push_back(std::move(spaces));
  parts.normalizer = Normalizer(std::move(normal));

  using Kind = DecoderStep::Kind;
  std::vector<DecoderStep> decode(3);
  decode[0].kind = Kind::replace;
  TRY(Regex metaspace, Regex::literal(kMetaspace));
  decode[0].pattern.push_back(std::move(metaspace));
  decode[0].content = " ";
  decode[1].kind = Kind::byte_fallback;
  decode[2].kind = Kind::fuse;
  if (prefix) {
    DecoderStep strip;
    strip.kind = Kind::strip;
    strip.content = " ";
    strip.start = 1;
    decode.push_back(std::move(strip));
  }
  parts.decoder = Decoder(std::move(decode));
  parts.add_bos = v.add_bos.value_or(true);
  return {};
}

}  // namespace

Result<const GgufPreTokenizer*> gguf_pre_tokenizer(const GgufVocab& v) {
  if (!v.pre.empty() && v.pre != "default") return find_gguf_pre_tokenizer(v.pre);
  for (const PlainFamily& family : kPlainFamilies)
    if (family.architecture == v.architecture &&
        std::ranges::find(v.tokens, family.token) != std::end(v.tokens))
      return find_gguf_pre_tokenizer(family.pre);
  return make_error(
      ErrorKind::unsupported,
      "tokenizer.ggml.pre is missing, and the vocabulary of this {} model does not show how a text "
      "is cut into words: use a newer GGUF file, or write the name with llama.cpp's "
      "gguf-new-metadata --pre-tokenizer NAME",
      v.architecture.empty() ? "unknown" : shown(v.architecture));
}

bool is_sentencepiece(const GgufVocab& v) {
  return v.model == "llama" || has_listed_merges(v);
}

bool has_listed_merges(const GgufVocab& v) {
  return v.model == "gemma4";
}

int gguf_token_type(const GgufVocab& v, size_t id) {
  if (v.types.empty()) return 1;
  if (v.model != "gemma4" || v.types[id] != kUserDefined) return v.types[id];
  constexpr std::string_view kMarks[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                         "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                         "<|\"|>"};
  return std::ranges::find(kMarks, v.tokens[id]) == std::end(kMarks) ? kUserDefined : kControl;
}

// Converters write user-defined tokens of SentencePiece that are runs of "▁" as runs of spaces. This undoes
// it.
std::string gguf_token_text(const GgufVocab& v, size_t id) {
  const std::string& text = v.tokens[id];
  const bool user_defined = !v.types.empty() && v.types[id] == kUserDefined;
  if (v.model != "llama" || !user_defined || text.find_first_not_of(' ') != std::string::npos) return text;
  std::string runs;
  for (size_t i = 0; i < text.size(); ++i) runs += kMetaspace;
  return runs;
}

Result<std::pair<std::string_view, std::string_view>> split_gguf_merge(std::string_view merge, size_t rank) {
  // The left part is never empty, so search for the space after its first character.
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 >= merge.size())
    return make_error(ErrorKind::invalid, "tokenizer.ggml.merges: entry {} is not two tokens: '{}'", rank,
                      shown(merge));
  return std::pair{merge.substr(0, space), merge.substr(space + 1)};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocab& vocab) {
  TRY_VOID(check(vocab));
  TokenizerParts parts;
  TRY_VOID(fill_vocab(vocab, parts));
  if (vocab.model == "gpt2") {
    TRY_VOID(build_byte_level(vocab, parts));
  } else if (is_sentencepiece(vocab)) {
    TRY_VOID(build_sentencepiece(vocab, parts));
  } else {
    return make_error(ErrorKind::unsupported,
                      "tokenizer.ggml.model '{}' is not supported (gpt2, llama and gemma4 are)",
                      shown(vocab.model));
  }
  return make_tokenizer(std::move(parts));
}

}  // namespace anabranch
