// A byte that says of which kind the vocabulary is, a vocabulary, a zero byte, and a text of at most kMaxText
// bytes that it encodes and decodes. Kind 's': tokenizer.model; 't': tekken.json; 'm': vocab.json, a zero
// byte, merges.txt; 'c': the settings beside them.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "tokenizer/utf8.h"
#include "tokenizer/vocab_files.h"

using namespace anabranch;

namespace {

constexpr size_t kMaxText = 128;

// What stands before the last zero byte of the input, if that is near its end, and behind it.
std::pair<std::string_view, std::string_view> split_last(std::string_view input) {
  const size_t at = input.rfind('\0');
  if (at == input.npos || input.size() - at > kMaxText) return {input, {}};
  return {input.substr(0, at), input.substr(at + 1)};
}

Result<TokenizerParts> read(char kind, std::string_view file) {
  TokenizerSettings settings;
  settings.tokenizer_class = "GPT2Tokenizer";
  if (kind == 't') return read_tekken_tokenizer(file);
  if (kind != 'm') return read_sentencepiece_tokenizer(file, std::move(settings));
  const size_t end = std::min(file.find('\0'), file.size());
  return read_merges_tokenizer(file.substr(0, end), file.substr(std::min(end + 1, file.size())), settings);
}

void check_ids(const Tokenizer& tokenizer, const std::vector<int>& ids) {
  for (const int id : ids)
    if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  if (!is_valid_utf8(tokenizer.decode(ids, false)) || !is_valid_utf8(tokenizer.decode(ids, true)))
    std::abort();
}

void read_settings(std::string_view json) {
  const auto settings = read_tokenizer_settings({std::string(json), "", "", ""});
  if (!settings.ok()) return;
  TokenizerParts parts;
  (void)apply_tokenizer_settings(*settings, parts);
  (void)read_tokenizer_settings({"", std::string(json), std::string(json), std::string(json)});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto [file, given] = split_last(input.substr(1));
  if (input[0] == 'c') return read_settings(file), 0;
  auto parts = read(input[0], file);
  if (!parts.ok()) return 0;
  const auto tokenizer = make_tokenizer(std::move(*parts));
  const std::string text = replace_invalid_utf8(given);
  const auto ids = tokenizer->encode(text, true);
  check_ids(*tokenizer, ids);
  check_ids(*tokenizer, tokenizer->encode(text, false));
  if (tokenizer->encode(std::vector<PromptPiece>{{text, true}}) != ids) std::abort();
  check_ids(*tokenizer, tokenizer->encode(std::vector<PromptPiece>{{text, false}}));
  return 0;
}
