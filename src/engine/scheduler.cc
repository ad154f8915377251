#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace anabranch {
namespace {

// The weight of the newest step. Steps without prompts are slow by accident more often than fast: the bound
// is a multiple of what they take when nothing disturbs them.
constexpr double kGain = 0.3, kSlowerGain = 0.1, kFasterGain = 0.5;
// How far one that is slow by accident counts.
constexpr double kSlowest = 2;
// The least share of a step that its prompts' tokens can have taken.
constexpr double kLeastShare = 0.05;
// After so many steps with prompts, one without is measured again.
constexpr int kMeasureAfter = 32;

void learn(double& estimate, double sample, double slower, double faster) {
  if (estimate <= 0)
    estimate = sample;
  else
    estimate += (sample > estimate ? slower : faster) * (std::min(sample, kSlowest * estimate) - estimate);
}

}  // namespace

int StepCosts::tokens_beside(int decoding, int most) const {
  const auto i = static_cast<size_t>(decoding);
  if (i >= decode_s_.size() || decode_s_[i] <= 0 || steps_beside_ >= kMeasureAfter) return 0;
  if (token_s_ <= 0) return kPieceGrid;
  const double fit = (kStall - 1) * decode_s_[i] / token_s_;
  most = std::max(std::min(most, 2 * tried_), kPieceGrid);
  return static_cast<int>(std::clamp<double>(fit, kPieceGrid, most));
}

void StepCosts::observe(int decoding, int tokens, double seconds) {
  if (decoding == 0 || !(seconds > 0)) return;
  const auto i = static_cast<size_t>(decoding);
  if (i >= decode_s_.size()) decode_s_.resize(i + 1);
  if (tokens == 0) {
    learn(decode_s_[i], seconds, kSlowerGain, kFasterGain);
    steps_beside_ = 0;
    return;
  }
  steps_beside_++;
  tried_ = std::max(tokens, tried_ / 2);
  learn(token_s_, std::max(seconds - decode_s_[i], kLeastShare * seconds) / tokens, kGain, kGain);
}

uint64_t SequenceBytes::of(int tokens) const {
  return fixed + per_token * static_cast<uint64_t>((tokens + kMemoryBlock - 1) / kMemoryBlock * kMemoryBlock);
}

bool Scheduler::add(uint64_t id, int tokens, int priority) {
  CHECK(tokens > 0);
  if (static_cast<int>(entries_.size()) >= options_.max_running + options_.max_queue) return false;
  const auto later = [&](const Entry& e) { return e.priority > priority; };
  Entry entry;
  entry.id = id;
  entry.priority = priority;
  entry.known = tokens;
  entry.since = prompt_tokens_;
  entries_.insert(std::find_if(entries_.begin(), entries_.end(), later), entry);
  return true;
}

int Scheduler::running() const {
  return static_cast<int>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.running; }));
}

uint64_t Scheduler::bytes_of(const Entry& entry) const {
  return bytes_.of(entry.known + kRoundRows);
}

uint64_t Scheduler::bytes() const {
  uint64_t sum = 0;
  for (const Entry& e : entries_) sum += e.running ? bytes_of(e) : 0;
  return sum;
}

// The last in order first: what has waited longest, or matters more, goes on.
std::vector<uint64_t> Scheduler::preempt() {
  std::vector<uint64_t> out;
  uint64_t used = bytes();
  int left = running();
  for (auto e = entries_.rbegin(); e != entries_.rend() && left > 1 && budget_ > 0 && used > budget_; ++e) {
    if (!e->running) continue;
    used -= bytes_of(*e);
    left--;
    e->running = false;
    e->applied = 0;
    out.push_back(e->id);
  }
  return out;
}

// In order: nothing small slips past what waits for more room. What comes gets a block to grow, lest it has
// to go again at once; and comes one at a time beside sequences that decode, since its start takes time.
std::vector<uint64_t> Scheduler::admit() {
  std::vector<uint64_t> out;
  uint64_t used = bytes();
  int count = running();
  const bool decoding =
      std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.running && e.decodes(); });
  for (Entry& e : entries_) {
    if (e.running) continue;
    const bool waits = waits_for_other(e);
    const uint64_t more = bytes_.of(e.known + kRoundRows + kMemoryBlock);
    const bool fits = budget_ == 0 || used + more <= budget_;
    if (count >= options_.max_running || (count > 0 && !fits) || (!waits && decoding && !out.empty())) break;
    used += bytes_of(e);
    count++;
    if (waits) continue;  // its place is kept
    e.running = true;
    out.push_back(e.id);
  }
  return out;
}

void Scheduler::wait_for(uint64_t id, uint64_t other, int tokens) {
  Entry& e = at(id);
  e.running = false;
  e.after = other;
  e.after_tokens = tokens;
}

