#include "tokenizer/byte_level.h"

#include <utility>

namespace anabranch {

Result<void> set_byte_level(std::span<const std::string_view> patterns, bool nfc, bool add_prefix_space,
                            TokenizerParts& parts) {
  std::vector<PreTokenizerStep> steps;
  for (const std::string_view pattern : patterns) {
    if (pattern.empty()) continue;
    PreTokenizerStep step;
    TRY(Regex regex, Regex::compile(pattern));
    step.pattern.push_back(std::move(regex));
    steps.push_back(std::move(step));
  }
  PreTokenizerStep bytes;
  bytes.kind = PreTokenizerStep::Kind::byte_level;
  bytes.add_prefix_space = add_prefix_space;
  steps.push_back(std::move(bytes));
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  if (nfc) parts.normalizer = Normalizer({NormalizerStep{NormalizerStep::Kind::nfc}});
  DecoderStep decode;
  decode.kind = DecoderStep::Kind::byte_level;
  parts.decoder = Decoder({std::move(decode)});
  return {};
}

}  // namespace anabranch
