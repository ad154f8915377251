#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "tokenizer/bpe_bytes.h"
#include "tokenizer/utf8.h"

namespace anabranch {

namespace {

using Step = PreTokenizerStep;
using Kind = Step::Kind;
using Words = PreTokenizer::Words;

// A stretch of a word, and whether the pattern matched it.
struct Part {
  size_t begin, end;
  bool match;
};

// counts: each part becomes a word, so that the limit can count them.
void regex_parts(const Regex& regex, std::string_view word, std::vector<Part>& parts, EncodeLimit* limit,
                 bool counts) {
  size_t last = 0, words = 0;  // words: parts that are not empty
  for_each_match(regex, word, [&](size_t begin, size_t end) {
    if (last != begin) parts.push_back({last, begin, false});
    parts.push_back({begin, end, true});
    words += (last != begin) + (begin != end);
    last = end;
    if (limit) limit->check(counts ? words : 0);
  });
  if (last != word.size()) parts.push_back({last, word.size(), false});
}

// Each code point of the class is a match of its own.
template <class Class>
void class_parts(Class in_class, std::string_view word, std::vector<Part>& parts) {
  size_t last = 0;
  for (size_t pos = 0; pos < word.size();) {
    const CodePoint c = decode_utf8(word, pos);
    const size_t end = pos + static_cast<size_t>(c.length);
    if (in_class(c.value)) {
      if (last < pos) parts.push_back({last, pos, false});
      parts.push_back({pos, end, true});
      last = end;
    }
    pos = end;
  }
  if (last < word.size()) parts.push_back({last, word.size(), false});
}

// Runs of word characters and runs of other visible characters; white space is dropped.
void whitespace_parts(std::string_view word, std::vector<Part>& parts) {
  const auto kind = [](char32_t c) { return is_word(c) ? 1 : is_white_space(c) ? 0 : 2; };
  for (size_t pos = 0; pos < word.size();) {
    const CodePoint c = decode_utf8(word, pos);
    const int k = kind(c.value);
    size_t end = pos + static_cast<size_t>(c.length);
    while (end < word.size()) {
      const CodePoint d = decode_utf8(word, end);
      if (kind(d.value) != k) break;
      end += d.length;
    }
    parts.push_back({pos, end, k == 0});
    pos = end;
  }
}

// Joins or drops parts as `behavior` says, and appends what remains (never empty) to `out`.
void emit(const std::vector<Part>& parts, SplitBehavior behavior, size_t offset, bool at_start,
          std::vector<Words::Range>& out) {
  const auto push = [&](size_t begin, size_t end) {
    if (begin < end) out.push_back({offset + begin, offset + end, at_start && begin == 0});
  };
  size_t open = 0, open_end = 0;
  bool have = false, previous = false;
  const auto flush = [&] {
    if (have) push(open, open_end);
    have = false;
  };
  const auto start = [&](const Part& p) {
    flush();
    open = p.begin, open_end = p.end, have = true;
  };
  switch (behavior) {
    case SplitBehavior::isolated:
      for (const Part& p : parts) push(p.begin, p.end);
      return;
    case SplitBehavior::removed:
      for (const Part& p : parts) {
        if (!p.match) push(p.begin, p.end);
      }
      return;
    case SplitBehavior::contiguous:
      for (const Part& p : parts) {
        if (have && p.match == previous)
          open_end = p.end;
        else
          start(p);
        previous = p.match;
      }
      flush();
      return;
    case SplitBehavior::merged_with_previous:
      for (const Part& p : parts) {
        if (have && p.match && !previous)
          open_end = p.end;
        else
          start(p);
        previous = p.match;
      }
      flush();
      return;
    case SplitBehavior::merged_with_next:
      // A match joins the part behind it, unless that is a match too.
      for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].match && i + 1 < parts.size() && !parts[i + 1].match) {
          push(parts[i].begin, parts[i + 1].end);
          ++i;
        } else {
          push(parts[i].begin, parts[i].end);
        }
      }
      return;
  }
}