bool Scheduler::waits_for_other(const Entry& entry) const {
  return entry.after != 0 && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
           return e.id == entry.after && e.running && e.applied < entry.after_tokens;
         });
}

// Half a chunk to one and a half: a pass over few tokens costs nearly as much as one over many.
Piece Scheduler::chunk(const Entry& e) const {
  const int size = options_.prefill_chunk, half = size / 2;
  const int line = (e.applied + std::max(half, 1) + size - 1) / size * size;
  const int tokens = e.left() <= size + half ? e.left() : line - e.applied;
  return {e.id, tokens, tokens == e.left()};
}

// The shortest first; but every token of others that was applied since a prompt came makes it one shorter,
// and where another one waits for its first tokens only these count.
std::vector<const Scheduler::Entry*> Scheduler::prompts_in_order() const {
  struct Rank {
    int priority;
    int64_t tokens;
    const Entry* entry;
  };
  std::vector<Rank> ranks;
  for (const Entry& e : entries_) {
    if (!e.running || e.decodes()) continue;
    int left = e.left();
    for (const Entry& w : entries_)
      if (!w.running && w.after == e.id && e.applied < w.after_tokens)
        left = std::min(left, w.after_tokens - e.applied);
    ranks.push_back({e.priority, e.since + left, &e});
  }
  std::stable_sort(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) {
    return std::pair(a.priority, a.tokens) < std::pair(b.priority, b.tokens);
  });
  std::vector<const Entry*> out;
  for (const Rank& rank : ranks) out.push_back(rank.entry);
  return out;
}

StepPlan Scheduler::plan() const {
  StepPlan plan;
  const auto alone =
      std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.running && e.alone; });
  for (const Entry& e : entries_) {
    if (!e.running || !e.decodes() || (alone != entries_.end() && &e != &*alone)) continue;
    plan.pieces.push_back({e.id, 1, true});
    plan.decoding++;
  }
  auto prompts = prompts_in_order();
  if (alone != entries_.end()) std::erase_if(prompts, [&](const Entry* e) { return e != &*alone; });
  if (!prompts.empty()) plan.decoding == 0 ? add_chunks(prompts, plan) : add_pieces(prompts, plan);
  return plan;
}

// Nobody waits for a token: a chunk of the first, and what else fits beside it as a whole.
void Scheduler::add_chunks(const std::vector<const Entry*>& prompts, StepPlan& plan) const {
  for (const Entry* e : prompts) {
    const bool first = plan.pieces.empty();
    if (!first && plan.prompt_tokens + e->left() > options_.prefill_chunk) continue;
    plan.pieces.push_back(first ? chunk(*e) : Piece{e->id, e->left(), true});
    plan.prompt_tokens += plan.pieces.back().tokens;
  }
}

void Scheduler::add_pieces(const std::vector<const Entry*>& prompts, StepPlan& plan) const {
  const int most = costs_.tokens_beside(plan.decoding, options_.prefill_chunk);
  for (const Entry* e : prompts) {
    const int room = most - plan.prompt_tokens;
    if (room <= 0) return;
    const int first_end = (e->applied / kPieceGrid + 1) * kPieceGrid,
              grid_end = (e->applied + room) / kPieceGrid * kPieceGrid;
    if (first_end - e->applied > room && plan.prompt_tokens > 0) return;
    const int tokens =
        e->left() <= room ? e->left() : std::min(e->left(), std::max(first_end, grid_end) - e->applied);
    plan.pieces.push_back({e->id, tokens, tokens == e->left()});
    plan.prompt_tokens += tokens;
  }
}

void Scheduler::took(const StepPlan& plan, double seconds) {
  costs_.observe(plan.decoding, plan.prompt_tokens, seconds);
  prompt_tokens_ += plan.prompt_tokens;
}

Scheduler::Entry& Scheduler::at(uint64_t id) {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id; });
  CHECK(it != entries_.end(), "no sequence {}", id);
  return *it;
}

void Scheduler::advanced(uint64_t id, int applied, int sampled) {
  Entry& e = at(id);
  e.known += sampled;
  e.applied += applied;
  e.alone = std::max(0, e.alone - sampled);
  CHECK(e.applied <= e.known, "{} of {} tokens", e.applied, e.known);
}

void Scheduler::isolate(uint64_t id) {
  Entry& e = at(id);
  e.applied = 0;
  e.running = false;
  e.alone = e.alone_next;
  e.alone_next = std::min(2 * e.alone_next, 1 << 16);
}

void Scheduler::remove(uint64_t id) {
  std::erase_if(entries_, [&](const Entry& e) { return e.id == id; });
}

}  // namespace anabranch
