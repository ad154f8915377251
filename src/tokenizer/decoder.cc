#include "tokenizer/decoder.h"

#include <climits>
#include <optional>

#include "tokenizer/bpe_bytes.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

using Kind = DecoderStep::Kind;
const std::string kReplacementCharacter = "\xEF\xBF\xBD";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// <0xE2> -> E2
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

std::string bytes_or_itself(std::string_view token) {
  auto bytes = chars_to_bytes(token);
  return bytes ? std::move(*bytes) : std::string(token);
}

std::string replace_all(const DecoderStep& step, std::string_view token) {
  std::string out;
  size_t copied = 0;
  for_each_match(step.pattern[0], token, [&](size_t begin, size_t end) {
    out += token.substr(copied, begin - copied);
    out += step.content;
    copied = end;
  });
  out += token.substr(copied);
  return out;
}

std::string strip(const DecoderStep& step, std::string_view token) {
  const size_t size = step.content.size();
  for (int i = 0; i < step.start && token.substr(0, size) == step.content; ++i) token.remove_prefix(size);
  for (int i = 0; i < step.stop && token.size() >= size && token.substr(token.size() - size) == step.content;
       ++i)
    token.remove_suffix(size);
  return std::string(token);
}

std::string spaces_for(const std::string& replacement, std::string_view token, bool drop) {
  std::string out;
  for (size_t pos = 0; pos < token.size();) {
    if (token.substr(pos, replacement.size()) == replacement) {
      if (!drop) out += ' ';
      pos += replacement.size();
    } else {
      out += token[pos++];
    }
  }
  return out;
}

std::string join(const std::vector<std::string>& tokens) {
  std::string all;
  for (const auto& token : tokens) all += token;
  return all;
}

// Runs of <0xHH> become their text; in a run that is not UTF-8 every byte becomes U+FFFD.
std::vector<std::string> byte_fallback(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (is_valid_utf8(run)) {
      out.push_back(run);
    } else {
      for (size_t i = 0; i < run.size(); ++i) out.push_back(kReplacementCharacter);
    }
    run.clear();
  };
  for (const auto& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      run += *byte;
    } else {
      flush();
      out.push_back(token);
    }
  }
  flush();
  return out;
}

}  // namespace

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const DecoderStep& step : steps_) {
    switch (step.kind) {
      case Kind::byte_level: {
        std::string all;
        for (const auto& token : tokens) all += bytes_or_itself(token);
        tokens = {replace_invalid_utf8(all)};
        break;
      }
      case Kind::replace:
        for (auto& token : tokens) token = replace_all(step, token);
        break;
      case Kind::byte_fallback:
        tokens = byte_fallback(tokens);
        break;
      case Kind::fuse:
        tokens = {join(tokens)};
        break;
      case Kind::strip:
        for (auto& token : tokens) token = strip(step, token);
        break;
      case Kind::metaspace:
        for (size_t i = 0; i < tokens.size(); ++i)
          tokens[i] = spaces_for(step.content, tokens[i], i == 0 && step.drop_first);
        break;
    }
  }
  return replace_invalid_utf8(join(tokens));
}

std::string Decoder::bytes_of(std::string_view token) const {
  std::string text(token);
  for (const DecoderStep& step : steps_) {
    switch (step.kind) {
      case Kind::byte_level:
        text = bytes_or_itself(text);
        break;
      case Kind::replace:
        text = replace_all(step, text);
        break;
      case Kind::byte_fallback:
        if (const auto byte = fallback_byte(text)) return std::string(1, *byte);
        break;
      case Kind::fuse:
        return text;  // the remaining steps concern the whole text
      case Kind::strip:
        text = strip(step, text);
        break;
      case Kind::metaspace:
        text = spaces_for(step.content, text, false);
        break;
    }
  }
  return text;
}

int Decoder::leading_spaces_dropped() const {
  bool fused = false;
  for (const DecoderStep& step : steps_) {
    if (step.kind == Kind::fuse) fused = true;
    if (step.kind == Kind::strip && fused && step.content == " ") return step.start;
    if (step.kind == Kind::metaspace && step.drop_first) return INT_MAX;
  }
  return 0;
}

}  // namespace anabranch
