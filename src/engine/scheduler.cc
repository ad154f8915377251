#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace anabranch {
namespace {

// The size of the next chunk: between half of `size` and one and a half, because a pass over few tokens costs
// nearly as much as a pass over many.
int full_chunk(int size, const ScheduledSequence& e) {
  const int half = size / 2;
  const int line = (e.applied + std::max(half, 1) + size - 1) / size * size;
  return e.left() <= size + half ? e.left() : line - e.applied;
}

// Changes `tokens` so that the chunk does not end inside a range that must be applied as a whole.
int whole_chunk(const ScheduledSequence& e, int tokens) {
  const int end = e.applied + tokens;
  for (const TokenRange& range : e.whole)
    if (range.begin < end && end < range.end)
      return (range.begin > e.applied ? range.begin : range.end) - e.applied;
  return tokens;
}

void add_chunk(StepPlan& plan, const ScheduledSequence& e, int tokens) {
  tokens = whole_chunk(e, tokens);
  plan.scheduled.push_back({e.id, tokens, tokens == e.left()});
  plan.prompt_tokens += tokens;
  plan.positions += e.positions(tokens);
}

}  // namespace

// The estimated time to start a sequence rises at once, because a sequence that reads its state from disk may
// be followed by others that do, and falls slowly.
constexpr double kAdmissionGain = 0.3;
// Steps are planned for this share of max_gap_s, because some take longer than estimated.
constexpr double kAim = 0.9;

uint64_t SequenceBytes::of(int tokens) const {
  return fixed + per_token * static_cast<uint64_t>((tokens + kKvBlock - 1) / kKvBlock * kKvBlock);
}

bool Scheduler::add(uint64_t id, int tokens, int priority, std::vector<TokenRange> whole, uint64_t more_bytes,
                    bool background) {
  CHECK(tokens > 0);
  const auto counted = std::ranges::count(entries_, false, &ScheduledSequence::background);
  if (!background && counted >= options_.max_running + options_.max_queue) return false;
  const auto later = [&](const ScheduledSequence& e) { return e.priority > priority; };
  ScheduledSequence entry;
  entry.id = id;
  entry.priority = priority;
  entry.known = tokens;
  entry.since = prompt_tokens_;
  entry.whole = std::move(whole);
  entry.more_bytes = more_bytes;
  entry.background = background;
  entries_.insert(std::find_if(entries_.begin(), entries_.end(), later), entry);
  return true;
}

int Scheduler::running() const {
  return static_cast<int>(
      std::count_if(entries_.begin(), entries_.end(), [](const ScheduledSequence& e) { return e.running; }));
}

uint64_t Scheduler::bytes_of(const ScheduledSequence& entry) const {
  return bytes_.of(entry.known + kMaxDraftTokens) + entry.more_bytes;
}

uint64_t Scheduler::bytes() const {
  uint64_t sum = 0;
  for (const ScheduledSequence& e : entries_) sum += e.running ? bytes_of(e) : 0;
  return sum;
}

// Preempts from the end of the order, so that the oldest and most important sequences go on.
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

int Scheduler::decoding() const {
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(),
                                        [](const ScheduledSequence& e) { return e.running && e.decodes(); }));
}

// Seconds of prefill and admissions that the step still has room for; if not positive, none.
double Scheduler::gap_left(int decoding, double spent) const {
  const double decode = costs_.decode_s(decoding);
  return std::max(kStall * decode, kAim * options_.max_gap_s) - decode - spent;
}

// First come, first served: a small request never overtakes a larger one that waits for memory. A sequence is
// admitted only if there is also memory for one more block, so that it is not preempted at once.
std::vector<uint64_t> Scheduler::admit(int begun, double spent) {
  std::vector<uint64_t> out;
  uint64_t used = bytes();
  int count = running();
  const bool one_by_one = decoding() > 0;
  if (one_by_one && begun > 0 && (begun >= kMostAdmissions || gap_left(decoding(), spent) < admission_s_))
    return out;
  for (ScheduledSequence& e : entries_) {
    if (e.running) continue;
    const bool waits = e.held || waits_for_other(e);
    const uint64_t more = bytes_.of(e.known + kMaxDraftTokens + kKvBlock) + e.more_bytes;
    const bool fits = budget_ == 0 || used + more <= budget_;
    if (count >= options_.max_running || (count > 0 && !fits)) break;
    used += bytes_of(e);
    count++;
    if (waits) continue;  // its memory and its slot stay reserved
    e.running = true;
    out.push_back(e.id);
    if (one_by_one) break;
  }
  return out;
}

void Scheduler::began(double seconds) {
  admission_s_ = std::max(seconds, admission_s_ + kAdmissionGain * (seconds - admission_s_));
}

void Scheduler::wait_for(uint64_t id, uint64_t other, int tokens) {
  ScheduledSequence& e = at(id);
  e.running = false;
  e.after = other;
  e.after_tokens = tokens;
}

void Scheduler::hold(uint64_t id) {
  ScheduledSequence& e = at(id);
  e.running = false;
  e.held = true;
}

double Scheduler::spare_s(double spent) const {
  const int streams = decoding();
  return streams > 0 ? gap_left(streams, spent) : std::numeric_limits<double>::infinity();
}

bool Scheduler::waits_for_other(const ScheduledSequence& entry) const {
  return entry.after != 0 && std::any_of(entries_.begin(), entries_.end(), [&](const ScheduledSequence& e) {
           return e.id == entry.after && e.running && e.applied < entry.after_tokens;
         });
}

