// Keeps a model that opens tool calls by itself to the names of the request's tools. What it writes before
// the calls, and their arguments, stay free.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decode/think_control.h"
#include "output/call_heads.h"
#include "output/call_scanner.h"
#include "output/output_parser.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

// A vocabulary's tokens by their first byte. Made once for a model.
class TokensByByte {
 public:
  TokensByByte() = default;
  // limit: tokens from it on are left out (the model has no logits for them).
  TokensByByte(const Tokenizer& tokenizer, int limit);
  std::span<const int> with(char first) const;

 private:
  std::vector<int> tokens_;
  std::array<size_t, 257> begins_{};
};

// ThinkControl, which knows where the answer begins, must come before it in the list of constraints: calls
// within thoughts are not looked at.
class CallNames final : public Constraint {
 public:
  // All but the rules must outlive this object.
  CallNames(const Tokenizer& tokenizer, const TokensByByte& tokens, const OutputRules& rules,
            const ThinkControl& control);

  bool masks() const override { return position_.head.has_value(); }
  void mask(std::span<float> logits) override;
  bool allows(int token) const override;
  size_t fitting(std::span<const int> draft) override;
  Ending accept(int token, Ending before) override;
  // Applies a token of the answer that is part of the prompt.
  void follow(int token);

 private:
  struct Opener {
    std::string text;
    std::string_view closer;   // ends the call; empty: spelled openers open another one at once
    std::optional<int> token;  // then only this token opens a call; the same characters are text
  };
  // Where in a message (ToolFormat::messages) a recipient may be named: in no text, in a header before its
  // role, behind <|start|>, and behind <|channel|>.
  enum class Header { none, bare, role, channel };
  struct Position {
    std::optional<CallHeads::Position> head;  // within the beginning of a call
    Header header = Header::none;
    std::string_view closer;  // within a call: text up to here is arguments, unless an opener's token comes
    std::string tail;         // the last bytes, as many as an opener or a closer has
  };
  // The calls behind an opener, as they will be read, to find further ones behind them.
  struct Block {
    std::string text;
    CallScanner scanner;
  };
  using MaybeBlock = std::optional<Block>;
  // What was read of tokens that may come next (allows(), fitting()). It goes on with them, because a copy of
  // a long call for each token would cost more than the token.
  struct Ahead {
    std::vector<int> tokens;  // behind those that were accepted
    Position position;
    MaybeBlock block;
  };
  // How many of the tokens may come next, one after another.
  size_t count_next(std::span<const int> tokens) const;
  // Whether the token may come next; if so, moves past it. block: null: further calls are not looked for.
  bool move(Position& position, int token, MaybeBlock* block) const;
  void open(Position& position, const Opener& opener, MaybeBlock* block) const;
  bool read_head(Position& position, char byte) const;
  bool read_text(Position& position, char byte, MaybeBlock* block) const;
  bool read_block(Position& position, MaybeBlock& block) const;
  bool read_mark(Position& position, std::string_view mark) const;
  bool names_recipient(const Position& position) const;
  bool goes_on() const;

  const Tokenizer& tokenizer_;
  const TokensByByte& tokens_;
  const ThinkControl& control_;
  const std::shared_ptr<const Json> tools_;
  const ToolFormat format_;
  CallHeads heads_;
  std::vector<Opener> openers_;
  std::vector<int> marks_;  // the tokens of kMessageMarks, if calls are messages
  Position position_;
  MaybeBlock block_;
  mutable std::optional<Ahead> ahead_;
  int answered_ = 0;  // tokens of the answer that were seen
};

}  // namespace anabranch
