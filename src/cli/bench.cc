// `bench`: prefill and decode speed, compared with the limits of the machine.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/limits.h"
#include "cli/conversation.h"
#include "cli/made_up_tokens.h"
#include "cli/print.h"
#include "cli/spread.h"
#include "engine/loader.h"
#include "models/model_bytes.h"
#include "ops/probe.h"
#include "ops/profile.h"
#include "ops/table.h"

namespace anabranch::cli {
namespace {

struct Row {
  std::string work;            // "pp512", "tg128", "tg128 @ d4096", "4 rows"
  int tokens = 0, passes = 0;  // of one repetition
  int depth = 0;
  Spread rate;          // tok/s
  double physical = 0;  // GB/s (decode) or GOP/s (prefill) at the median
  double limit = 0;     // the machine's limit, same unit
  const char* unit = "";
  double seconds = 0;  // of all timed repetitions, like the profile
  std::vector<ProfileRow> profile;
  std::vector<std::vector<uint64_t>> expert_rows;  // for each mixture of experts

  double ms_per_pass() const { return 1e3 * tokens / rate.median / passes; }
};

class Bench {
 public:
  Bench(const BenchOptions& options, const LoadedModel& loaded)
      : options_(options),
        chunk_(options.chunk > 0 ? options.chunk : loaded.device->prefill_chunk()),
        model_(*loaded.model),
        info_(loaded.info),
        limits_(ops::measure_limits(*loaded.device)) {}

  Row prefill(int tokens) const {
    std::vector<double> rates;
    for (int rep = -1; rep < options_.reps; rep++) {
      auto state = model_.make_state();
      if (rep == 0) begin_profile();
      const double start = now_seconds();
      feed(state, tokens, chunk_, Feed::prefill);
      if (rep >= 0) rates.push_back(tokens / (now_seconds() - start));  // rep -1 warms up
    }
    Row row;
    row.work = fmt::format("pp{}", tokens);
    row.tokens = tokens;
    row.passes = (tokens + chunk_ - 1) / chunk_;
    // The head runs for one row only, so its parameters are not counted.
    const auto& spec = model_.spec();
    const double table = static_cast<double>(spec.vocab) * spec.hidden;
    const double layers = info_.parameters - table * (spec.tied_embeddings ? 1 : 2);
    // Dense weights (16 bits each or more) are multiplied in fp32. Of the experts, only those used by one
    // token count.
    const std::vector<uint64_t> all = count_bytes(model_).layers;
    const double bytes = std::accumulate(all.begin(), all.end(), 0.0),
                 read = static_cast<double>(layer_bytes_per_token(model_));
    const bool dense = bytes > 1.5 * layers;
    const bool in_fp32 = (options_.engine.device.precise || dense) && model_.device().is_host();
    row.limit = in_fp32 ? limits_.fp32_gflop_s : limits_.int8_gop_s;
    row.unit = "GOP/s";
    finish(row, rates);
    row.physical = 2 * layers * read / bytes * row.rate.median / 1e9;
    return row;
  }

  Row decode(int tokens, int depth) const {
    Row row = step(tokens, 1, depth);
    row.work = fmt::format("tg{}", tokens) + at_depth(depth);
    return row;
  }

  // Passes of `rows` tokens of one sequence, with logits for each: the cost of verifying a draft. More rows
  // than a draft can have are applied like a prompt's.
  Row verify(int rows, int depth) const {
    Row row = step(rows * kVerifyPasses, rows, depth);
    row.work = fmt::format("{} row{}", rows, rows > 1 ? "s" : "") + at_depth(depth);
    return row;
  }

  const ops::MachineLimits& limits() const { return limits_; }

 private:
  static constexpr int kVerifyPasses = 16;

  static std::string at_depth(int depth) { return depth > 0 ? fmt::format(" @ d{}", depth) : ""; }

  void begin_profile() const {
    ops::set_profiling(model_.device(), options_.profile);
    if (options_.profile) expert_rows_before_ = model_.device().expert_rows();
  }
  void finish(Row& row, const std::vector<double>& rates) const {
    row.rate = spread_of(rates);
    for (const double rate : rates) row.seconds += row.tokens / rate;
    if (options_.profile) {
      row.profile = model_.device().profile().rows;
      row.expert_rows = model_.device().expert_rows();
      for (size_t i = 0; i < expert_rows_before_.size(); i++)  // the same mixtures also ran in the warm-up
        for (size_t e = 0; e < expert_rows_before_[i].size(); e++)
          row.expert_rows[i][e] -= expert_rows_before_[i][e];
    }
    ops::set_profiling(model_.device(), false);
  }

