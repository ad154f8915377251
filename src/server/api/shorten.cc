#include "server/api/shorten.h"

#include <algorithm>
#include <vector>

#include "server/api/request_images.h"
#include "server/api/responses/compaction.h"

namespace anabranch::server {
namespace {

// The indices of the messages of this role from `begin` on.
std::vector<size_t> places_of(const Json& messages, const char* role, size_t begin) {
  std::vector<size_t> places;
  for (size_t i = begin; i < messages.size(); ++i)
    if (messages[i]["role"] == role) places.push_back(i);
  return places;
}

// The messages in [begin, end) are left out.
struct Gap {
  size_t begin = 0, end = 0;
};

// The gaps of steps 1, 2, ...
std::vector<Gap> gaps_in(const Json& messages) {
  const size_t begin = behind_instructions(messages);
  const auto turns = places_of(messages, "user", begin);
  std::vector<Gap> gaps;
  for (size_t i = 1; i < turns.size(); ++i) gaps.push_back({begin, turns[i]});
  if (turns.empty()) return gaps;
  // The last answer that called tools stays, with its results.
  const auto answers = places_of(messages, "assistant", turns.back());
  for (size_t i = 1; i < answers.size(); ++i) gaps.push_back({turns.back() + 1, answers[i]});
  return gaps;
}

Json part_of(const Json& messages, size_t begin, size_t end) {
  Json part = Json::array();
  for (size_t i = begin; i < end; ++i) part.push_back(messages[i]);
  return part;
}

void add_summaries(const Json& messages, size_t begin, size_t end, Json& out) {
  for (size_t i = begin; i < end; ++i)
    if (is_summary(messages[i])) out.push_back(messages[i]);
}

}  // namespace

size_t behind_instructions(const Json& messages) {
  size_t at = 0;
  while (at < messages.size() && messages[at]["role"] == "system") ++at;
  return at;
}

std::optional<size_t> begin_of_turn(const Json& messages, size_t turn) {
  const auto turns = places_of(messages, "user", behind_instructions(messages));
  return turn < turns.size() ? std::optional(turns[turn]) : std::nullopt;
}

Json from_turn(const Json& messages, size_t turn) {
  const size_t begin = behind_instructions(messages);
  const auto end = begin_of_turn(messages, turn);
  if (!end) return nullptr;
  Json out = part_of(messages, 0, begin);
  add_summaries(messages, begin, *end, out);
  for (size_t i = *end; i < messages.size(); ++i) out.push_back(messages[i]);
  return out;
}

size_t steps_to_shorten(const Json& messages) {
  return gaps_in(messages).size();
}

ChatRequest shortened(const ChatRequest& chat, size_t step) {
  ChatRequest out = chat;
  if (step == 0) return out;
  const Json& all = chat.messages;
  const auto gaps = gaps_in(all);
  const Gap last = gaps[step - 1];
  // Calls are left out after all earlier turns.
  const size_t before = behind_instructions(all);
  const bool in_last_turn = last.begin > before;
  const size_t turn = in_last_turn ? last.begin - 1 : last.begin;
  out.messages = part_of(all, 0, before);
  const auto leave_out = [&](const Json& gone) {
    const auto at = out.images.begin() + static_cast<std::ptrdiff_t>(count_images(out.messages));
    out.images.erase(at, at + static_cast<std::ptrdiff_t>(count_images(gone)));
  };
  if (in_last_turn) {
    leave_out(part_of(all, before, turn));
    add_summaries(all, before, turn, out.messages);
    out.messages.push_back(all[turn]);
  }
  leave_out(part_of(all, last.begin, last.end));
  add_summaries(all, last.begin, last.end, out.messages);
  for (size_t i = last.end; i < all.size(); ++i) out.messages.push_back(all[i]);
  return out;
}

}  // namespace anabranch::server
