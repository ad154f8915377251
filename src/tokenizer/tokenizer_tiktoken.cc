// Tokenizers from tiktoken's own files: a line for each token, its bytes in base64 and its rank, which is its
// id. A word that is a token stays whole; otherwise the pair whose union has the lowest rank is merged first.
#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "base/base64.h"
#include "base/outside_text.h"
#include "tokenizer/bpe_bytes.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

// What the code beside a file says: the class of its tokenizers, how they cut a text (as GGUF names it), and
// the special tokens behind the last rank: some with names, then `others` with a prefix and a number, which
// is their id or counts them.
struct Model {
  std::string_view tokenizer_class, pre;
  std::vector<std::string_view> named;
  std::string_view prefix;
  bool numbered_by_id;
  int others;
};
constexpr std::string_view kFiles[] = {"tiktoken.model", "hy.tiktoken"};

Model model_of(std::string_view name) {
  if (name == kFiles[0]) return {"TikTokenTokenizer", "kimi-k2", {}, "reserved_token_", true, 256};  // Kimi
  return {"HYTokenizer", "hunyuan", {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"},
          "extra_",      false,     205};
}

// Those whose ids the settings do not give to others.
std::vector<AddedToken> special_tokens(const Model& model, int first, const TokenizerSettings& settings) {
  std::unordered_set<int> ids;
  std::unordered_set<std::string_view> contents;
  for (const AddedToken& token : settings.added) ids.insert(token.id), contents.insert(token.content);
  const int named = static_cast<int>(model.named.size());
  std::vector<AddedToken> out;
  for (int i = 0; i < named + model.others; i++) {
    AddedToken token;
    token.id = first + i;
    token.special = true;
    token.content = i < named
                        ? std::string(model.named[static_cast<size_t>(i)])
                        : fmt::format("<|{}{}|>", model.prefix, model.numbered_by_id ? token.id : i - named);
    if (!ids.contains(token.id) && !contents.contains(token.content)) out.push_back(std::move(token));
  }
  return out;
}

Result<void> add_line(std::string_view line, int number, Vocab& vocab) {
  while (line.ends_with(' ')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  int rank = -1;
  if (space != line.npos) {
    const auto end = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
    if (end.ec != std::errc() || end.ptr != line.data() + line.size()) rank = -1;
  }
  const bool fits = rank >= 0 && rank <= Vocab::kMaxId && space <= 2 * kMaxTokenBytes;
  const auto bytes = from_base64(fits ? line.substr(0, space) : std::string_view());
  if (!bytes || bytes->empty() || bytes->size() > kMaxTokenBytes)
    return make_error(ErrorKind::invalid, "line {} should be 1 to {} bytes in base64 and a rank up to {}",
                      number, kMaxTokenBytes, Vocab::kMaxId);
  std::string text;
  for (const char byte : *bytes) text += byte_to_char(static_cast<uint8_t>(byte));
  if (vocab.lookup(text) >= 0 || !vocab.add(text, rank))
    return make_error(ErrorKind::invalid, "line {} has a token or a rank that was there before", number);
  return {};
}

Result<void> read_lines(std::string_view file, Vocab& vocab) {
  for (int number = 1; !file.empty(); number++) {
    const size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) TRY_VOID(add_line(line, number, vocab));
  }
  for (int byte = 0; byte < 256; byte++)
    if (vocab.lookup(byte_to_char(static_cast<uint8_t>(byte))) < 0)
      return make_error(ErrorKind::invalid, "the byte {} is no token", byte);
  return {};
}

}  // namespace

std::span<const std::string_view> tiktoken_files() {
  return kFiles;
}

Result<TokenizerParts> read_tiktoken_tokenizer(std::string_view name, std::string_view text,
                                               const TokenizerSettings& settings) {
  const Model model = model_of(name);
  if (!settings.tokenizer_class.empty() && settings.tokenizer_class != model.tokenizer_class)
    return make_error(ErrorKind::unsupported,
                      "how '{}' cuts a text into words is not known ({} is): a tokenizer.json of the model "
                      "can be read",
                      shown(settings.tokenizer_class), model.tokenizer_class);
  TRY(const auto cut, find_gguf_pre_tokenizer(model.pre));
  TokenizerParts parts;
  TRY_VOID(read_lines(text, *parts.vocab));
  parts.added = special_tokens(model, parts.vocab->size(), settings);
  TRY_VOID(apply_tokenizer_settings(settings, parts));
  Bpe::Options options;
  options.ignore_merges = true;
  Bpe bpe(parts.vocab.get(), options);
  bpe.set_blocked(control_ids(parts.added));
  bpe.merge_by_id();
  parts.model = std::move(bpe);
  TRY_VOID(set_byte_level(cut->patterns, cut->nfc, settings.add_prefix_space, parts));
  parts.add_bos = settings.add_bos.value_or(false);
  return parts;
}

}  // namespace anabranch
