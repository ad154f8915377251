#include "decode/call_names.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/white_space.h"
#include "output/message_reader.h"

namespace anabranch {
namespace {

constexpr size_t kTail = 32;  // bytes; no spelled opener or closer is longer

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
    : tokenizer_(tokenizer),
      tokens_(tokens),
      control_(control),
      tools_(rules.tools),
      format_(rules.format.tools),
      heads_(rules.format, *rules.tools) {
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

void CallNames::open(Position& position, const Opener& opener, MaybeBlock* block) const {
  position = {.head = heads_.begin(opener.text), .closer = opener.closer};
  // A plain call that names no tool is text.
  if (block && format_ != ToolFormat::plain)
    *block = Block{opener.text, CallScanner(format_, *tools_, false, true)};
}

bool CallNames::move(Position& position, int token, MaybeBlock* block) const {
  if (!position.head)
    for (const Opener& opener : openers_)
      if (opener.token == token) {
        open(position, opener, block);
        return true;
      }
  const std::string_view bytes = tokenizer_.token_bytes(token);
  if (std::ranges::find(marks_, token) != marks_.end()) return read_mark(position, bytes);
  if (position.head && bytes.empty()) return false;
  for (const char byte : bytes) {
    if (block && *block) (*block)->text += byte;
    if (!(position.head ? read_head(position, byte) : read_text(position, byte, block))) return false;
  }
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
bool CallNames::read_text(Position& position, char byte, MaybeBlock* block) const {
  if (position.tail.size() == kTail) position.tail.erase(0, 1);
  position.tail += byte;
  if (names_recipient(position)) position.head = heads_.begin("");
  if (block && *block && !read_block(position, *block)) return false;
  if (position.head || (block && *block)) return true;  // what the scanner reads has no other opener
  const auto ends = [&](std::string_view mark) { return position.tail.ends_with(mark); };
  if (!position.closer.empty()) {
    if (ends(position.closer)) position.closer = {};
    return true;
  }
  for (const Opener& opener : openers_)
    if (!opener.token && ends(opener.text)) {
      open(position, opener, block);
      break;
    }
  return true;
}

// Reads the last byte of a block. False: it begins a further call of no tool.
bool CallNames::read_block(Position& position, MaybeBlock& block) const {
  const Scan scan =
      block->text.size() > kMaxCallBytes ? Scan::broken : block->scanner.advance(block->text, TextEnd::none);
  if (scan != Scan::more) {
    if (scan == Scan::complete) position.closer = {};
    block.reset();
    return true;
  }
  const auto begun = block->scanner.further_call();
  if (!begun) return true;
  const bool spelled = format_ != ToolFormat::tagged || *begun != kFunctionOpen;
  auto head = heads_.begin(spelled ? "" : *begun);
  if (spelled && heads_.read(head, *begun) == CallHeads::Step::broken) return false;
  position.head = head;
  return true;
}

// Whether any token may follow. A vocabulary may have no tokens for a name's bytes.
bool CallNames::goes_on() const {
  for (const char first : heads_.next(*position_.head))
    for (const int token : tokens_.with(first))
      if (Position after = position_; move(after, token, nullptr)) return true;
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
  if (!position_.head) return count_next({&token, 1}) == 1;
  Position after = position_;
  return move(after, token, nullptr);
}

size_t CallNames::fitting(std::span<const int> draft) {
  return control_.thinking() ? draft.size()  // where the answer begins is not known yet
                             : count_next(draft);
}

size_t CallNames::count_next(std::span<const int> tokens) const {
  const size_t read = ahead_ ? ahead_->tokens.size() : 0;
  if (!ahead_ || read > tokens.size() || !std::ranges::equal(ahead_->tokens, tokens.first(read)))
    ahead_ = Ahead{{}, position_, block_};
  for (size_t count = ahead_->tokens.size(); count < tokens.size(); count++) {
    if (!move(ahead_->position, tokens[count], &ahead_->block)) {
      ahead_.reset();
      return count;
    }
    ahead_->tokens.push_back(tokens[count]);
  }
  return tokens.size();
}

void CallNames::follow(int token) {
  // A beginning can break here if the token was forced or is the client's own.
  if (!move(position_, token, &block_) || (position_.head && !goes_on())) {
    position_ = {.header = position_.header};
    block_.reset();
    ahead_.reset();
  } else if (ahead_ && ahead_->tokens.empty()) {
    move(ahead_->position, token, &ahead_->block);
  } else if (ahead_ && ahead_->tokens.front() == token) {
    ahead_->tokens.erase(ahead_->tokens.begin());
  } else {
    ahead_.reset();
  }
}

Ending CallNames::accept(int token, Ending before) {
  const bool answers = control_.answer_tokens() > answered_;
  answered_ = control_.answer_tokens();
  // The headers of messages, which name the calls, do not count as answer.
  if (answers || (!marks_.empty() && !control_.thinking())) follow(token);
  return before;
}

}  // namespace anabranch
