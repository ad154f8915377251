#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "tokenizer/encode_limit.h"
#include "tokenizer/segment_memo.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr size_t kMemoBytes = 256;  // shorter stretches are tokenised anew

class TokenizerImpl final : public Tokenizer {
 public:
  explicit TokenizerImpl(TokenizerParts parts)
      : parts_(std::move(parts)), added_(std::move(parts_.added), parts_.normalizer) {
    size_ = parts_.vocab->size();
    for (const AddedToken& token : added_.tokens()) {
      added_by_id_.emplace(token.id, &token);
      size_ = std::max(size_, token.id + 1);
    }
    bytes_begin_.reserve(static_cast<size_t>(size_) + 1);
    for (int id = 0; id < size_; ++id) {
      bytes_begin_.push_back(bytes_.size());
      if (has(id)) bytes_ += parts_.decoder.bytes_of(content(id));
    }
    bytes_begin_.push_back(bytes_.size());
    if (!parts_.bos.empty()) bos_ = find(parts_.bos);
    if (!parts_.eos.empty()) eos_ = find(parts_.eos);
    find_least_tokens();
  }

  std::vector<int> encode(std::string_view text, bool parse_special, EncodeLimit* limit) const override {
    return limited(limit, [&] {
      return encode_marked({is_valid_utf8(text) ? std::string(text) : replace_invalid_utf8(text), {}},
                           parse_special, nullptr, {}, limit);
    });
  }

  std::vector<int> encode(std::span<const PromptPiece> pieces, SegmentMemo* memo, std::string_view salt,
                          EncodeLimit* limit) const override {
    return limited(limit, [&] { return encode_pieces(pieces, memo, salt, limit); });
  }

  std::string_view token_bytes(int id) const override {
    if (id < 0 || id >= size_) return {};
    return std::string_view(bytes_).substr(bytes_begin_[id], bytes_begin_[id + 1] - bytes_begin_[id]);
  }

  bool is_special(int id) const override {
    const auto it = added_by_id_.find(id);
    return it != added_by_id_.end() && it->second->special;
  }

  std::optional<int> find(std::string_view content) const override {
    for (const AddedToken& token : added_.tokens()) {
      if (token.content == content) return token.id;
    }
    return parts_.vocab->find(content);
  }

  int vocab_size() const override { return size_; }
  std::optional<int> bos() const override { return bos_; }
  std::optional<int> eos() const override { return eos_; }
  bool add_bos() const override { return parts_.add_bos && bos_.has_value(); }
  int leading_spaces_dropped() const override { return parts_.decoder.leading_spaces_dropped(); }

  std::string decode(std::span<const int> ids, bool skip_special) const override {
    std::string all;
    std::vector<std::string> tokens;
    for (const int id : ids) {
      if (!has(id) || (skip_special && is_special(id))) continue;
      if (parts_.decoder.plain())
        all += token_bytes(id);
      else
        tokens.emplace_back(content(id));
    }
    return parts_.decoder.plain() ? replace_invalid_utf8(all) : parts_.decoder.decode(std::move(tokens));
  }

 private:
  bool has(int id) const { return parts_.vocab->has(id) || added_by_id_.count(id) > 0; }
  std::string_view content(int id) const {
    const auto it = added_by_id_.find(id);
    return it != added_by_id_.end() ? std::string_view(it->second->content) : parts_.vocab->text(id);
  }

  // Sets longest_, kept_ and keeps_all_, which least_tokens() and encode_words() use.
  void find_least_tokens() {
    for (int id = 0; id < size_; ++id)
      if (has(id)) longest_ = std::max({longest_, content(id).size(), token_bytes(id).size()});
    const bool words_kept = parts_.pre_tokenizer.keeps_all();
    const auto* bpe = std::get_if<Bpe>(&parts_.model);
    for (int b = 0; b < 256; ++b) {
      const bool kept = bpe ? bpe->keeps(static_cast<uint8_t>(b), parts_.pre_tokenizer.writes_bytes())
                            : std::get<Unigram>(parts_.model).keeps_all();
      kept_[static_cast<size_t>(b)] = words_kept && kept;
    }
    keeps_all_ = std::all_of(kept_.begin(), kept_.end(), [](bool kept) { return kept; });
  }

