// Constraints on the tokens of one sequence: thinking control, a grammar, the end of a turn, stop strings. A
// step asks the constraints of a sequence in order. Each sees every token once, in order, before the next one
// is drawn, so its decisions do not depend on drafts or batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace anabranch {

// How a sequence ends: not yet, by itself, or cut off.
enum class Ending : uint8_t { none, stop, length };

// Any function may throw std::runtime_error; the request then ends with that error.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Tokens that must come next regardless of the model; empty: the model decides.
  virtual std::span<const int> forced() const { return {}; }
  // Whether mask() may change any logits.
  virtual bool masks() const { return false; }
  // Sets the logits [vocab] of tokens that may not come next to -inf. Throws when no token is allowed.
  virtual void mask(std::span<float>) {}
  // Whether the token may come next.
  virtual bool allows(int) const { return true; }
  // Returns the token to use when the sampler drew `drawn`.
  virtual int decide(int drawn) { return drawn; }
  // How many tokens from the start of a draft are worth verifying. Changes nothing.
  virtual size_t fitting(std::span<const int> draft) { return draft.size(); }
  // Reports the sequence's next token. Returns how the sequence ends with it; `before` is the result of the
  // constraints before this one.
  virtual Ending accept(int token, Ending before) = 0;
  // Reports that no token can follow because there is no room. Returns how the sequence ends, as accept().
  virtual Ending out_of_room(Ending before) { return before; }
};

// The constraints of a sequence, in the order in which they are asked.
class ConstraintList {
 public:
  void add(std::unique_ptr<Constraint> constraint) { list_.push_back(std::move(constraint)); }
  bool empty() const { return list_.empty(); }

  // The tokens of the first constraint that forces any.
  std::span<const int> forced() const;
  bool masks() const;
  void mask(std::span<float> logits);
  // Whether all of them allow the token.
  bool allows(int token) const;
  // Calls decide() of each constraint with the result of the one before.
  int decide(int drawn);
  // Returns the least of the constraints' results.
  size_t fitting(std::span<const int> draft);
  // Each constraint sees the token, and may overrule how the one before would end the sequence.
  Ending accept(int token);
  Ending out_of_room();

 private:
  std::vector<std::unique_ptr<Constraint>> list_;
};

}  // namespace anabranch
