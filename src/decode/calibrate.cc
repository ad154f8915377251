#include "decode/calibrate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "base/check.h"
#include "decode/speculation.h"

namespace anabranch {
namespace {

constexpr int kChunk = 128;  // rows of logits at a time

// Index of the largest, the first of equals.
int best_of(std::span<const float> row) {
  return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
}

// The most likely draft token for each row of hidden [n, H].
std::vector<int> draft_tokens(const Model& model, const Tensor& hidden) {
  const auto logits = to_host(model.draft_logits(hidden));
  const size_t width = logits.shape(1);
  std::vector<int> out;
  for (int i = 0; i < logits.shape(0); i++) {
    const int at = best_of({logits.data<float>() + i * width, width});
    out.push_back(model.draft_vocab().empty() ? at : model.draft_vocab()[at]);
  }
  return out;
}

double log_likelihood(std::span<const float> row, int token) {
  const float top = row[best_of(row)];
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
  return row[token] - top - std::log(sum);
}

// Adds each row's most likely token to `best`; returns the sum of log-likelihoods of the tokens `next`.
double read_logits(const Tensor& logits, const int* next, std::vector<int>& best) {
  const size_t width = logits.shape(1);
  double sum = 0;
  for (int i = 0; i < logits.shape(0); i++) {
    const std::span<const float> row{logits.data<float>() + i * width, width};
    best.push_back(best_of(row));
    sum += log_likelihood(row, next[i]);
  }
  return sum;
}

long same_tokens(std::span<const int> a, std::span<const int> b) {
  CHECK(a.size() == b.size(), "{} tokens beside {}", a.size(), b.size());
  long same = 0;
  for (size_t i = 0; i < a.size(); i++) same += a[i] == b[i];
  return same;
}

int measured_positions(const Passage& p) {
  return static_cast<int>(p.tokens.size()) - p.first;
}

// Ids in the order they are taken into the draft vocabulary: those that occur, frequent ones first, then all
// others.
std::vector<int> ranked_ids(std::span<const Passage* const> passages, int vocab) {
  std::vector<long> count(vocab);
  for (const Passage* p : passages)
    for (const int id : p->tokens) count.at(id)++;
  std::vector<int> ids(vocab);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return count[a] > count[b]; });
  return ids;
}

// [id]: whether the id is chosen. Chosen are `always`, then the first of `ranked`, until there are `size`
// ids.
std::vector<bool> chosen_ids(const std::vector<int>& ranked, const std::vector<int>& always, int size) {
  std::vector<bool> in(ranked.size());
  int left = size;
  const auto take = [&](int id) {
    if (left > 0 && !in.at(id)) in[id] = true, left--;
  };
  for (const int id : always) take(id);
  for (const int id : ranked) take(id);
  return in;
}

// Measures the coverage for each size: the ids are chosen from one half of the passages and looked for in the
// other, then the other way round.
std::vector<VocabSize> cover(std::span<const Passage> passages, int vocab, const std::vector<int>& always,
                             std::vector<int> sizes) {
  std::vector<VocabSize> out;
  for (const int size : sizes) out.push_back({size});
  long total = 0;
  for (size_t half = 0; half < 2; half++) {
    std::vector<const Passage*> seen;
    for (size_t i = half; i < passages.size(); i += 2) seen.push_back(&passages[i]);
    const auto ranked = ranked_ids(seen, vocab);
    for (auto& entry : out) {
      const auto in = chosen_ids(ranked, always, entry.size);
      for (size_t i = 1 - half; i < passages.size(); i += 2)
        for (size_t at = passages[i].first; at < passages[i].tokens.size(); at++)
          entry.coverage += in[passages[i].tokens[at]];
    }
  }
  for (const auto& p : passages) total += measured_positions(p);
  for (auto& entry : out) entry.coverage /= std::max(total, 1L);
  return out;
}

double sum_without(const std::vector<double>& costs, const std::vector<bool>& gone) {
  double sum = 0;
  for (size_t i = 0; i < costs.size(); i++) sum += gone[i] ? 0 : costs[i];
  return sum;
}

}  // namespace