  // A lower bound for the number of tokens of normalised text without added tokens: the bytes that become
  // part of a token, divided by the bytes of the longest token.
  size_t least_tokens(std::string_view text) const {
    const auto kept = [this](char c) { return kept_[static_cast<uint8_t>(c)]; };
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), kept)) / longest_;
  }

  // The result of `encode`; empty if the limit stops it.
  template <class Encode>
  std::vector<int> limited(EncodeLimit* limit, Encode encode) const {
    if (!limit) return encode();
    try {
      limit->ask();
      limit->check(0);
      std::vector<int> ids = encode();
      limit->check(ids.size());
      return ids;
    } catch (const EncodeLimit::Stopped&) {
      return {};
    }
  }

  std::vector<int> encode_pieces(std::span<const PromptPiece> pieces, SegmentMemo* memo,
                                 std::string_view salt, EncodeLimit* limit) const {
    MarkedText all;
    for (const PromptPiece& piece : pieces) {
      all.text += piece.text;
      all.trust.append(piece.text.size(), static_cast<char>(piece.trusted));
    }
    if (all.trust.find('\0') == std::string::npos) all.trust.clear();
    if (!is_valid_utf8(all.text)) all = replace_invalid(all);
    return encode_marked(std::move(all), true, memo, salt, limit);
  }

  // Like replace_invalid_utf8, but keeps the marks: a replacement is trusted if all replaced bytes were.
  static MarkedText replace_invalid(const MarkedText& in) {
    MarkedText out;
    for (size_t pos = 0; pos < in.text.size();) {
      const CodePoint c = decode_utf8(in.text, pos);
      const auto length = static_cast<size_t>(c.length);
      const size_t before = out.text.size();
      append_utf8(out.text, c.value);
      if (!in.trust.empty()) {
        const bool trusted =
            std::string_view(in.trust).substr(pos, length).find('\0') == std::string_view::npos;
        out.trust.append(out.text.size() - before, static_cast<char>(trusted));
      }
      pos += length;
    }
    return out;
  }

  static MarkedText slice(const MarkedText& text, size_t begin, size_t end) {
    MarkedText out;
    out.text = text.text.substr(begin, end - begin);
    if (!text.trust.empty()) out.trust = text.trust.substr(begin, end - begin);
    return out;
  }

  std::vector<int> encode_marked(MarkedText text, bool parse_special, SegmentMemo* memo,
                                 std::string_view salt, EncodeLimit* limit) const {
    std::vector<int> ids;
    ids.reserve(std::min(text.text.size() / 3, limit ? limit->most_tokens() : SIZE_MAX) + 8);
    for (const auto& part : added_.split(text, false, parse_special)) {
      if (limit) limit->check(ids.size());
      if (part.token) {
        ids.push_back(part.token->id);
        continue;
      }
      MarkedText segment = slice(text, part.begin, part.end);
      const bool at_start = part.begin == 0;
      if (!memo || part.end - part.begin < kMemoBytes) {
        encode_segment(std::move(segment), at_start, parse_special, ids, limit);
        continue;
      }
      std::string key = memo_key(segment, at_start, parse_special, salt);
      if (memo->append(key, ids)) continue;
      const size_t before = ids.size();
      encode_segment(std::move(segment), at_start, parse_special, ids, limit);
      memo->put(std::move(key), std::span<const int>(ids).subspan(before));
    }
    return ids;
  }

  // Everything that the tokens of a segment depend on. Lengths come first, so that different parts never give
  // the same key.
  static std::string memo_key(const MarkedText& segment, bool at_start, bool parse_special,
                              std::string_view salt) {
    std::string key = std::to_string(salt.size()) + ' ' + std::to_string(segment.text.size()) + ' ';
    key += at_start ? 's' : '-';
    key += parse_special ? 'p' : '-';
    key += salt;
    key += segment.text;
    key += segment.trust;
    return key;
  }

  // Added tokens are cut out twice: before normalising (encode_marked), and (those that ask for it) after.
  void encode_segment(MarkedText raw, bool at_start, bool parse_special, std::vector<int>& ids,
                      EncodeLimit* limit) const {
    const MarkedText segment = parts_.normalizer.apply(std::move(raw), at_start);
    for (const auto& inner : added_.split(segment, true, parse_special)) {
      if (inner.token)
        ids.push_back(inner.token->id);
      else
        encode_words(segment.text.substr(inner.begin, inner.end - inner.begin), at_start && inner.begin == 0,
                     ids, limit);
    }
  }

  void encode_words(std::string text, bool at_start, std::vector<int>& ids, EncodeLimit* limit) const {
    if (limit) limit->check(ids.size() + least_tokens(text));
    const PreTokenizer::Words words =
        parts_.pre_tokenizer.apply(std::move(text), at_start, limit, keeps_all_);
    std::visit(
        [&](const auto& model) {
          for (const auto& span : words.ranges) {
            if (limit) limit->check(ids.size());
            model.encode(std::string_view(words.text).substr(span.begin, span.end - span.begin), ids, limit);
          }
        },
        parts_.model);
  }

  TokenizerParts parts_;
  AddedTokens added_;
  std::unordered_map<int, const AddedToken*> added_by_id_;
  int size_ = 0;
  std::string bytes_;  // every token's token_bytes, by id
  std::vector<size_t> bytes_begin_;
  std::optional<int> bos_, eos_;
  std::array<bool, 256> kept_{};  // by byte of normalised text: it is part of some token's text
  bool keeps_all_ = false;
  size_t longest_ = 4;  // bytes of the longest token, or of an unknown one's character
};

}  // namespace

std::vector<bool> control_ids(const std::vector<AddedToken>& added) {
  std::vector<bool> ids;
  for (const AddedToken& token : added) {
    if (!is_control(token)) continue;
    if (static_cast<size_t>(token.id) >= ids.size()) ids.resize(token.id + 1);
    ids[token.id] = true;
  }
  return ids;
}

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerParts parts) {
  return std::make_shared<TokenizerImpl>(std::move(parts));
}

std::optional<int> leading_bos(const Tokenizer& tokenizer) {
  return tokenizer.add_bos() ? tokenizer.bos() : std::nullopt;
}

void add_leading_bos(const Tokenizer& tokenizer, std::vector<int>& ids) {
  const auto bos = leading_bos(tokenizer);
  if (bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
}

std::string Detokenizer::push(int id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  std::string_view bytes = tokenizer_->token_bytes(id);
  for (; to_drop_ > 0 && bytes.starts_with(' '); --to_drop_) bytes.remove_prefix(1);
  if (!bytes.empty()) to_drop_ = 0;
  held_ += bytes;
  const size_t tail = unfinished_utf8_tail(held_);
  std::string out = replace_invalid_utf8(std::string_view(held_).substr(0, held_.size() - tail));
  held_.erase(0, held_.size() - tail);
  return out;
}

std::string Detokenizer::flush() {
  std::string out = replace_invalid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace anabranch
