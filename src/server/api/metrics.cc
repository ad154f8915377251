#include "server/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace anabranch::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
const Buckets kGapSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 5};

const char* kind_name(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::chat:
      return "chat";
    case AnswerKind::completion:
      return "completion";
    case AnswerKind::message:
      return "message";
    default:
      return "token_count";
  }
}

// Metric families that are built for each scrape from counters that are kept elsewhere.
class Snapshot {
 public:
  explicit Snapshot(std::vector<MetricFamily>& families) : families_(families) {}
  void counter(const std::string& name, const std::string& help, double value) {
    family(name, help, MetricType::Counter);
    add({}, value);
  }
  void gauge(const std::string& name, const std::string& help, double value) {
    family(name, help, MetricType::Gauge);
    add({}, value);
  }
  void family(const std::string& name, const std::string& help, MetricType type) {
    families_.push_back({name, help, type, {}});
  }
  // Adds to the last family.
  void add(const std::vector<std::pair<std::string, std::string>>& labels, double value) {
    prometheus::ClientMetric metric;
    for (const auto& [label, text] : labels) metric.label.push_back({label, text});
    if (families_.back().type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }

 private:
  std::vector<MetricFamily>& families_;
};

// Resident memory of this process; negative if unknown (it is known on Linux).
double resident_bytes() {
  double bytes = -1;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    long size = 0, resident = 0;
    if (std::fscanf(file, "%ld %ld", &size, &resident) == 2)
      bytes = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
    std::fclose(file);
  }
  return bytes;
}

void add_engine(Snapshot& out, const EngineStats& stats) {
  out.gauge("anabranch_requests_running", "Sequences that run now", stats.running);
  out.gauge("anabranch_requests_queued", "Sequences that wait now", stats.queued);
  out.counter("anabranch_prompt_tokens_total", "Tokens of prompts, cached ones included",
              static_cast<double>(stats.prompt_tokens));
  out.counter("anabranch_completion_tokens_total", "Tokens sampled",
              static_cast<double>(stats.completion_tokens));
  out.counter("anabranch_preemptions_total",
              "Times that a running sequence had to wait again for want of memory",
              static_cast<double>(stats.preempted));
  out.counter("anabranch_logit_passes_total",
              "Passes that brought logits to the host, as greedy tokens need not",
              static_cast<double>(stats.logit_passes));
  out.gauge("anabranch_state_bytes", "Memory of running sequences' states",
            static_cast<double>(stats.state_bytes));
  out.gauge("anabranch_state_budget_bytes", "What they may take now",
            static_cast<double>(stats.state_budget_bytes));
  const auto& sources = stats.speculation.sources;
  const auto by_source = [&](const char* name, const char* help, long SpecCounters::Source::*count) {
    out.family(name, help, MetricType::Counter);
    for (int i = 1; i < kDraftSources; ++i)
      out.add({{"source", kDraftSourceNames[i]}}, static_cast<double>(sources[i].*count));
  };
  by_source("anabranch_drafted_tokens_total", "Tokens proposed by speculation",
            &SpecCounters::Source::drafted);
  by_source("anabranch_accepted_tokens_total", "Proposed tokens that were the model's own",
            &SpecCounters::Source::accepted);
}

void add_cache(Snapshot& out, const StateCacheStats& cache) {
  out.counter("anabranch_cache_lookups_total", "Requests that looked for a state",
              static_cast<double>(cache.lookups));
  out.family("anabranch_cache_hits_total", "Requests that found one, by where it was", MetricType::Counter);
  out.add({{"tier", "ram"}}, static_cast<double>(cache.ram_hits));
  out.add({{"tier", "disk"}}, static_cast<double>(cache.disk_hits));
  out.family("anabranch_cache_hit_tokens_total", "Tokens of prompts that need not be computed again",
             MetricType::Counter);
  out.add({{"tier", "ram"}}, static_cast<double>(cache.ram_tokens));
  out.add({{"tier", "disk"}}, static_cast<double>(cache.disk_tokens));
  out.family("anabranch_cache_bytes", "Size of the kept states", MetricType::Gauge);
  out.add({{"tier", "ram"}}, static_cast<double>(cache.ram_bytes));
  out.add({{"tier", "disk"}}, static_cast<double>(cache.disk_bytes));
}

