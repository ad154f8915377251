// Tokenizers from Mistral's tekken.json: BPE by rank, as in tiktoken. Special tokens have the first ids.
#include <simdjson.h>

#include <array>
#include <unordered_set>
#include <utility>

#include "base/base64.h"
#include "base/outside_text.h"
#include "tokenizer/bpe_bytes.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr size_t kMaxPattern = 64u << 10;
constexpr int64_t kMaxSpecial = 100'000;

// Files of version 7 and older may leave the special tokens out.
constexpr std::array<std::string_view, 20> kOldSpecial = {"<unk>",
                                                          "<s>",
                                                          "</s>",
                                                          "[INST]",
                                                          "[/INST]",
                                                          "[AVAILABLE_TOOLS]",
                                                          "[/AVAILABLE_TOOLS]",
                                                          "[TOOL_RESULTS]",
                                                          "[/TOOL_RESULTS]",
                                                          "[TOOL_CALLS]",
                                                          "[IMG]",
                                                          "<pad>",
                                                          "[IMG_BREAK]",
                                                          "[IMG_END]",
                                                          "[PREFIX]",
                                                          "[MIDDLE]",
                                                          "[SUFFIX]",
                                                          "[SYSTEM_PROMPT]",
                                                          "[/SYSTEM_PROMPT]",
                                                          "[TOOL_CONTENT]"};

Error wrong(std::string_view where, std::string_view expected) {
  return make_error(ErrorKind::invalid, "{} should be {}", where, expected);
}

struct Config {
  std::string_view pattern;
  int64_t vocab = 0, special = 0;  // of all tokens, and of the special ones among them
};

Result<Config> read_config(const object& root) {
  object config;
  if (root.at_key("config").get(config) != simdjson::SUCCESS) return wrong("config", "an object");
  Config out;
  if (config.at_key("pattern").get(out.pattern) != simdjson::SUCCESS || out.pattern.empty() ||
      out.pattern.size() > kMaxPattern)
    return wrong("config.pattern", fmt::format("a text of 1 to {} bytes", kMaxPattern));
  if (config.at_key("default_vocab_size").get(out.vocab) != simdjson::SUCCESS || out.vocab < 1 ||
      out.vocab > Vocab::kMaxId)
    return wrong("config.default_vocab_size", fmt::format("from 1 to {}", Vocab::kMaxId));
  if (config.at_key("default_num_special_tokens").get(out.special) != simdjson::SUCCESS || out.special < 0 ||
      out.special > std::min(kMaxSpecial, out.vocab))
    return wrong("config.default_num_special_tokens",
                 fmt::format("from 0 to {}", std::min(kMaxSpecial, out.vocab)));
  return out;
}

// The contents of the special tokens by id; those that the file does not name are <SPECIAL_i>.
Result<std::vector<std::string>> read_special(const object& root, const Config& config) {
  std::vector<std::string> out(static_cast<size_t>(config.special));
  const auto put = [&](int64_t rank, std::string_view text) -> Result<void> {
    if (rank < 0 || rank >= config.special || text.empty() || text.size() > kMaxTokenBytes)
      return make_error(ErrorKind::invalid, "special token '{}' of rank {} is not among {} with a text",
                        shown(text), rank, config.special);
    std::string& content = out[static_cast<size_t>(rank)];
    if (!content.empty())
      return make_error(ErrorKind::invalid, "special tokens '{}' and '{}' have the same rank {}",
                        shown(content), shown(text), rank);
    content = text;
    return {};
  };
  element list;
  if (root.at_key("special_tokens").get(list) != simdjson::SUCCESS || list.is_null()) {
    for (size_t rank = 0; rank < kOldSpecial.size(); ++rank)
      TRY_VOID(put(static_cast<int64_t>(rank), kOldSpecial[rank]));
  } else {
    array tokens;
    if (list.get(tokens) != simdjson::SUCCESS) return wrong("special_tokens", "a list");
    for (const element token : tokens) {
      int64_t rank = 0;
      std::string_view text;
      if (token["rank"].get(rank) != simdjson::SUCCESS || token["token_str"].get(text) != simdjson::SUCCESS)
        return wrong("each of special_tokens", "an object with 'rank' and 'token_str'");
      TRY_VOID(put(rank, text));
    }
  }
  std::unordered_set<std::string_view> seen;
  for (size_t rank = 0; rank < out.size(); ++rank) {
    if (out[rank].empty()) out[rank] = fmt::format("<SPECIAL_{}>", rank);
    if (!seen.insert(out[rank]).second)
      return make_error(ErrorKind::invalid, "special token '{}' is there twice", shown(out[rank]));
  }
  return out;
}