// The prompt with the fewest tokens left goes first. Every token of other prompts that was read since a
// prompt arrived counts as one token less of its own, so a long prompt is not starved by short ones. If
// others wait for a prefix of a prompt (wait_for), only the tokens of that prefix count.
std::vector<const ScheduledSequence*> Scheduler::prompts_in_order() const {
  struct Rank {
    int priority;
    int64_t tokens;
    const ScheduledSequence* entry;
  };
  std::vector<Rank> ranks;
  for (const ScheduledSequence& e : entries_) {
    if (!e.running || e.decodes()) continue;
    int left = e.left();
    for (const ScheduledSequence& w : entries_)
      if (!w.running && w.after == e.id && e.applied < w.after_tokens)
        left = std::min(left, w.after_tokens - e.applied);
    ranks.push_back({e.priority, e.since + e.read + left, &e});
  }
  std::stable_sort(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) {
    return std::pair(a.priority, a.tokens) < std::pair(b.priority, b.tokens);
  });
  std::vector<const ScheduledSequence*> out;
  for (const Rank& rank : ranks) out.push_back(rank.entry);
  return out;
}

StepPlan Scheduler::plan(double spent) const {
  StepPlan plan;
  const auto alone = std::find_if(entries_.begin(), entries_.end(),
                                  [](const ScheduledSequence& e) { return e.running && e.alone; });
  for (const ScheduledSequence& e : entries_) {
    if (!e.running || !e.decodes() || (alone != entries_.end() && &e != &*alone)) continue;
    plan.scheduled.push_back({e.id, 1, true});
    plan.decoding++;
  }
  auto prompts = prompts_in_order();
  if (alone != entries_.end())
    std::erase_if(prompts, [&](const ScheduledSequence* e) { return e != &*alone; });
  if (plan.decoding == 0)
    add_full_chunks(prompts, plan);
  else if (!costs_.should_measure(plan.decoding))
    add_partial_chunks(prompts, spent, plan);
  return plan;
}

int Scheduler::chunk_size(const ScheduledSequence& e) const {
  const int size = options_.prefill_chunk;
  return e.background ? std::max(size / kBackgroundShare, kChunkGrid) : size;
}

// Fills a step without decoding sequences: adds a chunk of the first prompt, and other prompts that fit the
// chunk size completely.
void Scheduler::add_full_chunks(const std::vector<const ScheduledSequence*>& prompts, StepPlan& plan) const {
  for (const ScheduledSequence* e : prompts) {
    const bool first = plan.scheduled.empty();
    if (first || plan.prompt_tokens + e->left() <= options_.prefill_chunk)
      add_chunk(plan, *e, first ? full_chunk(chunk_size(*e), *e) : e->left());
  }
}

// The most tokens of the prompt that the step can add within `seconds`, given its load so far.
int Scheduler::tokens_that_fit(const ScheduledSequence& e, const StepLoad& load, double seconds) const {
  int fit = 0, most = std::min(costs_.most_tokens(), options_.prefill_chunk) - load.prompt_tokens;
  most = std::min(most, e.left());
  while (fit < most) {
    const int tokens = fit + (most - fit + 1) / 2;
    if (costs_.prefill_s(load.prompt_tokens + tokens, load.positions + e.positions(tokens)) <= seconds)
      fit = tokens;
    else
      most = tokens - 1;
  }
  return fit;
}

void Scheduler::add_partial_chunks(const std::vector<const ScheduledSequence*>& prompts, double spent,
                                   StepPlan& plan) const {
  const double seconds = gap_left(plan.decoding, spent);
  for (const ScheduledSequence* e : prompts) {
    const int fit = tokens_that_fit(*e, plan, seconds);
    const int to_grid = std::min(kChunkGrid - e->applied % kChunkGrid, e->left());
    if (fit < to_grid && plan.prompt_tokens > 0) return;
    const int on_grid = (e->applied + fit) / kChunkGrid * kChunkGrid - e->applied;
    add_chunk(plan, *e, fit == e->left() ? fit : std::max(on_grid, to_grid));
    if (fit < e->left()) return;
  }
}

double Scheduler::expected_s(const StepLoad& load) const {
  const double prefill = load.prompt_tokens > 0 ? costs_.prefill_s(load.prompt_tokens, load.positions) : 0;
  return costs_.decode_s(load.decoding) + prefill;
}

void Scheduler::took(const StepPlan& plan, double seconds) {
  costs_.observe(plan, seconds);
  prompt_tokens_ += plan.prompt_tokens;
  for (size_t i = static_cast<size_t>(plan.decoding); i < plan.scheduled.size(); i++)
    for (ScheduledSequence& e : entries_)
      if (e.id == plan.scheduled[i].id) e.read += plan.scheduled[i].tokens;
}

ScheduledSequence& Scheduler::at(uint64_t id) {
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [&](const ScheduledSequence& e) { return e.id == id; });
  CHECK(it != entries_.end(), "no sequence {}", id);
  return *it;
}

void Scheduler::advanced(uint64_t id, int applied, int sampled) {
  ScheduledSequence& e = at(id);
  e.known += sampled;
  e.applied += applied;
  e.alone = std::max(0, e.alone - std::max(0, sampled));
  CHECK(e.applied <= e.known, "{} of {} tokens", e.applied, e.known);
}

bool Scheduler::isolates() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& e) { return e.alone > 0; });
}

void Scheduler::isolate(uint64_t id, int known) {
  ScheduledSequence& e = at(id);
  e.known = known;
  e.applied = 0;
  e.running = false;
  e.alone = e.alone_next;
  e.alone_next = std::min(2 * e.alone_next, 1 << 16);
}

void Scheduler::remove(uint64_t id) {
  std::erase_if(entries_, [&](const ScheduledSequence& e) { return e.id == id; });
}

}  // namespace anabranch
