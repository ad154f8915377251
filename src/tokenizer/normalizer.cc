#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

using Kind = NormalizerStep::Kind;

// Builds a MarkedText out of pieces of another.
class Rebuilder {
 public:
  explicit Rebuilder(const MarkedText& from) : from_(from) {
    out_.text.reserve(from.text.size() + 16);
    if (!from.trust.empty()) out_.trust.reserve(from.text.size() + 16);
  }
  void copy(size_t begin, size_t end) {
    out_.text.append(from_.text, begin, end - begin);
    if (!from_.trust.empty()) out_.trust.append(from_.trust, begin, end - begin);
  }
  // `content` instead of the bytes begin..end.
  void put(std::string_view content, size_t begin, size_t end) {
    out_.text += content;
    if (from_.trust.empty()) return;
    const bool trusted =
        std::string_view(from_.trust).substr(begin, end - begin).find('\0') == std::string_view::npos;
    out_.trust.append(content.size(), static_cast<char>(trusted));
  }
  MarkedText take() { return std::move(out_); }

 private:
  const MarkedText& from_;
  MarkedText out_;
};

// Whether `c` may reorder or compose with the characters before it. All other characters start a new chunk,
// so that a text can be normalised in short chunks. (Jamo and half-width voicing marks are not marks by
// category.)
bool joins_previous(char32_t c) {
  if (c < 0x300) return false;
  if (is_mark(c)) return true;
  return (c >= 0x1160 && c <= 0x11FF) || (c >= 0x3131 && c <= 0x318E) || (c >= 0xFF9E && c <= 0xFFDC);
}

// One chunk: a starter and the characters that may join it. Sorted here because utf8proc's own reordering is
// quadratic.
void normalise_chunk(std::string_view chunk, Kind kind, std::string& out) {
  const bool compose = kind == Kind::nfc || kind == Kind::nfkc;
  const bool compat = kind == Kind::nfkc || kind == Kind::nfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> points;
  for (size_t pos = 0; pos < chunk.size();) {
    const CodePoint c = decode_utf8(chunk, pos);
    utf8proc_int32_t buffer[32];
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), buffer, 32, options, &boundary);
    if (count > 0 && count <= 32)
      points.insert(points.end(), buffer, buffer + count);
    else
      points.push_back(static_cast<utf8proc_int32_t>(c.value));
    pos += c.length;
  }
  const auto order = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin + 1;
    if (order(points[begin]) != 0) {
      while (end < points.size() && order(points[end]) != 0) ++end;
      std::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(begin),
                       points.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](auto a, auto b) { return order(a) < order(b); });
    }
    begin = end;
  }
  if (compose) {
    const auto size =
        utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (size >= 0) points.resize(static_cast<size_t>(size));
  }
  for (const auto c : points) append_utf8(out, static_cast<char32_t>(c));
}

MarkedText unicode_form(MarkedText in, Kind kind) {
  // No form changes ASCII on its own.
  if (std::all_of(in.text.begin(), in.text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; }))
    return in;
  Rebuilder out(in);
  std::string normal;
  const std::string_view text = in.text;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + static_cast<size_t>(decode_utf8(text, begin).length);
    while (end < text.size()) {
      if (static_cast<uint8_t>(text[end]) < 0x80) break;
      const CodePoint c = decode_utf8(text, end);
      if (!joins_previous(c.value)) break;
      end += c.length;
    }
    if (end == begin + 1) {
      out.copy(begin, end);
    } else {
      normal.clear();
      normalise_chunk(text.substr(begin, end - begin), kind, normal);
      out.put(normal, begin, end);
    }
    begin = end;
  }
  return out.take();
}

MarkedText replace_all(MarkedText in, const NormalizerStep& step) {
  Rebuilder out(in);
  size_t copied = 0;
  const auto replace = [&](size_t begin, size_t end) {
    out.copy(copied, begin);
    out.put(step.content, begin, end);
    copied = end;
  };
  if (!step.literal.empty()) {
    for (size_t at = in.text.find(step.literal); at != std::string::npos;
         at = in.text.find(step.literal, copied))
      replace(at, at + step.literal.size());
  } else if (!step.pattern.empty()) {
    for_each_match(step.pattern[0], in.text, replace);
  }
  out.copy(copied, in.text.size());
  return out.take();
}

MarkedText lowercase(MarkedText in) {
  Rebuilder out(in);
  std::string lower;
  for (size_t pos = 0; pos < in.text.size();) {
    const CodePoint c = decode_utf8(in.text, pos);
    const size_t end = pos + static_cast<size_t>(c.length);
    lower.clear();
    if (c.value == 0x130)
      lower = "i\xCC\x87";  // the one letter whose lower case has two code points
    else
      append_utf8(lower, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value))));
    out.put(lower, pos, end);
    pos = end;
  }
  return out.take();
}

template <class Drop>
MarkedText remove_if(MarkedText in, Drop drop) {
  Rebuilder out(in);
  for (size_t pos = 0; pos < in.text.size();) {
    const CodePoint c = decode_utf8(in.text, pos);
    const size_t end = pos + static_cast<size_t>(c.length);
    if (!drop(c.value)) out.copy(pos, end);
    pos = end;
  }
  return out.take();
}

MarkedText strip(MarkedText in, bool left, bool right) {
  size_t begin = std::string::npos, end = 0;
  for (size_t pos = 0; pos < in.text.size();) {
    const CodePoint c = decode_utf8(in.text, pos);
    pos += c.length;
    if (is_white_space(c.value)) continue;
    begin = std::min(begin, pos - static_cast<size_t>(c.length));
    end = pos;
  }
  if (begin == std::string::npos) return {};
  if (!left) begin = 0;
  if (!right) end = in.text.size();
  Rebuilder out(in);
  out.copy(begin, end);
  return out.take();
}

}  // namespace

MarkedText Normalizer::apply(MarkedText text, bool at_start) const {
  for (const NormalizerStep& step : steps_) {
    switch (step.kind) {
      case Kind::nfc:
      case Kind::nfd:
      case Kind::nfkc:
      case Kind::nfkd:
        text = unicode_form(std::move(text), step.kind);
        break;
      case Kind::replace:
        text = replace_all(std::move(text), step);
        break;
      case Kind::prepend:
        if (text.text.empty()) break;
        text.text.insert(0, step.content);
        if (!text.trust.empty()) text.trust.insert(0, step.content.size(), '\1');
        break;
      case Kind::lowercase:
        text = lowercase(std::move(text));
        break;
      case Kind::strip:
        if (step.left || step.right) text = strip(std::move(text), step.left, step.right);
        break;
      case Kind::strip_accents:
        text = remove_if(std::move(text), is_mark);
        break;
      case Kind::sentencepiece:
        text = step.rules->apply(text, at_start);
        break;
    }
  }
  return text;
}

}  // namespace anabranch