// The ordinary tokens, in GPT-2's characters for bytes. Their ids follow those of the special tokens.
Result<void> read_vocab(const object& root, const Config& config, Vocab& vocab) {
  array tokens;
  if (root.at_key("vocab").get(tokens) != simdjson::SUCCESS) return wrong("vocab", "a list");
  const int64_t count = config.vocab - config.special;
  vocab.reserve(static_cast<size_t>(count));
  int64_t rank = 0;
  std::string text;
  for (const element token : tokens) {
    if (rank == count) break;  // the file may have more than the model
    int64_t stated = 0;
    std::string_view encoded;
    if (token["rank"].get(stated) != simdjson::SUCCESS || stated != rank ||
        token["token_bytes"].get(encoded) != simdjson::SUCCESS || encoded.size() > 2 * kMaxTokenBytes)
      return make_error(ErrorKind::invalid,
                        "vocab[{}] should have this rank and at most {} 'token_bytes' in base64", rank,
                        kMaxTokenBytes);
    const auto bytes = from_base64(encoded);
    if (!bytes || bytes->empty()) return wrong(fmt::format("vocab[{}].token_bytes", rank), "in base64");
    if (rank < 256 && (bytes->size() != 1 || static_cast<uint8_t>((*bytes)[0]) != rank))
      return make_error(ErrorKind::invalid, "vocab[{}] should be the byte of that value", rank);
    text.clear();
    for (const char byte : *bytes) text += byte_to_char(static_cast<uint8_t>(byte));
    if (vocab.lookup(text) >= 0) return make_error(ErrorKind::invalid, "vocab[{}] is there twice", rank);
    vocab.add(text, static_cast<int>(config.special + rank++));
  }
  if (rank < count || rank < 256)
    return make_error(ErrorKind::invalid, "vocab has {} tokens; {} are needed", rank,
                      std::max<int64_t>(count, 256));
  return {};
}

}  // namespace

Result<TokenizerParts> read_tekken_tokenizer(std::string_view json) {
  simdjson::dom::parser parser;
  element e;
  object root;
  if (const auto error = parser.parse(json.data(), json.size()).get(e))
    return make_error(ErrorKind::invalid, "not JSON: {}", simdjson::error_message(error));
  if (e.get(root) != simdjson::SUCCESS) return wrong("the file", "an object");
  TRY(const Config config, read_config(root));
  TRY(const auto special, read_special(root, config));
  TokenizerParts parts;
  TRY_VOID(read_vocab(root, config, *parts.vocab));
  for (size_t id = 0; id < special.size(); ++id) {
    AddedToken token;
    token.id = static_cast<int>(id);
    token.content = special[id];
    token.special = true;
    parts.added.push_back(std::move(token));
  }
  Bpe::Options options;
  options.ignore_merges = true;
  Bpe bpe(parts.vocab.get(), options);
  bpe.merge_by_id();
  parts.model = std::move(bpe);
  TRY_VOID(set_byte_level({&config.pattern, 1}, false, false, parts));
  for (const std::string& content : special) {
    if (content == "<s>") parts.bos = content;
    if (content == "</s>") parts.eos = content;
  }
  parts.add_bos = true;
  return parts;
}

}  // namespace anabranch
