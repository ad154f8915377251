#include "decode/call_names.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/white_space.h"
#include "output/message_reader.h"

namespace anabranch {
namespace {

constexpr size_t kTail = 24;  // bytes; no spelled opener or closer is longer

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
  if (rules.format.tools == ToolFormat::messages) {
    for (const std::string_view mark : kMessageMarks)
      if (const auto token = tokenizer.find(mark)) marks_.push_back(*token);
    if (!rules.goes_on && !rules.thinking_open) position_.header = Header::bare;
    return;
  }
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
  if (std::ranges::find(marks_, token) != marks_.end()) return read_mark(position, bytes);
  if (position.head && bytes.empty()) return false;
  for (const char byte : bytes)
    if (!(position.head ? read_head(position, byte) : read_text(position, byte))) return false;
  return true;
}

// Reads a mark of a message. False: it stands within a name.
bool CallNames::read_mark(Position& position, std::string_view mark) const {
  const bool channel = mark == "<|channel|>", text = mark == "<|message|>";
  const bool goes_on = channel || text || mark == "<|constrain|>";
  if (position.head && !(goes_on && heads_.read(*position.head, "<") == CallHeads::Step::complete))
    return false;
  position.head.reset();
  position.tail.clear();
  if (text)
    position.header = Header::none;
  else if (channel)
    position.header = Header::channel;
  else if (!goes_on)
    position.header = mark == "<|start|>" ? Header::role : Header::bare;
  return true;
}

// Whether a recipient follows, as MessageReader reads it: first of all or behind the role, or anywhere behind
// the channel.
bool CallNames::names_recipient(const Position& position) const {
  std::string_view before = position.tail;
  constexpr std::string_view kRecipient = "to=";
  if (position.header == Header::none || !before.ends_with(kRecipient)) return false;
  before.remove_suffix(kRecipient.size());
  if (position.header == Header::channel) return before.empty() || is_space(before.back());
  const bool behind_role = position.header == Header::role && trimmed(before) == "assistant";
  return position.tail.size() < kTail && (is_blank(before) || behind_role);
}

// Reads a byte behind an opener. False: no tool's call goes on like this.
bool CallNames::read_head(Position& position, char byte) const {
  if (!marks_.empty() && byte == '<') return false;  // spelled, it is no mark
  const auto step = heads_.read(*position.head, {&byte, 1});
  if (step == CallHeads::Step::complete) position = {.header = position.header, .closer = position.closer};
  return step != CallHeads::Step::broken;
}

// Reads a byte of free text or of a call's arguments. It may be anything.
bool CallNames::read_text(Position& position, char byte) const {
  if (position.tail.size() == kTail) position.tail.erase(0, 1);
  position.tail += byte;
  if (names_recipient(position)) position.head = heads_.begin("");
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
  if (!move(position_, token) || (position_.head && !goes_on())) position_ = {.header = position_.header};
}

Ending CallNames::accept(int token, Ending before) {
  const bool answers = control_.answer_tokens() > answered_;
  answered_ = control_.answer_tokens();
  // The headers of messages, which name the calls, do not count as answer.
  if (answers || (!marks_.empty() && !control_.thinking())) follow(token);
  return before;
}

}  // namespace anabranch
