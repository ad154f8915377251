// Tokenizers from tiktoken's own files: a line for each token, its bytes in base64 and its rank, which is its
// id. A word that is a token stays whole; otherwise the pair whose union has the lowest rank is merged first.
#include <charconv>
#include <utility>

#include "base/base64.h"
#include "tokenizer/bpe_bytes.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

Result<void> add_line(std::string_view line, int number, Vocab& vocab) {
  const size_t space = line.find(' ');
  int rank = -1;
  if (space != line.npos) {
    const auto end = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
    if (end.ec != std::errc() || end.ptr != line.data() + line.size()) rank = -1;
  }
  if (rank < 0 || rank > Vocab::kMaxId || space > 2 * kMaxTokenBytes)
    return make_error(ErrorKind::invalid, "line {} should be at most {} bytes in base64 and a rank up to {}",
                      number, kMaxTokenBytes, Vocab::kMaxId);
  const auto bytes = from_base64(line.substr(0, space));
  if (!bytes || bytes->empty()) return make_error(ErrorKind::invalid, "line {} is not base64", number);
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

Result<TokenizerParts> read_tiktoken_tokenizer(std::string_view file, std::string_view pre,
                                               const TokenizerSettings& settings) {
  TRY(const auto cut, find_gguf_pre_tokenizer(pre));
  TokenizerParts parts;
  TRY_VOID(read_lines(file, *parts.vocab));
  const int count = parts.vocab->size();
  TRY_VOID(apply_tokenizer_settings(settings, parts));
  Bpe::Options options;
  options.ignore_merges = true;
  Bpe bpe(parts.vocab.get(), options);
  bpe.set_blocked(control_ids(parts.added));
  std::vector<float> scores;  // exact: ids are below 2^24
  for (int id = 0; id < count; ++id) scores.push_back(static_cast<float>(-id));
  bpe.merge_by_score(scores, Bpe::Ties::leftmost);
  parts.model = std::move(bpe);
  TRY_VOID(set_byte_level(cut->patterns, cut->nfc, settings.add_prefix_space, parts));
  parts.add_bos = settings.add_bos.value_or(false);
  return parts;
}

}  // namespace anabranch
