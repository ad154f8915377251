// What limits the tokens of one sequence beside sampling: thinking control, a grammar, the end of a turn,
// stop strings. A step walks the constraints of a sequence in order, each of which sees every token once, in
// order, before the next one is drawn; so drafts and batches change nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace anabranch {

// How a sequence ends: not yet, by itself, or cut off.
enum class Ending : uint8_t { none, stop, length };

// Any function may throw std::runtime_error: the request cannot go on.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Tokens that come next whatever the model says; empty: the model is asked.
  virtual std::span<const int> forced() const { return {}; }
  // Whether mask() has something to say at all.
  virtual bool masks() const { return false; }
  // Makes the logits [vocab] of tokens that may not come next -inf. Throws when no token may.
  virtual void mask(std::span<float>) {}
  // Whether the token may come next.
  virtual bool allows(int) const { return true; }
  // The token to take where `drawn` was drawn.
  virtual int decide(int drawn) { return drawn; }
  // How many of the tokens, from the first on, are worth verifying as a draft. Changes nothing.
  virtual size_t fitting(std::span<const int> draft) { return draft.size(); }
  // The sequence's next token. Returns how the sequence ends with it, where the constraints before this one
  // said `before`.
  virtual Ending accept(int token, Ending before) = 0;
  // No other token can follow, for want of room. Returns how the sequence ends, as accept().
  virtual Ending out_of_room(Ending before) { return before; }
};

// The constraints of a sequence, in the order in which they are asked.
class ConstraintList {
 public:
  void add(std::unique_ptr<Constraint> constraint) { list_.push_back(std::move(constraint)); }
  bool empty() const { return list_.empty(); }

  // Of the first that forces something.
  std::span<const int> forced() const;
  bool masks() const;
  void mask(std::span<float> logits);
  // What all of them allow.
  bool allows(int token) const;
  // Each may replace what the one before decided.
  int decide(int drawn);
  // What all of them find worth verifying.
  size_t fitting(std::span<const int> draft);
  // Each hears of the token, and may overrule how the one before would end the sequence.
  Ending accept(int token);
  Ending out_of_room();

 private:
  std::vector<std::unique_ptr<Constraint>> list_;
};

}  // namespace anabranch
