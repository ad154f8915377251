#include "cli/tune.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "cli/conversation.h"
#include "cli/made_up_tokens.h"
#include "engine/loader.h"
#include "engine/tuning_choice.h"

namespace anabranch::cli {
namespace {

constexpr size_t kLeastRounds = 5;
constexpr int kMostParallel = 64, kLeastParallel = 4;
constexpr int kContext = 128;  // shared tokens before the streams' own

class Tuner {
 public:
  Tuner(const LoadedModel& loaded, double seconds)
      : device_(*loaded.device), model_(*loaded.model), info_(loaded.info), seconds_(seconds) {}

  TuneReport run() {
    TuneReport report;
    if (device_.is_host()) {
      report.settings.push_back(best_threads());
      report.tuning.threads = report.settings.back().best;
      device_.threads().resize(report.tuning.threads);
    }
    report.settings.push_back(best_chunk());
    report.tuning.prefill_chunk = report.settings.back().best;
    report.settings.push_back(best_parallel());
    report.tuning.parallel = report.settings.back().best;
    return report;
  }

 private:
  // Measures all values in turn, repeatedly for a third of the time, and at least kLeastRounds times.
  template <class Measure>
  MeasuredRates measure(std::vector<int> values, const Measure& rate_of) const {
    MeasuredRates rates{std::move(values), {}};
    const double end = now_seconds() + seconds_ / 3;
    do {
      auto& round = rates.rounds.emplace_back();
      for (const int value : rates.values) round.push_back(rate_of(value));
    } while (now_seconds() < end || rates.rounds.size() < kLeastRounds);
    return rates;
  }

  double feed(SequenceState& state, int tokens, int chunk) const {
    const double start = now_seconds();
    for (int done = 0; done < tokens;) {
      const int n = std::min(chunk, tokens - done);
      const auto ids = made_up_tokens(state.length(), n, model_.spec().vocab);
      done += n;
      Batch batch;
      batch.add(state, ids, done == tokens ? Batch::Logits::last : Batch::Logits::none);
      to_host(model_.forward(batch).logits);
    }
    return tokens / (now_seconds() - start);
  }

  double prefill(int tokens, int chunk) const {
    auto state = model_.make_state();
    return feed(state, tokens, chunk);
  }

  // Measures the geometric mean of the decode and prefill rates, so that neither dominates.
  TunedSetting best_threads() const {
    const int usual = choose_threads(cpu_info()).threads;
    std::set<int> values = {usual, std::max(1, usual / 2), std::max(1, usual - 1)};
    values.insert({std::max(1, usual * 3 / 4), cpu_info().logical_cores});
    prefill(32, 32);  // warm-up
    const auto rates = measure({values.begin(), values.end()}, [&](int threads) {
      device_.threads().resize(threads);
      const double read = prefill(128, 128);
      auto state = model_.make_state();
      feed(state, 16, 16);
      return std::sqrt(read * feed(state, 16, 1));
    });
    return setting("threads", usual, choose_quickest(rates, usual), rates, "decode and prefill");
  }

  TunedSetting best_chunk() const {
    const int usual = device_.prefill_chunk();
    const double rate = prefill(usual, usual);
    // A prompt takes at most two seconds, so that a slow model is measured with each size, too.
    int tokens = usual;
    while (tokens < 4 * usual && 2 * tokens <= info_.context_length && 2 * tokens / rate < 2) tokens *= 2;
    std::vector<int> values;
    for (int chunk = std::max(16, usual / 4); chunk <= std::min(tokens, 4 * usual); chunk *= 2)
      values.push_back(chunk);
    const auto rates = measure(values, [&](int chunk) { return prefill(tokens, chunk); });
    return setting("prefill-chunk", usual, choose_quickest(rates, usual), rates,
                   fmt::format("prefill of {} tokens", tokens));
  }

  // The largest number of streams up to which each doubling clearly increases the throughput.
  TunedSetting best_parallel() const {
    auto shared = model_.make_state();
    feed(shared, std::min(kContext, info_.context_length / 2), device_.prefill_chunk());
    // Memory must hold two states for each stream, because the shared one is copied while it is in use.
    const uint64_t room = device_.has_own_memory() ? device_.free_bytes() : UINT64_MAX;
    std::vector<int> values;
    for (int streams = 1; streams <= std::max(kMostParallel, device_.parallel()); streams *= 2)
      if (streams == 1 || 2 * info_.state_bytes * static_cast<uint64_t>(streams) <= room)
        values.push_back(streams);
    const int usual = std::min(device_.parallel(), values.back());
    if (std::ranges::find(values, usual) == values.end())
      values.insert(std::ranges::upper_bound(values, usual), usual);
    const auto rates = measure(values, [&](int streams) { return decode_together(shared, streams); });
    return setting("parallel", usual, choose_streams(rates, usual, kLeastParallel), rates,
                   "streams together");
  }

  double decode_together(const SequenceState& shared, int streams) const {
    constexpr int kSteps = 4;
    std::vector<SequenceState> states(static_cast<size_t>(streams), shared);
    double start = 0;
    for (int step = 0; step <= kSteps; step++) {
      if (step == 1) start = now_seconds();  // the first step copies the shared state
      Batch batch;
      for (int i = 0; i < streams; i++) {
        const auto ids =
            made_up_tokens(states[static_cast<size_t>(i)].length() + 7 * i, 1, model_.spec().vocab);
        batch.add(states[static_cast<size_t>(i)], ids, Batch::Logits::all);
      }
      to_host(model_.forward(batch).logits);
    }
    return streams * kSteps / (now_seconds() - start);
  }

  static TunedSetting setting(const char* flag, int usual, int best, const MeasuredRates& rates,
                              std::string of) {
    return {flag, usual, best, rates.best(usual), rates.best(best), std::move(of), rates};
  }

  Device& device_;
  const Model& model_;
  const ModelInfo& info_;
  const double seconds_;
};

}  // namespace

Result<TuneReport> tune(const EngineOptions& options, double seconds) {
  TRY(const auto loaded, load_on_device(options));
  return Tuner(loaded, seconds).run();
}

}  // namespace anabranch::cli
