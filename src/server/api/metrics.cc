#include "server/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <numeric>

#include "base/limits.h"
#include "base/memory_info.h"

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
    case AnswerKind::response:
      return "response";
    case AnswerKind::compaction:
      return "compaction";
    case AnswerKind::message:
      return "message";
    case AnswerKind::ollama_chat:
      return "ollama_chat";
    case AnswerKind::ollama_generate:
      return "ollama_generate";
    case AnswerKind::llama_completion:
      return "llama_completion";
    case AnswerKind::infill:
      return "infill";
    case AnswerKind::generate:
      return "generate";
    default:
      return "token_count";
  }
}

// A loaded model at the time of a scrape.
struct Scraped {
  std::string name;
  EngineStats stats;
  std::vector<std::vector<uint64_t>> expert_rows;
  double weight_bytes;
  uint64_t kv_bytes_per_token;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// Metric families that are built at each scrape from counters kept elsewhere.
class Snapshot {
 public:
  explicit Snapshot(std::vector<MetricFamily>& families) : families_(families) {}
  void family(const std::string& name, const std::string& help, MetricType type) {
    families_.push_back({name, help, type, {}});
  }
  // Adds to the last family.
  void add(const Labels& labels, double value) {
    prometheus::ClientMetric metric;
    for (const auto& [label, text] : labels) metric.label.push_back({label, text});
    if (families_.back().type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  // Adds a family with one value for each model.
  template <class Value>
  void of_each(const std::vector<Scraped>& models, MetricType type, const std::string& name,
               const std::string& help, const Value& value) {
    family(name, help, type);
    for (const Scraped& model : models) add({{"model", model.name}}, static_cast<double>(value(model)));
  }

 private:
  std::vector<MetricFamily>& families_;
};

void add_engines(Snapshot& out, const std::vector<Scraped>& models) {
  constexpr auto kCounter = MetricType::Counter, kGauge = MetricType::Gauge;
  out.of_each(models, kGauge, "anabranch_requests_running", "Sequences that run now",
              [](const Scraped& m) { return m.stats.running; });
  out.of_each(models, kGauge, "anabranch_requests_queued", "Sequences that wait now",
              [](const Scraped& m) { return m.stats.queued; });
  out.of_each(models, kCounter, "anabranch_prompt_tokens_total", "Tokens of prompts, cached ones included",
              [](const Scraped& m) { return m.stats.prompt_tokens; });
  out.of_each(models, kCounter, "anabranch_completion_tokens_total", "Tokens sampled",
              [](const Scraped& m) { return m.stats.completion_tokens; });
  out.of_each(models, kCounter, "anabranch_preemptions_total",
              "Times that a running sequence had to wait again for want of memory",
              [](const Scraped& m) { return m.stats.preempted; });
  out.of_each(models, kCounter, "anabranch_logit_passes_total",
              "Passes that brought logits to the host, as greedy tokens need not",
              [](const Scraped& m) { return m.stats.logit_passes; });
  out.of_each(models, kCounter, "anabranch_device_busy_seconds_total",
              "Time in which the device worked on passes of the model",
              [](const Scraped& m) { return m.stats.busy_s; });
  out.of_each(models, kGauge, "anabranch_state_bytes",
              "Memory used by running sequences (KV cache and recurrent states)",
              [](const Scraped& m) { return m.stats.state_bytes; });
  out.of_each(models, kGauge, "anabranch_state_budget_bytes", "Memory that running sequences may use now",
              [](const Scraped& m) { return m.stats.state_budget_bytes; });
  out.of_each(models, kGauge, "anabranch_weight_bytes", "Memory of the weights",
              [](const Scraped& m) { return m.weight_bytes; });
}

void add_speculation(Snapshot& out, const std::vector<Scraped>& models) {
  const auto by_source = [&](const char* name, const char* help, long SpecCounters::Source::*count) {
    out.family(name, help, MetricType::Counter);
    for (const Scraped& m : models)
      for (int i = 1; i < kDraftSources; ++i)
        out.add({{"model", m.name}, {"source", kDraftSourceNames[i]}},
                static_cast<double>(m.stats.speculation.sources[i].*count));
  };
  by_source("anabranch_drafted_tokens_total", "Tokens proposed by speculation",
            &SpecCounters::Source::drafted);
  by_source("anabranch_accepted_tokens_total", "Proposed tokens that were the model's own",
            &SpecCounters::Source::accepted);
}

void add_caches(Snapshot& out, const std::vector<Scraped>& models) {
  const auto by_tier = [&](const char* name, const char* help, MetricType type, const auto& ram,
                           const auto& disk) {
    out.family(name, help, type);
    for (const Scraped& m : models) {
      if (!m.stats.cache) continue;
      out.add({{"model", m.name}, {"tier", "ram"}}, static_cast<double>((*m.stats.cache).*ram));
      out.add({{"model", m.name}, {"tier", "disk"}}, static_cast<double>((*m.stats.cache).*disk));
    }
  };
  out.family("anabranch_cache_lookups_total", "Requests that looked in the prefix cache",
             MetricType::Counter);
  for (const Scraped& m : models)
    if (m.stats.cache) out.add({{"model", m.name}}, static_cast<double>(m.stats.cache->lookups));
  using Stats = StateCacheStats;
  by_tier("anabranch_cache_hits_total", "Requests that found a prefix in the cache, by tier",
          MetricType::Counter, &Stats::ram_hits, &Stats::disk_hits);
  by_tier("anabranch_cache_hit_tokens_total", "Prompt tokens that were found in the prefix cache, by tier",
          MetricType::Counter, &Stats::ram_tokens, &Stats::disk_tokens);
  by_tier("anabranch_cache_bytes", "Bytes in the prefix cache, by tier", MetricType::Gauge, &Stats::ram_bytes,
          &Stats::disk_bytes);
}

// For each mixture of experts: the rows of all its experts, those of the busiest one, and the number of
// experts without any.
void add_experts(Snapshot& out, const std::vector<Scraped>& models) {
  if (std::ranges::all_of(models, [](const Scraped& m) { return m.expert_rows.empty(); })) return;
  const auto of_each = [&](const char* name, const char* help, MetricType type, const auto& value) {
    out.family(name, help, type);
    for (const Scraped& m : models)
      for (size_t i = 0; i < m.expert_rows.size(); i++)
        out.add({{"model", m.name}, {"mixture", std::to_string(i)}},
                static_cast<double>(value(m.expert_rows[i])));
  };
  using Rows = std::vector<uint64_t>;
  of_each("anabranch_expert_rows_total", "Rows that a mixture's experts were given", MetricType::Counter,
          [](const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), uint64_t{0}); });
  of_each("anabranch_busiest_expert_rows_total", "Those of the expert with the most", MetricType::Counter,
          [](const Rows& rows) { return *std::max_element(rows.begin(), rows.end()); });
  of_each("anabranch_experts_unused", "Experts that were given none", MetricType::Gauge,
          [](const Rows& rows) { return std::count(rows.begin(), rows.end(), uint64_t{0}); });
}

// Metrics that routers for vLLM look for, under vLLM's names. A block here is kKvBlock tokens of a running
// sequence.
void add_vllm_names(Snapshot& out, const std::vector<Scraped>& models) {
  constexpr auto kGauge = MetricType::Gauge;
  const auto add = [&](const char* name, const char* help, const auto& value) {
    out.family(name, help, kGauge);
    for (const Scraped& m : models) out.add({{"model_name", m.name}}, value(m));
  };
  add("vllm:num_requests_running", "Sequences that run now",
      [](const Scraped& m) { return m.stats.running; });
  add("vllm:num_requests_waiting", "Sequences that wait now",
      [](const Scraped& m) { return m.stats.queued; });
  add("vllm:kv_cache_usage_perc", "The share of the memory for running sequences that is in use, 0 to 1",
      [](const Scraped& m) {
        const auto budget = static_cast<double>(m.stats.state_budget_bytes);
        return budget > 0 ? std::min(1.0, static_cast<double>(m.stats.state_bytes) / budget) : 0.0;
      });
  out.family("vllm:cache_config_info",
             "Tokens in a block, and blocks that the memory for running sequences holds", kGauge);
  for (const Scraped& m : models) {
    const uint64_t block_bytes = m.kv_bytes_per_token * kKvBlock;
    const uint64_t blocks = block_bytes > 0 ? m.stats.state_budget_bytes / block_bytes : 0;
    out.add({{"model_name", m.name},
             {"block_size", std::to_string(kKvBlock)},
             {"num_gpu_blocks", std::to_string(blocks)}},
            1);
  }
}

// Metrics that llama-server's clients look for, under its names: sums over the models.
void add_llama_names(Snapshot& out, const std::vector<Scraped>& models) {
  const auto sum = [&](MetricType type, const char* name, const char* help, const auto& value) {
    double total = 0;
    for (const Scraped& m : models) total += static_cast<double>(value(m.stats));
    out.family(name, help, type);
    out.add({}, total);
  };
  constexpr auto kCounter = MetricType::Counter, kGauge = MetricType::Gauge;
  const auto cached = [](const EngineStats& s) { return s.cache ? s.cache->cached_tokens : 0; };
  sum(kCounter, "llamacpp:prompt_tokens_total", "Tokens of prompts that were computed",
      [&](const EngineStats& s) { return s.prompt_tokens - std::min<uint64_t>(s.prompt_tokens, cached(s)); });
  sum(kCounter, "llamacpp:prompt_tokens_cached_total", "Prompt tokens that were found in the prefix cache",
      cached);
  sum(kCounter, "llamacpp:tokens_predicted_total", "Tokens sampled",
      [](const EngineStats& s) { return s.completion_tokens; });
  sum(kCounter, "llamacpp:prompt_seconds_total", "Seconds of reading prompts, of ended requests",
      [](const EngineStats& s) { return s.prefill_s; });
  sum(kCounter, "llamacpp:tokens_predicted_seconds_total",
      "Seconds from the first token to the last, of ended requests",
      [](const EngineStats& s) { return s.decode_s; });
  sum(kCounter, "llamacpp:n_decode_total", "Passes of the model",
      [](const EngineStats& s) { return s.steps; });
  sum(kCounter, "llamacpp:n_tokens_max", "Tokens of the longest request",
      [](const EngineStats& s) { return s.longest; });
  const auto drafts = [](const EngineStats& s, auto count) {
    long total = 0;
    for (size_t i = 1; i < s.speculation.sources.size(); i++) total += s.speculation.sources[i].*count;
    return total;
  };
  using Source = SpecCounters::Source;
  sum(kCounter, "llamacpp:spec_decode_num_draft_tokens_total", "Tokens drafted, of ended requests",
      [&](const EngineStats& s) { return drafts(s, &Source::drafted); });
  sum(kCounter, "llamacpp:spec_decode_num_accepted_tokens_total", "Tokens of these that were accepted",
      [&](const EngineStats& s) { return drafts(s, &Source::accepted); });
  sum(kCounter, "llamacpp:spec_decode_num_drafts_total", "Drafts of these tokens",
      [&](const EngineStats& s) { return drafts(s, &Source::rounds); });
  const auto per = [](auto amount, double of) { return of > 0 ? static_cast<double>(amount) / of : 0.0; };
  sum(kGauge, "llamacpp:prompt_tokens_seconds", "Tokens of prompts that were computed, per second of it",
      [&](const EngineStats& s) {
        return per(s.prompt_tokens - std::min<uint64_t>(s.prompt_tokens, cached(s)), s.prefill_s);
      });
  sum(kGauge, "llamacpp:predicted_tokens_seconds", "Tokens behind the first of each answer, per second of it",
      [&](const EngineStats& s) {
        return per(s.completion_tokens - std::min(s.completion_tokens, s.finished), s.decode_s);
      });
  sum(kGauge, "llamacpp:n_busy_slots_per_decode", "Requests in a pass, on average",
      [&](const EngineStats& s) { return per(s.step_requests, static_cast<double>(s.steps)); });
  sum(kGauge, "llamacpp:requests_processing", "Sequences that run now",
      [](const EngineStats& s) { return s.running; });
  sum(kGauge, "llamacpp:requests_deferred", "Sequences that wait now",
      [](const EngineStats& s) { return s.queued; });
}

// Adds loads and unloads of every model that was ever requested.
void add_pool(Snapshot& out, const std::vector<const ModelPool::Entry*>& entries) {
  out.family("anabranch_model_loaded", "1 for models that are loaded", MetricType::Gauge);
  for (const auto* e : entries) out.add({{"model", e->name}}, e->model ? 1 : 0);
  out.family("anabranch_model_loads_total", "Times that a model was loaded, or could not be",
             MetricType::Counter);
  for (const auto* e : entries) {
    out.add({{"model", e->name}, {"result", "loaded"}}, static_cast<double>(e->loads));
    out.add({{"model", e->name}, {"result", "failed"}}, static_cast<double>(e->failed_loads));
  }
  out.family("anabranch_model_unloads_total", "Times that a model was unloaded, by the reason",
             MetricType::Counter);
  for (const auto* e : entries) {
    out.add({{"model", e->name}, {"reason", "idle"}}, static_cast<double>(e->idle_unloads));
    out.add({{"model", e->name}, {"reason", "room"}}, static_cast<double>(e->evictions));
    out.add({{"model", e->name}, {"reason", "asked"}}, static_cast<double>(e->asked_unloads));
  }
}

void add_spans(Snapshot& out, const SpanExporter::Counts& counts) {
  out.family("anabranch_trace_spans_total", "Spans of requests that the collector took, or that were dropped",
             MetricType::Counter);
  out.add({{"result", "sent"}}, static_cast<double>(counts.sent));
  out.add({{"result", "dropped"}}, static_cast<double>(counts.dropped));
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
  prometheus::Histogram& time_per_token = prometheus::BuildHistogram()
                                              .Name("anabranch_time_per_output_token_seconds")
                                              .Help("From an answer's first token to its last, per token")
                                              .Register(registry)
                                              .Add({}, kGapSeconds);
  prometheus::Histogram& queue_wait = prometheus::BuildHistogram()
                                          .Name("anabranch_queue_wait_seconds")
                                          .Help("From a sequence's submission to its first step")
                                          .Register(registry)
                                          .Add({}, kSeconds);
  prometheus::Counter& read_ahead = prometheus::BuildCounter()
                                        .Name("anabranch_read_ahead_tokens_total")
                                        .Help("Tokens of next prompts that were read while no request waited")
                                        .Register(registry)
                                        .Add({});
  prometheus::Counter& used_ahead = prometheus::BuildCounter()
                                        .Name("anabranch_read_ahead_used_tokens_total")
                                        .Help("Those of them that a request then found")
                                        .Register(registry)
                                        .Add({});
};

Metrics::Metrics(const SpanExporter* spans) : series_(std::make_unique<Series>()), spans_(spans) {}
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

void Metrics::time_per_token(double seconds) {
  series_->time_per_token.Observe(seconds);
}

void Metrics::waited_in_queue(double seconds) {
  series_->queue_wait.Observe(seconds);
}

void Metrics::read_ahead(int tokens) {
  series_->read_ahead.Increment(tokens);
}

void Metrics::used_ahead(int tokens) {
  series_->used_ahead.Increment(tokens);
}

std::string Metrics::text(const std::vector<const ModelPool::Entry*>& entries) const {
  std::vector<Scraped> models;
  for (const auto* entry : entries) {
    if (!entry->model) continue;
    const Engine& engine = *entry->model->engine;
    models.push_back({entry->name, engine.stats(), engine.expert_rows(), static_cast<double>(entry->bytes),
                      engine.info().kv_bytes_per_token});
  }
  std::vector<MetricFamily> families = series_->registry.Collect();
  Snapshot out(families);
  add_engines(out, models);
  add_speculation(out, models);
  add_caches(out, models);
  add_experts(out, models);
  add_llama_names(out, models);
  add_vllm_names(out, models);
  add_pool(out, entries);
  if (spans_) add_spans(out, spans_->counts());
  if (const uint64_t resident = resident_memory(); resident > 0) {
    out.family("process_resident_memory_bytes", "Resident memory of the process", MetricType::Gauge);
    out.add({}, static_cast<double>(resident));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace anabranch::server
