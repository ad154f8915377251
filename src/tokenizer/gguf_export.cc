#include "tokenizer/gguf_export.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/tokenizer_impl.h"

namespace anabranch {
namespace {

// Text on which the pre-tokenizers differ: contractions in either case, digits, marks, punctuation before
// letters and lines, capitals within words, scripts, and white space.
constexpr std::string_view kProbe =
    "I'm HE'LL they've IT'S  don'T 1 12 123 1234 12345678 3.14 \xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4 caf\xC3\xA9 "
    "e\xCC\x81 na\xC3\xAFve\n\n\n \n  \t\tx\r\n\r\nHelloWorld helloWORLD McDonald's camelCase3x "
    "foo_bar->baz(); //a/b "
    "http://x.y/z?q=1&r=[2] #tag @me .word ,word !word $5 %d \"quoted\" 'single' <br/>\n/* c */ \xE2\x80\x94 "
    "\xE2\x82\xAC"
    "20 \xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C"
    "abc\xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF "
    "\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA\xE0\xB8\x94\xE0\xB8\xB5 "
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 "
    "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD end  7   ";

std::vector<std::string> words_of(const TokenizerParts& parts, std::string_view text) {
  const auto normal = parts.normalizer.apply({std::string(text), ""});
  const auto words = parts.pre_tokenizer.apply(normal.text, true);
  std::vector<std::string> out;
  for (const auto& span : words.ranges) out.push_back(words.text.substr(span.begin, span.end - span.begin));
  return out;
}

// Tokens by id. Ids between them are unused, as llama.cpp's converter fills them.
void add_tokens(const TokenizerParts& parts, const Bpe& bpe, GgufVocab& v) {
  int size = parts.vocab->size();
  for (const AddedToken& token : parts.added) size = std::max(size, token.id + 1);
  for (int id = 0; id < size; ++id) {
    const bool there = parts.vocab->has(id);
    v.tokens.push_back(there ? std::string(parts.vocab->text(id)) : fmt::format("[PAD{}]", id));
    v.types.push_back(there ? 1 : kUnused);
  }
  if (v.model == "llama")
    for (int byte = 0; byte < 256; ++byte)
      if (const int id = parts.vocab->lookup(fmt::format("<0x{:02X}>", byte)); id >= 0) v.types[id] = kByte;
  for (const AddedToken& token : parts.added) {
    v.tokens[token.id] = token.content;
    v.types[token.id] = token.special ? kControl : kUserDefined;
  }
  v.unk = bpe.options().unk;
  if (v.unk >= 0) v.types[v.unk] = kUnknown;
}

int id_of(const GgufVocab& v, const std::string& content) {
  const auto found = content.empty() ? v.tokens.end() : std::ranges::find(v.tokens, content);
  return found == v.tokens.end() ? -1 : static_cast<int>(found - v.tokens.begin());
}

Result<void> add_byte_level(const TokenizerParts& parts, const Bpe& bpe, GgufVocab& v) {
  if (!bpe.score_ranks().empty())
    return make_error(ErrorKind::unsupported,
                      "its vocabulary has no list of merges: save the tokenizer with Transformers to get a "
                      "tokenizer.json");
  const auto words = words_of(parts, kProbe);
  v.add_space_prefix = !words_of(parts, "a").empty() && words_of(parts, "a").front().size() > 1;
  for (const GgufPreTokenizer& pre : gguf_pre_tokenizers()) {
    TokenizerParts other;
    TRY_VOID(set_byte_level(pre.patterns, pre.nfc, *v.add_space_prefix, other));
    if (pre.ignore_merges != bpe.options().ignore_merges || words_of(other, kProbe) != words) continue;
    v.pre = pre.name;
    break;
  }
  if (v.pre.empty())
    return make_error(ErrorKind::unsupported,
                      "GGUF has no name for how its tokenizer cuts a text into words");
  for (const auto& [left, right] : bpe.merges())
    v.merges.push_back(fmt::format("{} {}", parts.vocab->text(left), parts.vocab->text(right)));
  return {};
}

// SentencePiece merges by score: the earlier a token's merge, the better its score. In user-defined tokens,
// its sign for a space is written as a space.
void add_sentencepiece(const TokenizerParts& parts, const Bpe& bpe, GgufVocab& v) {
  v.pre = "default";
  v.add_space_prefix = parts.normalizer.apply({"a", ""}).text != "a" ||
                       (words_of(parts, "a").size() == 1 && words_of(parts, "a").front() != "a");
  const auto merges = bpe.merges();
  v.scores.assign(v.tokens.size(), -static_cast<float>(merges.size() + 1));
  for (size_t rank = merges.size(); rank-- > 0;) {
    const auto& [left, right] = merges[rank];
    const int id = parts.vocab->lookup(std::string(parts.vocab->text(left)).append(parts.vocab->text(right)));
    v.scores[static_cast<size_t>(id)] = -static_cast<float>(rank);
  }
  for (size_t id = 0; id < bpe.score_ranks().size(); ++id)
    v.scores[id] = -static_cast<float>(bpe.score_ranks()[id]);
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    std::string& text = v.tokens[id];
    if (v.types[id] != kUserDefined) continue;
    for (size_t at; (at = text.find(kMetaspace)) != std::string::npos;)
      text.replace(at, kMetaspace.size(), " ");
  }
}

Result<void> check_same(const GgufVocab& v, TokenizerParts parts) {
  TRY(const auto written, Tokenizer::from_gguf(v));
  const auto original = make_tokenizer(std::move(parts));
  if (written->encode(kProbe, true) == original->encode(kProbe, true)) return {};
  return make_error(ErrorKind::unsupported, "its tokenizer would give other tokens as GGUF metadata");
}

Result<GgufVocab> export_parts(TokenizerParts parts) {
  const Bpe* bpe = std::get_if<Bpe>(&parts.model);
  if (!bpe) return make_error(ErrorKind::unsupported, "a Unigram vocabulary has no place in a GGUF file");
  GgufVocab v;
  v.model = parts.pre_tokenizer.writes_bytes() ? "gpt2" : "llama";
  add_tokens(parts, *bpe, v);
  if (v.model == "gpt2")
    TRY_VOID(add_byte_level(parts, *bpe, v));
  else
    add_sentencepiece(parts, *bpe, v);
  v.bos = id_of(v, parts.bos);
  v.eos = id_of(v, parts.eos);
  v.add_bos = parts.add_bos;
  TRY_VOID(check_same(v, std::move(parts)));
  return v;
}

}  // namespace

Result<GgufVocab> export_gguf_vocab(const std::string& directory) {
  TRY(auto parts, read_tokenizer_directory(directory));
  auto vocab = export_parts(std::move(parts));
  if (!vocab) return make_error(vocab.error().kind, "{}: {}", directory, vocab.error().message);
  return vocab;
}

}  // namespace anabranch
