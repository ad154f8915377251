#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

// Start of the code point that ends at `end`.
size_t previous(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (text[end] & 0xC0) == 0x80);
  return end;
}

bool inside_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word(decode_utf8(text, previous(text, begin)).value)) return true;
  return end < text.size() && is_word(decode_utf8(text, end).value);
}

}  // namespace

bool is_control(const AddedToken& token) {
  if (token.special) return true;
  const std::string_view content = token.content;
  for (size_t pos = 0; pos < content.size();) {
    const CodePoint c = decode_utf8(content, pos);
    if (!is_white_space(c.value) && content.substr(pos, kMetaspace.size()) != kMetaspace) return true;
    pos += c.length;
  }
  return false;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, int>> raw, normalized;
  std::vector<std::string> texts;
  texts.reserve(tokens_.size());
  for (AddedToken& t : tokens_) t.control = is_control(t);
  // Special tokens come first, because among equal texts the first counts.
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& t = tokens_[i];
      if (t.special != special) continue;
      if (t.normalized) {
        texts.push_back(t.as_is ? t.content : normalizer.apply({t.content, {}}).text);
        normalized.emplace_back(texts.back(), static_cast<int>(i));
      } else {
        raw.emplace_back(t.content, static_cast<int>(i));
      }
    }
  }
  raw_ = Trie(std::move(raw));
  normalized_ = Trie(std::move(normalized));
}

std::vector<AddedTokens::Part> AddedTokens::split(const MarkedText& marked, bool normalized,
                                                  bool parse_special) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  const std::string_view text = marked.text;
  std::vector<Part> parts;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!trie.starts(text[pos])) {
      ++pos;
      continue;
    }
    const AddedToken* found = nullptr;
    size_t end = pos;
    trie.prefixes(text, pos, [&](size_t length, int index) {
      const AddedToken& t = tokens_[index];
      const bool untrusted =
          !marked.trust.empty() &&
          std::string_view(marked.trust).substr(pos, length).find('\0') != std::string_view::npos;
      if (untrusted && t.control) return;
      found = &t;
      end = pos + length;
    });
    if (!found) {
      ++pos;
      continue;
    }
    const size_t match_end = end;
    const bool keep =
        (parse_special || !found->special) && !(found->single_word && inside_word(text, pos, end));
    if (keep) {
      size_t begin = pos;
      while (found->lstrip && begin > done) {
        const size_t before = previous(text, begin);
        if (!is_white_space(decode_utf8(text, before).value)) break;
        begin = before;
      }
      while (found->rstrip && end < text.size()) {
        const CodePoint c = decode_utf8(text, end);
        if (!is_white_space(c.value)) break;
        end += c.length;
      }
      if (done < begin) parts.push_back({done, begin, nullptr});
      parts.push_back({begin, end, found});
      done = end;
    }
    // As in Hugging Face, a token counts even if it lies in white space that the token before it has
    // swallowed.
    pos = match_end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

}  // namespace anabranch