DraftCosts draft_costs(const ModelBytes& bytes) {
  const double total =
      static_cast<double>(std::accumulate(bytes.layers.begin(), bytes.layers.end(), bytes.head));
  DraftCosts out;
  for (const uint64_t b : bytes.layers) out.layers.push_back(static_cast<double>(b) / total);
  out.head = static_cast<double>(bytes.head) / total;
  out.mtp = static_cast<double>(bytes.mtp) / total;
  return out;
}

double expected_rate(double agreement, double cost) {
  constexpr double kRow = 0.15;
  double best = 0, tokens = 1, power = 1;
  for (int k = 1; k <= kMaxDraft; k++) {
    power *= agreement;
    tokens += power;
    best = std::max(best, tokens / (1 + k * (kRow + cost)));
  }
  return best;
}

VocabSearch search_vocab(std::span<const Passage> passages, int vocab, const std::vector<int>& always,
                         const std::function<double(int size)>& cost) {
  constexpr double kRight = 0.7;
  if (passages.size() < 2) throw std::invalid_argument("[search_vocab] one passage cannot be held out");
  std::vector<int> sizes;
  for (int size = 1024; size < vocab; size *= 2)
    if (size >= static_cast<int>(always.size())) sizes.push_back(size);
  sizes.push_back(vocab);
  VocabSearch out;
  out.sizes = cover(passages, vocab, always, sizes);
  for (size_t i = 0; i < out.sizes.size(); i++) {
    auto& entry = out.sizes[i];
    entry.rate = expected_rate(kRight * entry.coverage, cost(entry.size));
    if (entry.rate > out.sizes[out.best].rate) out.best = static_cast<int>(i);
  }
  std::vector<const Passage*> all;
  for (const auto& p : passages) all.push_back(&p);
  const auto in = chosen_ids(ranked_ids(all, vocab), always, out.sizes[out.best].size);
  for (int id = 0; id < vocab; id++)
    if (in[id]) out.ids.push_back(id);
  return out;
}

ExitSearch search_exit(std::span<const double> agreement, const DraftCosts& costs, double head_cost) {
  ExitSearch out;
  double cost = head_cost;
  for (size_t i = 0; i < agreement.size(); i++) {
    cost += costs.layers[i];
    out.rates.push_back(expected_rate(agreement[i], cost));
    const bool last = i + 1 == agreement.size();
    if (!last && (out.best < 0 || out.rates[i] > out.rates[out.best])) out.best = static_cast<int>(i);
  }
  return out;
}

SkipSearch search_skip(const DraftCosts& costs, double head_cost,
                       const std::function<double(std::span<const int> layers)>& agreement) {
  constexpr size_t kTried = 3;  // at each step
  constexpr int kPatience = 3;  // steps without a better rate
  const int layers = static_cast<int>(costs.layers.size());
  std::vector<bool> gone(layers);
  const auto without = [&](int layer) {
    std::vector<int> run;
    for (int i = 0; i < layers; i++)
      if (!gone[i] && i != layer) run.push_back(i);
    return agreement(run);
  };

  SkipSearch out;
  if (layers < 2) return out;
  for (int i = 0; i < layers; i++) out.alone.push_back(without(i));
  std::vector<int> order(layers);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return out.alone[a] > out.alone[b]; });

  double best_rate = 0;
  for (int step = 1; step <= layers / 2 && step - out.best <= kPatience; step++) {
    SkipSearch::SkippedLayer taken{order[0], out.alone[order[0]], 0};
    for (size_t i = 0; step > 1 && i < std::min(kTried, order.size()); i++) {
      const double now = without(order[i]);
      if (i == 0 || now > taken.agreement) taken = {order[i], now, 0};
    }
    gone[taken.layer] = true;
    std::erase(order, taken.layer);
    taken.rate = expected_rate(taken.agreement, head_cost + sum_without(costs.layers, gone));
    out.skipped.push_back(taken);
    if (taken.rate > best_rate) {
      best_rate = taken.rate;
      out.best = step;
    }
  }
  return out;
}

