#include "tokenizer/sentencepiece_normalizer.h"

#include <cstring>

#include "tokenizer/gguf_vocab.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

// One unit of a Darts double array.
bool has_leaf(uint32_t unit) {
  return unit >> 8 & 1;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FF;
}
uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

bool ends_character(std::string_view text, size_t pos) {
  return pos >= text.size() || (text[pos] & 0xC0) != 0x80;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view bytes) {
  Charsmap map;
  if (bytes.empty()) return map;
  const auto damaged = [](std::string_view why) {
    return make_error(ErrorKind::invalid, "the normalizer's precompiled_charsmap is damaged: {}", why);
  };
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) return damaged("it is too short");
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size() || size % sizeof(uint32_t) != 0 || size == 0)
    return damaged("its double array has a wrong size");
  map.units_.resize(size / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), size);
  map.texts_ = bytes.substr(size);
  if (!is_valid_utf8(map.texts_)) return damaged("its texts are not UTF-8");
  for (size_t begin = 0; begin < map.texts_.size();) {
    const size_t end = std::min(map.texts_.find('\0', begin), map.texts_.size());
    if (end - begin > kMaxReplacement)
      return make_error(ErrorKind::exhausted,
                        "the normalizer replaces a character by {} bytes; the limit is {}", end - begin,
                        kMaxReplacement);
    begin = end + 1;
  }
  return map;
}

Charsmap::Match Charsmap::find(std::string_view text, size_t pos) const {
  Match best;
  if (units_.empty()) return best;
  uint32_t node = offset_of(units_[0]);
  for (size_t at = pos; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit) || !ends_character(text, at + 1)) continue;
    if (node >= units_.size()) break;
    const uint32_t value = value_of(units_[node]);
    if (value >= texts_.size() || !ends_character(texts_, value)) continue;
    best = {at + 1 - pos, std::string_view(texts_.c_str() + value)};
  }
  return best;
}

Result<SentencePieceNormalizer> SentencePieceNormalizer::make(const SentencePieceModel& model,
                                                              bool prefix_everywhere) {
  SentencePieceNormalizer out;
  TRY(out.charsmap_, Charsmap::parse(model.charsmap));
  std::vector<std::pair<std::string_view, int>> entries;
  for (const auto& piece : model.pieces)
    if (piece.type == SentencePieceModel::kUserDefined) entries.emplace_back(piece.text, 0);
  out.kept_ = Trie(std::move(entries));
  out.prefix_ = model.add_dummy_prefix;
  out.prefix_everywhere_ = prefix_everywhere;
  out.remove_extra_ = model.remove_extra_whitespaces;
  out.escape_ = model.escape_whitespaces;
  return out;
}

Charsmap::Match SentencePieceNormalizer::next(std::string_view text, size_t pos) const {
  size_t kept = 0;
  kept_.prefixes(text, pos, [&](size_t size, int) { kept = size; });
  if (kept > 0) return {kept, text.substr(pos, kept)};
  const auto mapped = charsmap_.find(text, pos);
  if (mapped.size > 0) return mapped;
  const auto size = static_cast<size_t>(decode_utf8(text, pos).length);
  return {size, text.substr(pos, size)};
}

MarkedText SentencePieceNormalizer::apply(const MarkedText& in, bool at_start) const {
  const std::string_view text = in.text, space = escape_ ? kMetaspace : " ";
  MarkedText out;
  out.text.reserve(text.size() + text.size() / 4 + 4);
  const auto put = [&](std::string_view piece, bool trusted) {
    out.text += piece;
    if (!in.trust.empty()) out.trust.append(piece.size(), static_cast<char>(trusted));
  };
  size_t pos = 0;
  while (remove_extra_ && pos < text.size()) {
    const auto match = next(text, pos);
    if (match.replacement != " ") break;
    pos += match.size;
  }
  if (pos == text.size()) return out;
  if (prefix_ && (at_start || prefix_everywhere_)) put(space, true);
  bool after_space = remove_extra_;
  while (pos < text.size()) {
    const auto match = next(text, pos);
    const bool trusted =
        in.trust.empty() || std::string_view(in.trust).substr(pos, match.size).find('\0') == in.trust.npos;
    std::string_view piece = match.replacement;
    while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
    for (const char& c : piece) put(c == ' ' ? space : std::string_view(&c, 1), trusted);
    if (!piece.empty()) after_space = remove_extra_ && piece.ends_with(' ');
    pos += match.size;
  }
  while (remove_extra_ && out.text.ends_with(space)) {
    out.text.resize(out.text.size() - space.size());
    if (!out.trust.empty()) out.trust.resize(out.text.size());
  }
  return out;
}

}  // namespace anabranch
