// A tokenizer.json, then a zero byte, then a text that it encodes and decodes.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "tokenizer/encode_limit.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

using namespace anabranch;

namespace {

constexpr size_t kMaxText = 256;

void check_ids(const Tokenizer& tokenizer, const std::vector<int>& ids) {
  for (const int id : ids)
    if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  if (!is_valid_utf8(tokenizer.decode(ids, false)) || !is_valid_utf8(tokenizer.decode(ids, true)))
    std::abort();
  Detokenizer stream(tokenizer, false);
  for (const int id : ids)
    if (!is_valid_utf8(stream.push(id))) std::abort();
  if (!is_valid_utf8(stream.flush())) std::abort();
}

// Whether the model may give ordinary text a token that is also listed as special: its unknown or byte
// tokens.
bool has_fallback(std::string_view json) {
  for (const char* word : {"unk", "byte_fallback", "\\"})
    if (json.find(word) != std::string_view::npos) return true;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  const std::string_view json = input.substr(0, end);
  const std::string_view given = input.substr(std::min(end + 1, size));
  const std::string text = replace_invalid_utf8(given.substr(0, kMaxText));
  const auto parsed = parse_tokenizer_json(json, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  if (!parsed.ok()) return 0;
  const Tokenizer& tokenizer = **parsed;
  const auto ids = tokenizer.encode(text, true);
  check_ids(tokenizer, ids);
  if (tokenizer.encode(std::vector<PromptPiece>{{text, true}}) != ids) std::abort();
  const auto untrusted = tokenizer.encode(std::vector<PromptPiece>{{text, false}});
  check_ids(tokenizer, untrusted);
  if (!has_fallback(json))
    for (const int id : untrusted)
      if (tokenizer.is_special(id)) std::abort();
  check_ids(tokenizer, tokenizer.encode(text, false));
  for (const size_t most : {size_t{0}, ids.size() / 2, ids.size()}) {
    EncodeLimit limit(most, {});
    const auto limited = tokenizer.encode(text, true, &limit);
    if (limit.too_long() != (ids.size() > most) || (!limit.stopped() && limited != ids)) std::abort();
  }
  // Tokens in an order that no text gives.
  std::vector<int> any;
  for (const char c : text) any.push_back(static_cast<uint8_t>(c) % std::max(1, tokenizer.vocab_size()));
  check_ids(tokenizer, any.empty() || tokenizer.vocab_size() == 0 ? std::vector<int>{} : any);
  return 0;
}