  // `tokens` tokens, `rows` at a time, from `depth` on.
  Row step(int tokens, int rows, int depth) const {
    std::vector<double> rates;
    std::optional<SequenceState> deep;
    for (int rep = -1; rep < options_.reps; rep++) {
      if (!deep) {
        deep.emplace(model_.make_state());
        if (depth > 0) feed(*deep, depth, chunk_, Feed::prefill);
      }
      SequenceState state = *deep;  // shares full KV blocks, copies those that it changes
      if (rep == 0) begin_profile();
      const int n = rep < 0 ? std::min(tokens, 8 * rows) : tokens;
      const double start = now_seconds();
      feed(state, n, rows, rows > 1 && rows <= kMaxDraftTokens ? Feed::draft : Feed::decode);
      if (rep >= 0) rates.push_back(n / (now_seconds() - start));
    }
    Row row;
    row.tokens = tokens;
    row.passes = tokens / rows;
    row.depth = depth;
    row.limit = limits_.memory_gb_s;
    row.unit = "GB/s";
    finish(row, rates);
    const double mean_length = depth + tokens / 2.0;
    const double bytes = static_cast<double>(info_.bytes_per_token) + 2.0 * info_.state_bytes +
                         static_cast<double>(info_.kv_bytes_per_token) * mean_length;
    row.physical = bytes * row.rate.median / rows / 1e9;
    return row;
  }

  enum class Feed { prefill, decode, draft };

  // Applies `count` made-up tokens, `chunk` at a time. Gives logits for the last token only, for each, or for
  // each as draft tokens, which are then all accepted.
  void feed(SequenceState& state, int count, int chunk, Feed how) const {
    for (int done = 0; done < count;) {
      const int n = std::min(chunk, count - done);
      const auto ids = made_up_tokens(state.length(), n, model_.spec().vocab);
      done += n;
      const auto logits = how != Feed::prefill ? Batch::Logits::all
                          : done == count      ? Batch::Logits::last
                                               : Batch::Logits::none;
      if (how == Feed::draft) state.open();
      Batch batch;
      batch.add(state, ids, logits);
      to_host(model_.forward(batch).logits);
      if (how == Feed::draft) state.commit(n);
    }
  }