void split_words(const Step& step, Words& words, EncodeLimit* limit, bool words_count) {
  std::vector<Words::Range> out;
  const bool counts = words_count && step.behavior == SplitBehavior::isolated;
  out.reserve(words.ranges.size() * 2);
  std::vector<Part> parts;
  SplitBehavior behavior = step.behavior;
  for (const auto& span : words.ranges) {
    const std::string_view word = std::string_view(words.text).substr(span.begin, span.end - span.begin);
    parts.clear();
    switch (step.kind) {
      case Kind::split:
        regex_parts(step.pattern[0], word, parts, limit, counts);
        if (step.invert) {
          for (Part& p : parts) p.match = !p.match;
        }
        break;
      case Kind::byte_level:
        regex_parts(step.pattern[0], word, parts, limit, words_count);
        behavior = SplitBehavior::isolated;
        break;
      case Kind::digits:
        class_parts(is_number, word, parts);
        behavior = step.individual ? SplitBehavior::isolated : SplitBehavior::contiguous;
        break;
      case Kind::punctuation:
        class_parts(is_punctuation, word, parts);
        break;
      case Kind::whitespace_split:
        class_parts(is_white_space, word, parts);
        behavior = SplitBehavior::removed;
        break;
      case Kind::whitespace:
        whitespace_parts(word, parts);
        behavior = SplitBehavior::removed;
        break;
      case Kind::metaspace: {
        size_t last = 0;
        for (size_t at = word.find(step.replacement); at != std::string_view::npos;
             at = word.find(step.replacement, last)) {
          if (last < at) parts.push_back({last, at, false});
          last = at + step.replacement.size();
          parts.push_back({at, last, true});
        }
        if (last < word.size()) parts.push_back({last, word.size(), false});
        behavior = SplitBehavior::merged_with_next;
        break;
      }
    }
    emit(parts, behavior, span.begin, span.at_start, out);
    if (limit) limit->check(words_count ? out.size() : 0);
  }
  words.ranges = std::move(out);
}

// Rewrites every word by write(word, at_start, out).
template <class Write>
void rewrite_words(Words& words, Write write) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4 + 16);
  for (auto& span : words.ranges) {
    const size_t begin = text.size();
    write(std::string_view(words.text).substr(span.begin, span.end - span.begin), span.at_start, text);
    span.begin = begin;
    span.end = text.size();
  }
  words.text = std::move(text);
}

void byte_level(const Step& step, Words& words, EncodeLimit* limit, bool words_count) {
  if (step.add_prefix_space) {
    rewrite_words(words, [](std::string_view word, bool, std::string& out) {
      if (word[0] != ' ') out += ' ';
      out += word;
    });
  }
  if (!step.pattern.empty()) split_words(step, words, limit, words_count);
  rewrite_words(words, [](std::string_view word, bool, std::string& out) {
    for (const char c : word) {
      if (c > ' ' && c < 127)
        out += c;
      else
        out += byte_to_char(static_cast<uint8_t>(c));
    }
  });
}

void metaspace(const Step& step, Words& words, EncodeLimit* limit, bool words_count) {
  rewrite_words(words, [&](std::string_view word, bool at_start, std::string& out) {
    const bool has_one = word[0] == ' ' || word.substr(0, step.replacement.size()) == step.replacement;
    if (!has_one &&
        (step.prepend == Step::Prepend::always || (step.prepend == Step::Prepend::first && at_start)))
      out += step.replacement;
    for (const char c : word) {
      if (c == ' ')
        out += step.replacement;
      else
        out += c;
    }
  });
  if (step.split) split_words(step, words, limit, words_count);
}

}  // namespace

bool PreTokenizer::keeps_all() const {
  return std::none_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind == Kind::whitespace || step.kind == Kind::whitespace_split ||
           step.behavior == SplitBehavior::removed;
  });
}

bool PreTokenizer::writes_bytes() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Kind::byte_level; });
}

Words PreTokenizer::apply(std::string text, bool at_start, EncodeLimit* limit, bool words_count) const {
  Words words;
  words.text = std::move(text);
  if (words.text.empty()) return words;
  words.ranges.push_back({0, words.text.size(), at_start});
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::byte_level:
        byte_level(step, words, limit, words_count);
        break;
      case Kind::metaspace:
        metaspace(step, words, limit, words_count);
        break;
      default:
        split_words(step, words, limit, words_count);
    }
  }
  return words;
}

}  // namespace anabranch
