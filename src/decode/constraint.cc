#include "decode/constraint.h"

#include <algorithm>

namespace anabranch {

std::span<const int> ConstraintList::forced() const {
  for (const auto& constraint : list_)
    if (const auto tokens = constraint->forced(); !tokens.empty()) return tokens;
  return {};
}

bool ConstraintList::masks() const {
  return std::any_of(list_.begin(), list_.end(), [](const auto& c) { return c->masks(); });
}

void ConstraintList::mask(std::span<float> logits) {
  for (const auto& constraint : list_)
    if (constraint->masks()) constraint->mask(logits);
}

bool ConstraintList::allows(int token) const {
  return std::all_of(list_.begin(), list_.end(), [&](const auto& c) { return c->allows(token); });
}

int ConstraintList::decide(int drawn) {
  for (const auto& constraint : list_) drawn = constraint->decide(drawn);
  return drawn;
}

size_t ConstraintList::fitting(std::span<const int> draft) {
  for (const auto& constraint : list_) draft = draft.first(constraint->fitting(draft));
  return draft.size();
}

Ending ConstraintList::accept(int token) {
  Ending ending = Ending::none;
  for (const auto& constraint : list_) ending = constraint->accept(token, ending);
  return ending;
}

Ending ConstraintList::out_of_room() {
  Ending ending = Ending::length;
  for (const auto& constraint : list_) ending = constraint->out_of_room(ending);
  return ending;
}

}  // namespace anabranch
