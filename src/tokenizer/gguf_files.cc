#include "tokenizer/gguf_files.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tokenizer/gguf_vocab.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr size_t kMaxMerges = 8u << 20;
constexpr size_t kMaxMergeBytes = 128u << 20;  // half of the reader's limit

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out += '"';
}

using Ids = std::unordered_map<std::string_view, size_t>;

// Token texts, and the first id of each.
struct Texts {
  std::vector<std::string> by_id;
  Ids ids;
};

Result<Texts> read_texts(const GgufVocab& v) {
  Texts out;
  out.by_id.reserve(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    out.by_id.push_back(gguf_token_text(v, id));
    if (!is_valid_utf8(out.by_id.back()))
      return make_error(ErrorKind::invalid, "tokenizer.ggml.tokens: token {} is not UTF-8", id);
  }
  for (size_t id = 0; id < v.tokens.size(); ++id) out.ids.emplace(out.by_id[id], id);
  return out;
}

std::string added_tokens(const GgufVocab& v, const Texts& texts) {
  std::string out;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const int type = gguf_token_type(v, id);
    const std::string& text = texts.by_id[id];
    if ((type != kControl && type != kUserDefined) || text.empty() || texts.ids.at(text) != id) continue;
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": "
        "false, "
        "\"normalized\": false, \"special\": {}}}",
        out.empty() ? "" : ",", id, json_string(text), type == kControl);
  }
  return out;
}

std::string vocab_text(const Texts& texts) {
  std::string out;
  for (size_t id = 0; id < texts.by_id.size(); ++id) {
    if (texts.ids.at(texts.by_id[id]) != id) continue;
    out += fmt::format("{}\n      {}: {}", out.empty() ? "" : ",", json_string(texts.by_id[id]), id);
  }
  return out;
}

void append_merge(std::string& out, std::string_view left, std::string_view right) {
  out += fmt::format("{}\n      [{}, {}]", out.empty() ? "" : ",", json_string(left), json_string(right));
}

Result<std::string> listed_merges(const GgufVocab& v) {
  std::string out;
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    TRY(const auto pair, split_gguf_merge(v.merges[rank], rank));
    append_merge(out, pair.first, pair.second);
  }
  return out;
}

struct ScoredMerge {
  float score;
  uint32_t left_chars, right_chars;
  size_t id, cut;  // the token, and the bytes of its left part
};

// Every way to split a token into two tokens. Byte tokens and the unknown token are not used as parts,
// because they stand for other text than their own.
Result<std::vector<ScoredMerge>> cut_tokens(const GgufVocab& v, const Texts& texts) {
  std::vector<ScoredMerge> out;
  size_t bytes = 0;
  const auto is_part = [&](std::string_view text) {
    const auto at = texts.ids.find(text);
    if (at == texts.ids.end()) return false;
    const int type = gguf_token_type(v, at->second);
    return type != kByte && type != kUnknown;
  };
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const std::string_view text = texts.by_id[id];
    const int type = gguf_token_type(v, id);
    if (type == kUnknown || type == kUnused || type == kByte || texts.ids.at(text) != id) continue;
    const auto chars = static_cast<uint32_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    uint32_t left = 0;
    for (size_t cut = 0; cut < text.size(); cut += decode_utf8(text, cut).length, ++left) {
      if (cut == 0 || !is_part(text.substr(0, cut)) || !is_part(text.substr(cut))) continue;
      out.push_back({type == kUserDefined ? 0 : v.scores[id], left, chars - left, id, cut});
      bytes += text.size();
    }
    if (out.size() > kMaxMerges || bytes > kMaxMergeBytes)
      return make_error(ErrorKind::exhausted,
                        "the vocabulary has more than {} merges or {} MB of them; use the model's "
                        "tokenizer.json instead",
                        kMaxMerges, kMaxMergeBytes >> 20);
  }
  return out;
}

// The merges in the order of Bpe::merge_by_score.
Result<std::string> scored_merges(const GgufVocab& v, const Texts& texts) {
  TRY(auto cuts, cut_tokens(v, texts));
  std::sort(cuts.begin(), cuts.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_chars != b.left_chars) return a.left_chars > b.left_chars;
    if (a.right_chars != b.right_chars) return a.right_chars > b.right_chars;
    return a.id < b.id;
  });
  std::string out;
  for (const ScoredMerge& cut : cuts) {
    const std::string_view text = texts.by_id[cut.id];
    append_merge(out, text.substr(0, cut.cut), text.substr(cut.cut));
  }
  return out;
}

// The parts of tokenizer.json that differ between byte-level and SentencePiece vocabularies.
struct Pipeline {
  std::string normalizer = "null", pre_tokenizer = "null", decoder;
  std::string options;  // of the model
  std::string merges;
  bool add_bos = false;
};