TextMeasure measure_text(const Model& model, std::span<const Passage> passages, bool exits) {
  TextMeasure out;
  std::vector<long> right(exits ? model.spec().layers.size() : 0);
  double log_sum = 0, judged = 0;  // judged: positions at which exits were compared
  for (size_t number = 0; number < passages.size(); number++) {
    const auto& passage = passages[number];
    const bool look = exits && number % 2 == 0;  // a head for each layer costs as much as the pass itself
    CHECK(passage.first >= 1, "the first token of a passage cannot be predicted");
    auto state = model.make_state();
    const int rows = static_cast<int>(passage.tokens.size()) - 1;
    for (int at = 0; at < rows; at += kChunk) {
      const int n = std::min(kChunk, rows - at), skip = std::clamp(passage.first - 1 - at, 0, n);
      Batch batch;
      batch.add(state, {passage.tokens.data() + at, static_cast<size_t>(n)}, Batch::Logits::none);
      for (int i = skip; i < n; i++) batch.logit_rows.push_back(i);
      std::vector<Tensor> after;
      const auto logits = to_host(model.forward(batch, look ? &after : nullptr).logits);
      log_sum += read_logits(logits, passage.tokens.data() + at + skip + 1, out.best);
      if (!look || skip == n) continue;
      judged += n - skip;
      for (size_t layer = 0; layer < after.size(); layer++)
        right[layer] += same_tokens(draft_tokens(model, after[layer].slice_rows(skip, n)),
                                    {out.best.end() - (n - skip), out.best.end()});
    }
  }
  out.perplexity = std::exp(-log_sum / std::max<double>(1, static_cast<double>(out.best.size())));
  for (const long r : right)
    out.exit_agreement.push_back(static_cast<double>(r) / std::max<double>(1, judged));
  return out;
}

double agreement_of(const TextMeasure& a, const TextMeasure& b) {
  const auto count = std::max<double>(1, static_cast<double>(a.best.size()));
  return static_cast<double>(same_tokens(a.best, b.best)) / count;
}

DraftAgreement::DraftAgreement(const Model& model, std::span<const Passage> passages, const TextMeasure& full)
    : model_(model) {
  constexpr uint64_t kMemory = 256 << 20;
  constexpr int kTokens = 256, kLeast = 4, kMostPlaces = 48, kFewest = 8;
  const uint64_t each =
      fixed_bytes(model.state_layout(), model.device()) + window_bytes(model.state_layout()) + 1;
  const int wanted = static_cast<int>(std::clamp<uint64_t>(kMemory / each, kFewest, kMostPlaces));
  const int length = std::clamp(kTokens / wanted, kLeast, kMaxDraftTokens);

  // Split each passage into stretches of `length` tokens, and take `wanted` of them, spread evenly.
  int stretches = 0, number = 0, offset = 0;
  for (const auto& p : passages) stretches += std::max(0, measured_positions(p)) / length;
  for (const auto& passage : passages) {
    auto state = model.make_state();
    int done = 0;
    for (int i = 0; i < measured_positions(passage) / length; i++, number++) {
      const bool taken = (number + 1L) * wanted / stretches > static_cast<long>(number) * wanted / stretches;
      if (!taken) continue;
      const int at = passage.first - 1 + i * length;
      while (done < at) {
        const int n = std::min(kChunk, at - done);
        Batch batch;
        batch.add(state, {passage.tokens.data() + done, static_cast<size_t>(n)}, Batch::Logits::none);
        to_host(model.forward(batch).hidden);
        done += n;
      }
      points_.push_back({state, {passage.tokens.begin() + at, passage.tokens.begin() + at + length}});
      const auto expected = full.best.begin() + offset + i * length;
      expected_.insert(expected_.end(), expected, expected + length);
    }
    offset += std::max(0, measured_positions(passage));
  }
}

double DraftAgreement::agreement(std::span<const int> layers) {
  if (points_.empty()) return 0;
  Batch batch;
  for (auto& point : points_) {
    point.state.open();
    batch.add(point.state, point.tokens, Batch::Logits::none);
  }
  const auto said = draft_tokens(model_, model_.forward_some(batch, layers));
  for (auto& point : points_) point.state.commit(0);
  return static_cast<double>(same_tokens(said, expected_)) / static_cast<double>(said.size());
}

}  // namespace anabranch