// Of each mixture of experts: all rows of its experts, those of the busiest one, and how many had none.
void add_experts(Snapshot& out, const std::vector<std::vector<uint64_t>>& mixtures) {
  if (mixtures.empty()) return;
  const auto of_each = [&](const char* name, const char* help, MetricType type, const auto& value) {
    out.family(name, help, type);
    for (size_t i = 0; i < mixtures.size(); i++)
      out.add({{"mixture", std::to_string(i)}}, static_cast<double>(value(mixtures[i])));
  };
  using Rows = std::vector<uint64_t>;
  of_each("anabranch_expert_rows_total", "Rows that a mixture's experts were given", MetricType::Counter,
          [](const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), uint64_t{0}); });
  of_each("anabranch_busiest_expert_rows_total", "Those of the expert with the most", MetricType::Counter,
          [](const Rows& rows) { return *std::max_element(rows.begin(), rows.end()); });
  of_each("anabranch_experts_unused", "Experts that were given none", MetricType::Gauge,
          [](const Rows& rows) { return std::count(rows.begin(), rows.end(), uint64_t{0}); });
}

}  // namespace

struct Metrics::Series {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& responses = prometheus::BuildCounter()
                                                           .Name("anabranch_http_responses_total")
                                                           .Help("HTTP answers by route and status")
                                                           .Register(registry);
  prometheus::Family<prometheus::Counter>& answers = prometheus::BuildCounter()
                                                         .Name("anabranch_answers_total")
                                                         .Help("Generated answers by how they ended")
                                                         .Register(registry);
  prometheus::Family<prometheus::Histogram>& first_token =
      prometheus::BuildHistogram()
          .Name("anabranch_time_to_first_token_seconds")
          .Help("From a request's arrival to an answer's first tokens")
          .Register(registry);
  prometheus::Histogram& token_gap = prometheus::BuildHistogram()
                                         .Name("anabranch_token_gap_seconds")
                                         .Help("Between two deliveries of an answer's tokens")
                                         .Register(registry)
                                         .Add({}, kGapSeconds);
  prometheus::Histogram& queue_wait = prometheus::BuildHistogram()
                                          .Name("anabranch_queue_wait_seconds")
                                          .Help("From a sequence's submission to its first step")
                                          .Register(registry)
                                          .Add({}, kSeconds);
};

Metrics::Metrics() : series_(std::make_unique<Series>()) {}
Metrics::~Metrics() = default;

void Metrics::responded(std::string_view route, int status) {
  series_->responses.Add({{"route", std::string(route)}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::first_token(AnswerKind kind, double seconds) {
  series_->first_token.Add({{"kind", kind_name(kind)}}, kSeconds).Observe(seconds);
}

void Metrics::token_gap(double seconds) {
  series_->token_gap.Observe(seconds);
}

void Metrics::answered(AnswerKind kind, std::string_view how) {
  series_->answers.Add({{"kind", kind_name(kind)}, {"finish", std::string(how)}}).Increment();
}

void Metrics::waited_in_queue(double seconds) {
  series_->queue_wait.Observe(seconds);
}

std::string Metrics::text(const EngineStats& stats, const ModelInfo& info,
                          const std::vector<std::vector<uint64_t>>& expert_rows) const {
  std::vector<MetricFamily> families = series_->registry.Collect();
  Snapshot out(families);
  add_engine(out, stats);
  if (stats.cache) add_cache(out, *stats.cache);
  add_experts(out, expert_rows);
  out.gauge("anabranch_weight_bytes", "Memory of the weights",
            static_cast<double>(info.weight_bytes + info.draft_model_bytes));
  const double resident = resident_bytes();
  if (resident >= 0) out.gauge("process_resident_memory_bytes", "Resident memory of the process", resident);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace anabranch::server