Result<Pipeline> byte_level(const GgufVocab& v) {
  TRY(const auto pre, gguf_pre_tokenizer(v));
  Pipeline out;
  if (pre->nfc) out.normalizer = R"({"type": "NFC"})";
  std::string steps;
  for (const std::string_view pattern : pre->patterns) {
    if (pattern.empty()) continue;
    steps += fmt::format(
        "{{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", \"invert\": "
        "false}},\n    ",
        json_string(pattern));
  }
  out.pre_tokenizer = fmt::format(
      "{{\"type\": \"Sequence\", \"pretokenizers\": [\n    {}{{\"type\": \"ByteLevel\", "
      "\"add_prefix_space\": "
      "{}, \"trim_offsets\": false, \"use_regex\": false}}]}}",
      steps, v.add_space_prefix.value_or(false));
  out.decoder =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false})";
  out.options = fmt::format(
      "\"unk_token\": null, \"fuse_unk\": false, \"byte_fallback\": false, "
      "\"ignore_merges\": {}",
      pre->ignore_merges);
  TRY(out.merges, listed_merges(v));
  out.add_bos = v.add_bos.value_or(pre->add_bos);
  return out;
}

Result<Pipeline> sentencepiece(const GgufVocab& v, const Texts& texts) {
  const bool prefix = v.add_space_prefix.value_or(!has_listed_merges(v));
  Pipeline out;
  out.normalizer = fmt::format(
      "{{\"type\": \"Sequence\", \"normalizers\": [{}{{\"type\": \"Replace\", \"pattern\": {{\"String\": \" "
      "\"}}, \"content\": \"{}\"}}]}}",
      prefix ? fmt::format("{{\"type\": \"Prepend\", \"prepend\": \"{}\"}}, ", kMetaspace) : "", kMetaspace);
  out.decoder = fmt::format(
      "{{\"type\": \"Sequence\", \"decoders\": [{{\"type\": \"Replace\", \"pattern\": {{\"String\": "
      "\"{}\"}}, "
      "\"content\": \" \"}}, {{\"type\": \"ByteFallback\"}}, {{\"type\": \"Fuse\"}}{}]}}",
      kMetaspace, prefix ? R"(, {"type": "Strip", "content": " ", "start": 1, "stop": 0})" : "");
  out.options = fmt::format(
      "\"unk_token\": {}, \"fuse_unk\": true, \"byte_fallback\": true, "
      "\"ignore_merges\": false",
      v.unk >= 0 ? json_string(texts.by_id[v.unk]) : "null");
  TRY(out.merges, has_listed_merges(v) ? listed_merges(v) : scored_merges(v, texts));
  out.add_bos = v.add_bos.value_or(true);
  return out;
}

// The post-processor, in which Hugging Face's tokenizers add BOS.
std::string post_processor(const std::string& bos, int id) {
  return fmt::format(
      "{{\"type\": \"TemplateProcessing\",\n    \"single\": [{{\"SpecialToken\": {{\"id\": {0}, \"type_id\": "
      "0}}}}, {{\"Sequence\": {{\"id\": \"A\", \"type_id\": 0}}}}],\n    \"pair\": [{{\"SpecialToken\": "
      "{{\"id\": {0}, \"type_id\": 0}}}}, {{\"Sequence\": {{\"id\": \"A\", \"type_id\": 0}}}}, "
      "{{\"SpecialToken\": {{\"id\": {0}, \"type_id\": 1}}}}, {{\"Sequence\": {{\"id\": \"B\", \"type_id\": "
      "1}}}}],\n    \"special_tokens\": {{{0}: {{\"id\": {0}, \"ids\": [{1}], \"tokens\": [{0}]}}}}}}",
      json_string(bos), id);
}

std::string config_text(const GgufVocab& v, const Texts& texts, bool add_bos) {
  std::string out = fmt::format("{{\n  \"add_bos_token\": {},\n", add_bos);
  for (const auto& [name, id] : {std::pair{"bos", v.bos}, {"eos", v.eos}, {"unk", v.unk}, {"pad", v.pad}})
    if (id >= 0) out += fmt::format("  \"{}_token\": {},\n", name, json_string(texts.by_id[id]));
  return out +
         "  \"clean_up_tokenization_spaces\": false,\n"
         "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
}

}  // namespace

Result<TokenizerFiles> tokenizer_files(const GgufVocab& v) {
  TRY_VOID(Tokenizer::from_gguf(v));  // checks everything
  TRY(const Texts texts, read_texts(v));
  TRY(const Pipeline pipeline, is_sentencepiece(v) ? sentencepiece(v, texts) : byte_level(v));
  const bool add_bos = pipeline.add_bos && v.bos >= 0;
  TokenizerFiles out;
  out.config = config_text(v, texts, add_bos);
  out.tokenizer = fmt::format(
      "{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": "
      "[{}],\n"
      "  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n"
      "  \"model\": {{\n    \"type\": \"BPE\", \"dropout\": null, \"continuing_subword_prefix\": null, "
      "\"end_of_word_suffix\": null, {},\n    \"vocab\": {{{}\n    }},\n    \"merges\": [{}\n    ]\n  "
      "}}\n}}\n",
      added_tokens(v, texts), pipeline.normalizer, pipeline.pre_tokenizer,
      add_bos ? post_processor(texts.by_id[v.bos], v.bos) : "null", pipeline.decoder, pipeline.options,
      vocab_text(texts), pipeline.merges);
  return out;
}

}  // namespace anabranch
