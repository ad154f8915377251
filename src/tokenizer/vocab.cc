#include "tokenizer/vocab.h"

#include <functional>

#include "base/check.h"

namespace anabranch {
namespace {
uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>{}(text);
}
}  // namespace

void Vocab::reserve(size_t tokens) {
  ranges_.reserve(tokens);
  arena_.reserve(tokens * 8);
  size_t capacity = 64;
  while (capacity < tokens * 2) capacity *= 2;
  if (capacity > slots_.size() && count_ == 0) slots_.assign(capacity, {});
}

bool Vocab::add(std::string_view text, int id) {
  CHECK(id >= 0 && id <= kMaxId, "token id {}", id);
  if (static_cast<size_t>(id) >= ranges_.size()) ranges_.resize(id + 1);
  if (ranges_[id].used) return this->text(id) == text;
  CHECK(arena_.size() + text.size() < UINT32_MAX);
  ranges_[id] = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(text.size()), 1};
  arena_ += text;
  if (count_ * 2 >= slots_.size()) grow();
  const uint64_t hash = hash_of(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    if (slots_[i].id < 0) {
      slots_[i] = {tag, id, ranges_[id].begin, static_cast<uint32_t>(text.size())};
      ++count_;
      return true;
    }
    if (holds(slots_[i], tag, text)) return true;
  }
}

int Vocab::lookup(std::string_view text) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = hash_of(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask; slots_[i].id >= 0; i = (i + 1) & mask) {
    if (holds(slots_[i], tag, text)) return slots_[i].id;
  }
  return -1;
}

void Vocab::grow() {
  std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t i = hash_of(text(slot.id)) & mask;
    while (slots_[i].id >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace anabranch