  const BenchOptions& options_;
  int chunk_;
  const Model& model_;
  const ModelInfo& info_;
  ops::MachineLimits limits_;
  mutable std::vector<std::vector<uint64_t>> expert_rows_before_;
};

std::string kernels_name(const LoadedModel& loaded) {
  return loaded.device->ops().kernels_name(*loaded.device);
}

Json to_json(const Row& row) {
  Json out = {{"work", row.work},           {"tokens", row.tokens},
              {"passes", row.passes},       {"depth", row.depth},
              {"tok_s", row.rate.median},   {"tok_s_min", row.rate.low},
              {"tok_s_max", row.rate.high}, {"ms_per_pass", row.ms_per_pass()},
              {row.unit, row.physical},     {"share_of_limit", row.physical / row.limit}};
  for (const auto& stage : row.profile)
    out["profile"].push_back({{"stage", stage.stage}, {"calls", stage.calls}, {"seconds", stage.seconds}});
  if (!row.expert_rows.empty()) out["expert_rows"] = row.expert_rows;
  return out;
}

// Bytes of weights that only drafts use, not plain decoding.
uint64_t bytes_for_drafts(const ModelInfo& info) {
  return info.mtp_bytes + info.draft_head_bytes;
}

Json to_json(const BenchOptions& options, const LoadedModel& loaded, const ops::MachineLimits& limits,
             const std::vector<Row>& rows) {
  Json results = Json::array();
  for (const auto& row : rows) results.push_back(to_json(row));
  return {{"model", loaded.info.name},
          {"parameters", loaded.info.parameters},
          {"weight_mb", loaded.info.weight_bytes / 1e6},
          {"weight_mb_for_drafts", bytes_for_drafts(loaded.info) / 1e6},
          {"read_mb_per_token", loaded.info.bytes_per_token / 1e6},
          {"threads", loaded.device->threads().size()},
          {"kernels", kernels_name(loaded)},
          {"precise", options.engine.device.precise},
          {"reps", options.reps},
          {"limits",
           {{"memory_gb_s", limits.memory_gb_s},
            {"cache_gb_s", limits.cache_gb_s},
            {"int8_gop_s", limits.int8_gop_s},
            {"fp32_gflop_s", limits.fp32_gflop_s}}},
          {"results", results}};
}

void print_columns() {
  say("{:<16} {:>10} {:>21} {:>12} {:>16} {:>10}\n", "work", "tok/s", "min - max", "ms a pass", "rate",
      "of limit");
}

void print_header(const BenchOptions& options, const LoadedModel& loaded, const ops::MachineLimits& limits) {
  const uint64_t for_drafts = bytes_for_drafts(loaded.info);
  say("{}: {:.0f} M parameters, {:.1f} MB of weights{} ({:.1f} MB read a token), {} threads, {} kernels{}\n",
      loaded.info.name, loaded.info.parameters / 1e6, loaded.info.weight_bytes / 1e6,
      for_drafts > 0 ? fmt::format(", {:.1f} of them for drafts", for_drafts / 1e6) : "",
      loaded.info.bytes_per_token / 1e6, loaded.device->threads().size(), kernels_name(loaded),
      options.engine.device.precise ? ", fp32 activations" : "");
  if (loaded.device->kind() == DeviceKind::cuda) {
    say("{}: memory {:.1f} GB/s, bf16 {:.0f} GFLOP/s by its data sheet\n\n", loaded.device->name(),
        limits.memory_gb_s, limits.int8_gop_s);
    return print_columns();
  }
  say("this machine: memory {:.1f} GB/s, cache {:.1f} GB/s, int8 {:.0f} GOP/s, fp32 {:.0f} GFLOP/s\n\n",
      limits.memory_gb_s, limits.cache_gb_s, limits.int8_gop_s, limits.fp32_gflop_s);
  print_columns();
}

// How evenly rows are spread over the experts of a mixture, as means over all mixtures.
void print_experts(const std::vector<std::vector<uint64_t>>& mixtures) {
  if (mixtures.empty()) return;
  double busiest = 0, even = 0, unused = 0;
  for (const auto& rows : mixtures) {
    const auto all = std::accumulate(rows.begin(), rows.end(), uint64_t{0});
    const auto count = static_cast<double>(rows.size() * mixtures.size());
    even += 1 / count;
    unused += static_cast<double>(std::count(rows.begin(), rows.end(), uint64_t{0})) / count;
    if (all > 0)
      busiest += static_cast<double>(*std::max_element(rows.begin(), rows.end())) /
                 static_cast<double>(all * mixtures.size());
  }
  say("    experts: the busiest has {:.1f} % of a mixture's rows (even: {:.1f} %), {:.0f} % have none\n",
      100 * busiest, 100 * even, 100 * unused);
}

void print_row(const BenchOptions& options, const Row& row) {
  say("{:<16} {:>10.1f} {:>10.1f} -{:>9.1f} {:>12.2f} {:>10.1f} {:<5} {:>8.0f} %\n", row.work,
      row.rate.median, row.rate.low, row.rate.high, row.ms_per_pass(), row.physical, row.unit,
      100 * row.physical / row.limit);
  if (row.profile.empty()) return;
  const double passes = static_cast<double>(row.passes) * options.reps;
  double elsewhere = row.seconds;
  const auto line = [&](const char* stage, double seconds) {
    say("    {:<46} {:>10.1f} us a pass {:>6.1f} %\n", stage, 1e6 * seconds / passes,
        100 * seconds / row.seconds);
  };
  for (const auto& stage : row.profile) {
    line(stage.stage, stage.seconds);
    elsewhere -= stage.seconds;
  }
  line("elsewhere", elsewhere);
  print_experts(row.expert_rows);
  std::fflush(stdout);
}

Result<int> bench(const BenchOptions& options) {
  TRY(const auto loaded, load_on_device(options.engine));
  const Bench run(options, loaded);
  if (!options.json) print_header(options, loaded, run.limits());
  std::vector<Row> rows;
  const auto report = [&](Row row) {
    if (!options.json) print_row(options, row);
    rows.push_back(std::move(row));
  };
  for (const int tokens : options.prefill) {
    if (tokens > 0) report(run.prefill(tokens));
  }
  for (const int depth : options.depths) {
    if (options.decode > 0) report(run.decode(options.decode, depth));
    for (const int n : options.rows) report(run.verify(n, depth));
  }
  if (options.json) say_json(to_json(options, loaded, run.limits(), rows), 2);
  return 0;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  auto result = bench(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
