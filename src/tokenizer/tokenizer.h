// Text <-> token ids: byte-level BPE (GPT-2, Llama 3, Qwen), SentencePiece-style BPE with byte fallback
// (Llama 2, Mistral, Gemma) and Unigram, from a Hugging Face tokenizer.json, the vocabularies of other tools
// or GGUF metadata.
//
// Immutable after loading; safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prompt_piece.h"
#include "base/result.h"

namespace anabranch {

class EncodeLimit;
class SegmentMemo;

// The metadata of a GGUF file's tokenizer (tokenizer.ggml.*), as plain data.
struct GgufVocab {
  std::string model;         // "gpt2", "llama"
  std::string pre;           // "smollm", "qwen35", "llama-bpe", ...; "" or "default": the file does not say
  std::string architecture;  // of the model: "llama", "qwen2", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;
  int bos = -1, eos = -1, unk = -1, pad = -1;
  std::optional<bool> add_bos, add_space_prefix;
};

class Tokenizer {
 public:
  // tokenizer_json: path of tokenizer.json; tokenizer_config.json beside it is read for bos/eos/add_bos if
  // there.
  static Result<std::shared_ptr<const Tokenizer>> from_file(const std::string& tokenizer_json);
  // The tokenizer in a model's directory: tokenizer.json, or else tekken.json (Mistral), a file of
  // tiktoken (Kimi, Hunyuan), tokenizer.model (SentencePiece), or vocab.json with merges.txt (GPT-2, Qwen2),
  // with the small files beside them. Errors:
  // not_found (no such file), and those of the readers, which name the file.
  static Result<std::shared_ptr<const Tokenizer>> from_directory(const std::string& directory);
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufVocab& vocab);
  virtual ~Tokenizer() = default;

  // Token ids of `text`. With parse_special, added tokens that stand in it (special or not) are recognised;
  // otherwise only non-special added tokens are, and special ones are ordinary text. No BOS is added. Invalid
  // UTF-8 is replaced by U+FFFD first. limit: may end it early; the tokens are then incomplete.
  virtual std::vector<int> encode(std::string_view text, bool parse_special,
                                  EncodeLimit* limit = nullptr) const = 0;
  // Pieces of one text. Equal to encode(joined, true) when every piece is trusted; an untrusted piece never
  // produces special tokens, or the family's control markers such as <think>, whatever their `special` flag.
  // Ordinary tokens may span a border between pieces, as they would in the joined text.
  //
  // memo: remembers the tokens of long texts between added tokens; entries under another salt are not used.
  // The result is the same without it.
  virtual std::vector<int> encode(std::span<const PromptPiece> pieces, SegmentMemo* memo = nullptr,
                                  std::string_view salt = {}, EncodeLimit* limit = nullptr) const = 0;

  // The bytes a token stands for in the output; may be part of a code point. Special tokens give their
  // content.
  virtual std::string_view token_bytes(int id) const = 0;
  virtual bool is_special(int id) const = 0;
  // Id of the token with exactly this content ("<|im_end|>"), if there is one.
  virtual std::optional<int> find(std::string_view content) const = 0;
  virtual int vocab_size() const = 0;
  virtual std::optional<int> bos() const = 0;
  virtual std::optional<int> eos() const = 0;
  // Whether a plain prompt starts with BOS (chat templates write their own).
  virtual bool add_bos() const = 0;

  // Spaces that decode() drops at the start of a text (SentencePiece's own); INT_MAX: all of the first
  // token's.
  virtual int leading_spaces_dropped() const { return 0; }
  // The text of all tokens; skip_special leaves out special tokens. Invalid UTF-8 becomes U+FFFD.
  virtual std::string decode(std::span<const int> ids, bool skip_special) const = 0;
};

// BOS, if a plain text starts with it.
std::optional<int> leading_bos(const Tokenizer& tokenizer);
// Inserts BOS before `ids` if a plain text starts with it and `ids` do not.
void add_leading_bos(const Tokenizer& tokenizer, std::vector<int>& ids);

// Turns a stream of tokens into text that is valid UTF-8 at every step: bytes of an unfinished code point are
// held back until it is complete (or replaced by U+FFFD when it cannot become valid).
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special), to_drop_(tokenizer.leading_spaces_dropped()) {}
  std::string push(int id);
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  int to_drop_;  // spaces at the beginning of the text, of which SentencePiece drops one or all
  std::string held_;
};

}  // namespace anabranch
