#include "chat/request_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/white_space.h"
#include "tokenizer/utf8.h"

namespace anabranch::text {
namespace {

constexpr size_t kLongMessage = 2000, kKeptEnd = 700, kLongQuestion = 300;  // bytes
constexpr size_t kReadEnd = 32 << 10;  // of a message that is longer than twice that
constexpr size_t kLongestQuote = 400;

struct Quote {
  std::string_view open, close;
};
constexpr Quote kQuotes[] = {{"\"", "\""},
                             {"\xE2\x80\x9C", "\xE2\x80\x9D"},
                             {"\xE2\x80\x9E", "\xE2\x80\x9C"},
                             {"\xC2\xAB", "\xC2\xBB"},
                             {"\xE3\x80\x8C", "\xE3\x80\x8D"},
                             {"`", "`"}};

// Leaves out fenced blocks and quoted text.
std::string without_quotes(std::string_view text, Request& request) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, 3) == "```") {
      const size_t line = std::min(text.find('\n', i), text.size());
      if (!request.has_code)
        request.fence = std::string(text.substr(i + 3, std::min<size_t>(line - i - 3, 20)));
      request.has_code = true;
      const size_t end = text.find("```", line);
      i = end == std::string_view::npos ? text.size() : end + 3;
      out += '\n';
      continue;
    }
    bool quoted = false;
    for (const auto& [open, close] : kQuotes) {
      if (text.substr(i, open.size()) != open) continue;
      const std::string_view within = text.substr(i + open.size(), kLongestQuote);
      const size_t end = within.find(close);
      if (end == std::string_view::npos || end > within.find('\n')) continue;
      i += open.size() + end + close.size();
      out += " quoted ";
      quoted = true;
      break;
    }
    if (!quoted) out += text[i++];
  }
  return out;
}

std::string_view cut_front(std::string_view text, size_t bytes) {  // whole characters
  while (bytes < text.size() && (static_cast<uint8_t>(text[bytes]) & 0xC0) == 0x80) bytes++;
  return text.substr(0, bytes);
}
std::string_view cut_back(std::string_view text, size_t bytes) {
  size_t from = text.size() - std::min(bytes, text.size());
  while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) from++;
  return text.substr(from);
}

bool ends_sentence(std::string_view text, size_t i, const CodePoint& c) {
  switch (c.value) {
    case U'\n':
    case U'!':
    case U'?':
    case U';':
    case U':':
    case 0x3002:
    case 0xFF01:
    case 0xFF1F:
    case 0xFF1B:
    case 0xFF1A:
      return true;
    case U'.':
      return i + 1 >= text.size() || text[i + 1] == ' ' || text[i + 1] == '\n';
    default:
      return false;
  }
}

void mask(Sentence& sentence, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (sentence[i] != ' ') sentence[i] = kMasked;
}

void mask_negated(Sentence& clause) {
  if (const auto last = find(clause, Words::negation_last)) mask(clause, 0, last->end);
  for (auto hit = find(clause, Words::negation); hit;) {
    auto end = starts_at(clause, hit->begin, Words::contrast);
    if (!end || end->end <= hit->end) {
      end = find(clause, Words::contrast, hit->end);
      mask(clause, hit->begin, end ? end->begin : clause.size());
    }
    hit = end ? find(clause, Words::negation, end->end) : std::nullopt;
  }
}

bool ends_clause(std::string_view text, size_t i, const CodePoint& c) {
  switch (c.value) {
    case U',':
      return i + 1 >= text.size() || text[i + 1] == ' ';
    case U'(':
    case U')':
    case 0x2013:
    case 0x2014:
    case 0x3001:
    case 0xFF0C:
      return true;
    default:
      return false;
  }
}

// The pieces of a text between its ends: take(piece) for each. ends(text, i, c): whether c at byte i is one.
template <class Ends, class Take>
void split(std::string_view text, Ends ends, Take take) {
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    if (ends(text, i, c)) {
      take(text.substr(start, i - start));
      start = i + c.length;
    }
    i += c.length;
  }
  take(text.substr(std::min(start, text.size())));
}

// refused: whether its first clause is a "no" by itself.
Sentence wanted_of(std::string_view text, bool& refused) {
  Sentence out = " ";
  refused = false;
  split(text, ends_clause, [&](std::string_view piece) {
    Sentence clause = fold(piece);
    if (clause.size() <= 1) return;
    refused |= out.size() == 1 && consists_of(clause, {Words::refusal}, false);
    mask_negated(clause);
    out += clause.substr(1);
  });
  return out;
}

void add_wanted(std::string_view sentence, std::vector<Sentence>& out) {
  bool refused = false;
  Sentence wanted = wanted_of(sentence, refused);
  if (refused && !out.empty()) mask(out.back(), 0, out.back().size());
  out.push_back(std::move(wanted));
}

// wanted: may be null.
void add_sentences(std::string_view text, std::vector<Sentence>& out, std::vector<Sentence>* wanted) {
  split(text, ends_sentence, [&](std::string_view piece) {
    Sentence sentence = fold(piece);
    if (sentence.size() <= 1) return;
    out.push_back(std::move(sentence));
    if (wanted) add_wanted(piece, *wanted);
  });
}

// The last paragraph, or the first if only that is short.
std::string_view asking_paragraph(std::string_view text) {
  text = trimmed(text);
  const size_t last = text.rfind("\n\n"), first = text.find("\n\n");
  if (last == std::string_view::npos) return text;
  const std::string_view end = trimmed(text.substr(last)), begin = trimmed(text.substr(0, first));
  return end.size() > kLongQuestion && begin.size() <= kLongQuestion ? begin : end;
}

}  // namespace

Request read_request(std::string_view message) {
  Request request;
  std::string ends;
  if (message.size() > 2 * kReadEnd) {
    ends = std::string(cut_front(message, kReadEnd)) + "\n" + std::string(cut_back(message, kReadEnd));
    message = ends;
  }
  const std::string text = without_quotes(message, request);
  request.long_text = text.size() > kLongMessage;
  add_sentences(cut_back(asking_paragraph(text), kLongMessage), request.question, nullptr);
  if (!request.long_text) {
    add_sentences(text, request.sentences, &request.wanted);
  } else {
    add_sentences(cut_front(text, kKeptEnd), request.sentences, &request.wanted);
    add_sentences(cut_back(text, kKeptEnd), request.sentences, &request.wanted);
  }
  return request;
}

}  // namespace anabranch::text
