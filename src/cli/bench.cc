// `bench`: prefill and decode speed beside what the machine itself can do.
#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "cli/conversation.h"
#include "engine/loader.h"
#include "ops/probe.h"

namespace anabranch::cli {
namespace {

struct Spread {
  double low = 0, median = 0, high = 0;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {values.front(), median, values.back()};
}

struct Row {
  std::string work;  // "pp512", "tg128", "tg128 @ d4096"
  int tokens = 0, depth = 0;
  Spread rate;          // tok/s
  double physical = 0;  // GB/s (decode) or GOP/s (prefill) at the median
  double limit = 0;     // the machine's, same unit
  const char* unit = "";
};

class Bench {
 public:
  Bench(const BenchOptions& options, const LoadedModel& loaded)
      : options_(options), model_(*loaded.model), info_(loaded.info), limits_(ops::measure_limits()) {}

  Row prefill(int tokens) const {
    std::vector<double> rates;
    for (int rep = -1; rep < options_.reps; rep++) {
      auto state = model_.make_state();
      const double start = now_seconds();
      feed(state, tokens, options_.chunk);
      if (rep >= 0) rates.push_back(tokens / (now_seconds() - start));  // rep -1 warms up
    }
    Row row{fmt::format("pp{}", tokens), tokens, 0, spread_of(rates), 0, 0, "GOP/s"};
    // The head runs for one row only, so its parameters do not count.
    const auto& spec = model_.spec();
    const double table = static_cast<double>(spec.vocab) * spec.hidden;
    const double layers = info_.parameters - table * (spec.tied_embeddings ? 1 : 2);
    row.physical = 2 * layers * row.rate.median / 1e9;
    row.limit = ops::precise() ? limits_.fp32_gflop_s : limits_.int8_gop_s;
    return row;
  }

  Row decode(int tokens, int depth) const {
    std::vector<double> rates;
    std::optional<SequenceState> deep;
    for (int rep = -1; rep < options_.reps; rep++) {
      // At a depth the repetitions follow one another in one context (so its mean length is a little more):
      // filling it anew would take most of the time.
      if (depth == 0 || !deep) {
        deep.emplace(model_.make_state());
        if (depth > 0) feed(*deep, depth, options_.chunk);
      }
      const int n = rep < 0 ? std::min(tokens, 8) : tokens;
      const double start = now_seconds();
      feed(*deep, n, 1);
      if (rep >= 0) rates.push_back(n / (now_seconds() - start));
    }
    const std::string at = depth > 0 ? fmt::format(" @ d{}", depth) : "";
    Row row{fmt::format("tg{}{}", tokens, at), tokens, depth, spread_of(rates), 0, 0, "GB/s"};
    const double mean_length = depth > 0 ? depth + 8 + tokens * options_.reps / 2.0 : tokens / 2.0;
    const double bytes = static_cast<double>(info_.bytes_per_token) + 2.0 * info_.state_bytes +
                         static_cast<double>(info_.kv_bytes_per_token) * mean_length;
    row.physical = bytes * row.rate.median / 1e9;
    row.limit = limits_.memory_gb_s;
    return row;
  }

  const ops::MachineLimits& limits() const { return limits_; }

 private:
  // Applies `count` made-up tokens, `chunk` at a time, with logits for the last row of each decode step
  // (chunk 1) or of the whole prompt.
  void feed(SequenceState& state, int count, int chunk) const {
    for (int done = 0; done < count;) {
      const int n = std::min(chunk, count - done);
      std::vector<int> ids(n);
      for (int i = 0; i < n; i++) {
        const uint32_t mixed = static_cast<uint32_t>(state.length() + i) * 2654435761u;
        ids[i] = static_cast<int>((mixed >> 7) % static_cast<uint32_t>(model_.spec().vocab));
      }
      Batch batch;
      batch.add(state, ids.data(), n, chunk == 1 || done + n == count);
      auto out = model_.forward(batch);
      out.logits.eval();
      done += n;
    }
  }

  const BenchOptions& options_;
  const Model& model_;
  const ModelInfo& info_;
  ops::MachineLimits limits_;
};

Json to_json(const BenchOptions& options, const LoadedModel& loaded, const ops::MachineLimits& limits,
             const std::vector<Row>& rows) {
  Json results = Json::array();
  for (const auto& row : rows)
    results.push_back({{"work", row.work},
                       {"tokens", row.tokens},
                       {"depth", row.depth},
                       {"tok_s", row.rate.median},
                       {"tok_s_min", row.rate.low},
                       {"tok_s_max", row.rate.high},
                       {row.unit, row.physical},
                       {"share_of_limit", row.physical / row.limit}});
  return {{"model", loaded.info.name},
          {"parameters", loaded.info.parameters},
          {"weight_mb", loaded.info.weight_bytes / 1e6},
          {"read_mb_per_token", loaded.info.bytes_per_token / 1e6},
          {"threads", thread_count()},
          {"kernels", ops::cpu_target()},
          {"precise", ops::precise()},
          {"reps", options.reps},
          {"limits",
           {{"memory_gb_s", limits.memory_gb_s},
            {"cache_gb_s", limits.cache_gb_s},
            {"int8_gop_s", limits.int8_gop_s},
            {"fp32_gflop_s", limits.fp32_gflop_s}}},
          {"results", results}};
}

Result<int> bench(const BenchOptions& options) {
  ops::set_backend(options.model.reference ? ops::Backend::reference : ops::Backend::cpu);
  ops::set_precise(options.model.precise);
  set_thread_count(options.model.threads);
  TRY(const auto loaded, load_model(options.model.model));
  const Bench run(options, loaded);
  const auto& limits = run.limits();
  if (!options.json) {
    fmt::print(
        "{}: {:.0f} M parameters, {:.1f} MB of weights ({:.1f} MB read a token), {} threads, {} kernels{}\n",
        loaded.info.name, loaded.info.parameters / 1e6, loaded.info.weight_bytes / 1e6,
        loaded.info.bytes_per_token / 1e6, thread_count(), ops::cpu_target(),
        ops::precise() ? ", fp32 activations" : "");
    fmt::print(
        "this machine: memory {:.1f} GB/s, cache {:.1f} GB/s, int8 {:.0f} GOP/s, fp32 {:.0f} GFLOP/s\n\n",
        limits.memory_gb_s, limits.cache_gb_s, limits.int8_gop_s, limits.fp32_gflop_s);
    fmt::print("{:<16} {:>10} {:>21} {:>16} {:>10}\n", "work", "tok/s", "min - max", "rate", "of limit");
  }
  std::vector<Row> rows;
  const auto report = [&](Row row) {
    if (!options.json) {
      fmt::print("{:<16} {:>10.1f} {:>10.1f} -{:>9.1f} {:>10.1f} {:<5} {:>8.0f} %\n", row.work,
                 row.rate.median, row.rate.low, row.rate.high, row.physical, row.unit,
                 100 * row.physical / row.limit);
      std::fflush(stdout);
    }
    rows.push_back(std::move(row));
  };
  for (const int tokens : options.prefill) report(run.prefill(tokens));
  if (options.decode > 0)
    for (const int depth : options.depths) report(run.decode(options.decode, depth));
  if (options.json) fmt::print("{}\n", to_json(options, loaded, limits, rows).dump(2));
  return 0;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  auto result = bench(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
