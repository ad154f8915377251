#include "decode/call_names.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace anabranch {
namespace {

constexpr size_t kTail = 16;  // bytes; no spelled opener or closer is longer

size_t index_of(char byte) {
  return static_cast<unsigned char>(byte);
}

}  // namespace

TokensByByte::TokensByByte(const Tokenizer& tokenizer, int limit) {
  const int count = std::min(tokenizer.vocab_size(), limit);
  for (int id = 0; id < count; id++)
    if (const auto bytes = tokenizer.token_bytes(id); !bytes.empty()) begins_[index_of(bytes[0]) + 1]++;
  for (size_t i = 1; i < begins_.size(); i++) begins_[i] += begins_[i - 1];
  tokens_.resize(begins_.back());
  auto at = begins_;
  for (int id = 0; id < count; id++)
    if (const auto bytes = tokenizer.token_bytes(id); !bytes.empty()) tokens_[at[index_of(bytes[0])]++] = id;
}

std::span<const int> TokensByByte::with(char first) const {
  const size_t byte = index_of(first);
  return std::span(tokens_).subspan(begins_[byte], begins_[byte + 1] - begins_[byte]);
}

CallNames::CallNames(const Tokenizer& tokenizer, const TokensByByte& tokens, const OutputRules& rules,
                     const ThinkControl& control)
    : tokenizer_(tokenizer), tokens_(tokens), control_(control), heads_(rules.format, *rules.tools) {
  if (heads_.empty()) return;
  for (const std::string_view opener : call_openers(rules.format.tools)) {
    if (!heads_.has(opener)) continue;
    openers_.push_back(
        {std::string(opener), call_closer(rules.format.tools, opener), tokenizer.find(opener)});
  }
}

bool CallNames::move(Position& position, int token) const {
  if (!position.head)
    for (const Opener& opener : openers_)
      if (opener.token == token) {
        position = {.head = heads_.begin(opener.text), .closer = opener.closer};
        return true;
      }
  const std::string_view bytes = tokenizer_.token_bytes(token);
  if (position.head && bytes.empty()) return false;
  for (const char byte : bytes)
    if (!(position.head ? read_head(position, byte) : read_text(position, byte))) return false;
  return true;
}

// Reads a byte behind an opener. False: no tool's call goes on like this.
bool CallNames::read_head(Position& position, char byte) const {
  const auto step = heads_.read(*position.head, {&byte, 1});
  if (step == CallHeads::Step::complete) position = {.closer = position.closer};
  return step != CallHeads::Step::broken;
}

// Reads a byte of free text or of a call's arguments. It may be anything.
bool CallNames::read_text(Position& position, char byte) const {
  if (position.tail.size() == kTail) position.tail.erase(0, 1);
  position.tail += byte;
  const auto ends = [&](std::string_view mark) { return position.tail.ends_with(mark); };
  if (!position.closer.empty()) {
    if (ends(position.closer)) position.closer = {};
    return true;
  }
  for (const Opener& opener : openers_)
    if (!opener.token && ends(opener.text))
      position = {.head = heads_.begin(opener.text), .closer = opener.closer};
  return true;
}

// Whether any token may follow. A vocabulary may have no tokens for a name's bytes.
bool CallNames::goes_on() const {
  for (const char first : heads_.next(*position_.head))
    for (const int token : tokens_.with(first))
      if (Position after = position_; move(after, token)) return true;
  return false;
}

void CallNames::mask(std::span<float> logits) {
  std::vector<std::pair<size_t, float>> kept;
  for (const char first : heads_.next(*position_.head))
    for (const int token : tokens_.with(first)) {
      const auto index = static_cast<size_t>(token);
      if (index < logits.size() && allows(token)) kept.emplace_back(index, logits[index]);
    }
  std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  for (const auto& [index, logit] : kept) logits[index] = logit;
}

bool CallNames::allows(int token) const {
  if (control_.thinking()) return true;
  Position after = position_;
  return move(after, token);
}

size_t CallNames::fitting(std::span<const int> draft) {
  if (control_.thinking()) return draft.size();  // where the answer begins is not known yet
  Position position = position_;
  size_t fits = 0;
  while (fits < draft.size() && move(position, draft[fits])) fits++;
  return fits;
}

void CallNames::follow(int token) {
  // A beginning can break here if the token was forced or is the client's own.
  if (!move(position_, token) || (position_.head && !goes_on())) position_ = {};
}

Ending CallNames::accept(int token, Ending before) {
  if (control_.answer_tokens() > answered_) {
    answered_ = control_.answer_tokens();
    follow(token);
  }
  return before;
}

}  // namespace anabranch
