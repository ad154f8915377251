// What the CUDA kernels do on this card: models of Qwen3.5's true shapes with random 4-bit weights (group 64)
// in decode, verification, many streams and prefill, then each kernel alone beside the memory it must move or
// the operations it must do.
//   gpu_bench [MODEL ...] [PART ...]
//   models: 9b 0.8b 35b; parts: decode rows streams prefill (of each model, where no part is named), long,
//   profile, timeline (works for a tracer: bench/gpu/timeline.py), formats (alone: with weights of each
//   packed kind), and without a model: kernels, experts
// docs/internals/cuda.md has its tables.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "base/clock.h"
#include "models/model_bytes.h"
#include "nn/moe.h"
#include "ops/cuda/device.h"
#include "ops/elementwise.h"
#include "ops/open.h"
#include "ops/profile.h"

namespace anabranch {
namespace {

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::unique_ptr<Device> opened;  // while the benchmark runs
ops::cuda::CudaDevice& card() {
  return static_cast<ops::cuda::CudaDevice&>(*opened);
}

// What the weights are made of.
struct WeightFormat {
  const char* name;
  WeightKind kind;
  int bits, group;
  bool symmetric;
  CodeTable table{};
};
constexpr CodeTable kIq4{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    kFp4{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr WeightFormat kFormats[] = {{"4 bits, groups of 64", WeightKind::affine, 4, 64, false},
                                     {"4 bits, groups of 32", WeightKind::affine, 4, 32, false},
                                     {"AWQ, GPTQ: 4 bits, groups of 128", WeightKind::affine, 4, 128, false},
                                     {"IQ4: table, groups of 32", WeightKind::table, 4, 32, true, kIq4},
                                     {"MXFP4: table, groups of 32", WeightKind::table, 4, 32, true, kFp4},
                                     {"NVFP4: table, groups of 16", WeightKind::table, 4, 16, true, kFp4},
                                     {"8 bits, groups of 64", WeightKind::affine, 8, 64, false},
                                     {"FP8, blocks of 128", WeightKind::fp8, 8, 128, true},
                                     {"bf16", WeightKind::bf16, 0, 0, false}};
const WeightFormat* format = kFormats;  // of the weights that are made

// Random codes; values of variance about 1 / inputs, as a trained matrix has.
ops::Weight random_weight(int64_t rows, int64_t cols) {
  static uint64_t seed = 0;
  WeightSource s;
  s.rows = rows;
  s.cols = cols;
  s.kind = format->kind;
  s.bits = format->bits;
  s.group = format->group;
  s.scale_type = ScaleType::bf16;
  s.symmetric = format->symmetric;
  s.table = format->table;
  // Of a code, its size in codes: integers 4.6 of 4 bits and 74 of 8, E4M3 numbers below 2.
  const float of_code = s.kind == WeightKind::table ? static_cast<float>(s.table[7]) / 2
                        : s.kind == WeightKind::fp8 ? 1.0f
                                                    : static_cast<float>(1 << s.bits) / 3.5f;
  const float scale =
      std::exp2(std::floor(-std::log2(std::abs(of_code) * std::sqrt(static_cast<float>(cols)))));
  s.read_codes = [s, cols, scale, own = ++seed](int64_t first, int64_t count, uint8_t* codes, float* scales,
                                                float* biases) {
    const int mask = s.kind == WeightKind::fp8 ? 0xBF : (1 << s.bits) - 1;
    for (int64_t i = 0; i < count * cols; i += 8) {
      const uint64_t bits = mixed(own * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(first * cols + i));
      for (int64_t j = 0; j < 8 && i + j < count * cols; j++)
        codes[i + j] = static_cast<uint8_t>(bits >> (8 * j) & static_cast<uint64_t>(mask));
    }
    std::fill_n(scales, count * (cols / s.group), scale);
    if (!s.symmetric) std::fill_n(biases, count * (cols / s.group), -static_cast<float>(mask) / 2 * scale);
  };
  s.read_dense = [cols, own = seed](int64_t first, int64_t count, float* values) {
    const float size = 1 / std::sqrt(static_cast<float>(cols));
    for (int64_t i = 0; i < count * cols; i++)
      values[i] =
          size *
          static_cast<float>(static_cast<int8_t>(mixed(own + static_cast<uint64_t>(first * cols + i)))) / 74;
  };
  return ops::Weight::make(card(), s);
}

Tensor random_tensor(const Shape& shape, float centre, float spread) {
  static uint64_t seed = 1 << 20;
  Tensor x = host_device().empty(shape, Dtype::f32);
  for (int64_t i = 0; i < x.size(); i++)
    x.data<float>()[i] = centre + spread * static_cast<float>(static_cast<int32_t>(mixed(++seed)) * 0x1p-31);
  return card().to_device(x);
}

struct ModelShape {
  const char* name;
  int hidden, layers, intermediate, heads, kv_heads, key_heads, value_heads;
  bool tied;
  int vocab = 248320, head_dim = 256, delta_dim = 128;
  int experts = 0, top_k = 0;  // experts of `intermediate`, and one more that every row uses; 0: none
};
const ModelShape k9b{"9B", 4096, 32, 12288, 16, 4, 16, 32, false};
const ModelShape k08b{"0.8B", 1024, 24, 3584, 8, 2, 16, 16, true};
const ModelShape k35b{"35B-A3B", 2048, 40, 512, 16, 2, 16, 32, false, 248320, 256, 128, 256, 8};

nn::Linear linear(int out, int in) {
  return {random_weight(out, in), {}};
}
nn::Norm norm(int width) {
  return {{random_tensor({width}, 1.0f, 0.1f), 1e-6f}};
}

nn::Moe random_moe(const ModelShape& s) {
  const auto stack = [&](int rows, int cols) {
    return ops::ExpertMatrices{random_weight(int64_t{s.experts} * rows, cols), s.experts, rows};
  };
  nn::Moe moe;
  moe.routing.top_k = s.top_k;
  moe.router = random_weight(s.experts, s.hidden);
  moe.gate = stack(s.intermediate, s.hidden);
  moe.up = stack(s.intermediate, s.hidden);
  moe.down = stack(s.hidden, s.intermediate);
  moe.shared =
      nn::Moe::Shared{random_weight(s.intermediate, s.hidden), random_weight(s.intermediate, s.hidden),
                      random_weight(s.hidden, s.intermediate), random_weight(1, s.hidden)};
  return moe;
}
// Every fourth layer has the same experts, which are then no longer in the cache.
nn::FeedForward random_feed_forward(const ModelShape& s, std::vector<nn::Moe>& known) {
  if (s.experts == 0)
    return nn::Mlp{linear(s.intermediate, s.hidden), linear(s.intermediate, s.hidden),
                   linear(s.hidden, s.intermediate)};
  constexpr size_t kDifferent = 4;
  if (known.size() < kDifferent) known.push_back(random_moe(s));
  std::rotate(known.begin(), known.end() - 1, known.end());
  return known.front();
}

std::unique_ptr<Model> random_model(const ModelShape& s) {
  ModelSpec spec;
  spec.family = "qwen3_5";
  spec.hidden = s.hidden;
  spec.vocab = s.vocab;
  spec.context_length = 262144;
  spec.tied_embeddings = s.tied;
  ops::Rope rope;
  for (int i = 0; i < 32; i++) rope.inv_freq.push_back(std::pow(1e7f, -static_cast<float>(i) / 32.0f));
  spec.ropes = {rope};
  const FeedForwardSpec feed_forward =
      s.experts > 0 ? FeedForwardSpec(MoeSpec{{.top_k = s.top_k}, s.experts, s.intermediate, s.intermediate})
                    : FeedForwardSpec(MlpSpec{s.intermediate});
  const ops::RecurrenceShape delta{s.key_heads, s.value_heads, s.delta_dim, s.delta_dim, 4};
  std::vector<nn::DecoderLayer> layers;
  std::vector<nn::Moe> mixtures;
  for (int i = 0; i < s.layers; i++) {
    const auto norm1 = norm(s.hidden), norm2 = norm(s.hidden);
    if (i % 4 != 3) {
      const int values = s.value_heads * s.delta_dim;
      nn::Recurrence mixer{
          delta,
          {random_tensor({4, delta.conv_channels()}, 0.0f, 0.5f), random_tensor({s.value_heads}, 0, 1),
           random_tensor({s.value_heads}, 0, 1), random_tensor({s.delta_dim}, 1, 0.1f)},
          linear(delta.conv_channels(), s.hidden),
          linear(values, s.hidden),
          linear(s.value_heads, s.hidden),
          linear(s.value_heads, s.hidden),
          linear(s.hidden, values)};
      layers.push_back({norm1, std::move(mixer), norm2, random_feed_forward(s, mixtures)});
      spec.layers.push_back({delta, feed_forward});
      continue;
    }
    nn::Attention mixer;
    mixer.heads = s.heads;
    mixer.kv_heads = s.kv_heads;
    mixer.head_dim = s.head_dim;
    mixer.scores.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    mixer.rope = rope;
    const int width = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    mixer.q = linear(width, s.hidden);
    mixer.k = linear(kv, s.hidden);
    mixer.v = linear(kv, s.hidden);
    mixer.o = linear(s.hidden, width);
    mixer.gate = linear(width, s.hidden);
    mixer.q_norm = norm(s.head_dim);
    mixer.k_norm = norm(s.head_dim);
    layers.push_back({norm1, std::move(mixer), norm2, random_feed_forward(s, mixtures)});
    spec.layers.push_back(
        {AttentionSpec{s.heads, s.kv_heads, s.head_dim, 0, false, false, true, true}, feed_forward});
  }
  auto embedding = random_weight(s.vocab, s.hidden);
  auto head = s.tied ? embedding : random_weight(s.vocab, s.hidden);
  return std::make_unique<Model>(std::move(spec), ModelWeights{std::move(embedding),
                                                               {},
                                                               Ranks({{&card(), std::move(layers)}}),
                                                               norm(s.hidden),
                                                               OutputHead(std::move(head))});
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Run {
  const Model& model;

  void prefill(SequenceState& state, int tokens, int chunk) const {
    for (int done = 0; done < tokens;) {
      const int n = std::min(chunk, tokens - done);
      std::vector<int> ids(static_cast<size_t>(n));
      for (int i = 0; i < n; i++) ids[i] = static_cast<int>(mixed(done + i) % 200000);
      done += n;
      Batch batch;
      batch.add(state, ids, done == tokens ? Batch::Logits::last : Batch::Logits::none);
      const auto out = model.forward(batch);
      if (done == tokens) ops::best_of_rows(out.logits);
    }
  }

  double prefill_rate(int tokens, int chunk) const {
    std::vector<double> rates;
    for (int rep = 0; rep < 4; rep++) {
      auto state = model.make_state();
      const double start = now_seconds();
      prefill(state, tokens, chunk);
      if (rep > 0) rates.push_back(tokens / (now_seconds() - start));
    }
    return median(rates);
  }

  // Seconds of a step of `rows` tokens of each of `streams` sequences, each `depth` tokens long.
  double step(int streams, int rows, int depth, int steps = 64) const {
    std::vector<SequenceState> states;
    {
      auto first = model.make_state();
      if (depth > 0) prefill(first, depth, 2048);
      for (int i = 0; i < streams; i++) states.push_back(first);
    }
    std::vector<int> next(static_cast<size_t>(streams * rows), 17);
    std::vector<double> times;
    for (int i = 0; i < steps; i++) {
      const double start = now_seconds();
      Batch batch;
      for (int s = 0; s < streams; s++) {
        if (rows > 1) states[s].open();
        batch.add(states[s], {next.data() + s * rows, static_cast<size_t>(rows)}, Batch::Logits::all);
      }
      next = ops::best_of_rows(model.forward(batch).logits);
      for (auto& state : states)
        if (rows > 1) state.commit(rows);
      if (i >= 8) times.push_back(now_seconds() - start);
    }
    return median(times);
  }

  void line(const std::string& work, double rate, double seconds) const {
    fmt::print("  {:<28} {:>9.1f} tok/s {:>9.3f} ms a step {:>7.0f} GB/s of weights\n", work, rate,
               seconds * 1e3, static_cast<double>(bytes_per_token(model)) / seconds / 1e9);
    std::fflush(stdout);
  }
  void decode(std::initializer_list<int> depths, int steps = 64) const {
    for (const int depth : depths) {
      const double t = step(1, 1, depth, steps);
      line(fmt::format("decode, prompt {}", depth), 1 / t, t);
    }
  }
  // Tokens of one sequence: a draft's verification.
  void rows() const {
    const double one = step(1, 1, 512);
    for (const int rows : {2, 4, 8, 16}) {
      const double t = step(1, rows, 512);
      line(fmt::format("{} rows: {:.2f}x of one", rows, t / one), rows / t, t);
    }
  }
  void streams() const {
    const double one = step(1, 1, 512);
    for (const int streams : {4, 8, 16, 32, 64, 128, 256}) {
      const double t = step(streams, 1, 512);
      line(fmt::format("{} streams: {:.1f}x of one", streams, streams * one / t), streams / t, t);
    }
  }
  void prefills(std::initializer_list<std::pair<int, int>> works) const {
    for (const auto& [tokens, chunk] : works) {
      const double rate = prefill_rate(tokens, chunk);
      line(fmt::format("prefill {}, chunks of {}", tokens, chunk), rate, tokens / rate);
    }
  }
  // What a tracer of kernels needs: each work begins and ends with a pause, and has been done before. Every
  // step and every prefill ends with a copy to the host.
  void timeline(const ModelShape& shape) const {
    struct Work {
      const char* name;
      std::function<void()> run;
    };
    const Work works[] = {{"decode, 1 stream", [&] { step(1, 1, 512, 40); }},
                          {"decode, 32 streams", [&] { step(32, 1, 512, 40); }},
                          {"decode, 128 streams", [&] { step(128, 1, 512, 40); }},
                          {"prefill 4096", [&] {
                             auto state = model.make_state();
                             prefill(state, 4096, 4096);
                           }}};
    for (const Work& work : works) {
      work.run();
      const double start = now_seconds();
      work.run();
      fmt::print("  timeline: {}, {}, {:.6f} to {:.6f}\n", shape.name, work.name, start, now_seconds());
      std::fflush(stdout);
    }
  }

  void profile(int rows, int depth) const {
    auto state = model.make_state();
    if (depth > 0) prefill(state, depth, 2048);
    for (int warm = 0; warm < 2; warm++) {
      ops::set_profiling(card(), warm == 1);
      auto copy = state;
      prefill(copy, rows, rows);
    }
    ops::set_profiling(card(), false);
    fmt::print("  profile of {} rows after {} (the device waited for after each stage):\n", rows, depth);
    for (const auto& row : card().profile().rows)
      fmt::print("    {:<46} {:>5} calls {:>9.1f} us each {:>9.2f} ms\n", row.stage, row.calls,
                 1e6 * row.seconds / row.calls, 1e3 * row.seconds);
  }
};

// Seconds of `work(i)`, by events around many of them.
double timed(const std::function<void(int)>& work) {
  constexpr int kTimes = 24;
  std::vector<double> times;
  ops::cuda::Event begin(card().context()), end(card().context());
  for (int rep = 0; rep < 6; rep++) {
    begin.record();
    for (int i = 0; i < kTimes; i++) work(i);
    end.record();
    const double t = begin.seconds_until(end) / kTimes;
    if (rep > 0) times.push_back(t);
  }
  return median(times);
}

void product_kernels(double bandwidth, double flops) {
  const struct { int n, k; } shapes[] = {{12288, 4096}, {4096, 12288}, {4096, 4096}};
  for (const auto [n, k] : shapes) {
    std::vector<ops::Weight> weights;
    for (int i = 0; i < 6; i++) weights.push_back(random_weight(n, k));
    fmt::print("  {} x {}:", n, k);
    for (const int rows : {1, 4, 8, 16, 24, 32}) {
      const auto x = random_tensor({rows, k}, 0, 1), r = random_tensor({rows, n}, 0, 1);
      const double t = timed([&](int i) { ops::linear_add(x, weights[i % 6], r); });
      fmt::print(" {} rows {:.1f} us {:.0f} GB/s {:.0f} %;", rows, t * 1e6, weights[0].bytes() / t / 1e9,
                 100 * weights[0].bytes() / t / bandwidth);
    }
    fmt::print("\n   ");
    for (const int rows : {64, 256, 1024, 4096}) {
      const auto x = random_tensor({rows, k}, 0, 1), r = random_tensor({rows, n}, 0, 1);
      const double t = timed([&](int i) { ops::linear_add(x, weights[i % 6], r); });
      const double work = 2.0 * rows * n * k;
      fmt::print(" {} rows {:.0f} us {:.0f} TFLOP/s {:.0f} %;", rows, t * 1e6, work / t / 1e12,
                 100 * work / t / flops);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

// `each` tokens of each of some sequences, whose states are in rotation too.
void delta_kernel(double bandwidth, int sequences, int each) {
  const ops::RecurrenceShape d{16, 32, 128, 128, 4};
  const ops::RecurrenceWeights weights{random_tensor({4, d.conv_channels()}, 0, 0.5f),
                                       random_tensor({32}, 0, 1), random_tensor({32}, 0, 1),
                                       random_tensor({128}, 1, 0.1f)};
  const int rows = sequences * each, sets = sequences > 1 ? 4 : 24;
  std::vector<ops::RecurrenceState> states;
  for (int i = 0; i < sets * sequences; i++) states.push_back(ops::make_recurrence_state(card(), d));
  const auto qkv = random_tensor({rows, d.conv_channels()}, 0, 1), z = random_tensor({rows, 4096}, 0, 1),
             b = random_tensor({rows, 32}, 0, 1), a = random_tensor({rows, 32}, 0, 1);
  const double t = timed([&](int i) {
    std::vector<ops::RecurrenceSpan> spans;
    for (int s = 0; s < sequences; s++)
      spans.push_back({&states[static_cast<size_t>(i % sets * sequences + s)], s * each, each});
    ops::recurrence({qkv, z, b, a}, d, weights, spans);
  });
  const double bytes = sequences * 2.0 * 32 * 128 * 128 * 4 + rows * (8192.0 + 2 * 4096 + 4096) * 4;
  fmt::print("  gated delta of 9B, {} sequences, {} rows each: {:.1f} us, {:.0f} GB/s {:.0f} %\n", sequences,
             each, t * 1e6, bytes / t / 1e9, 100 * bytes / t / bandwidth);
}

void attention_kernels(double bandwidth) {
  for (const int length : {512, 4096, 32768}) {
    for (const int rows : {1, 4, 512}) {
      std::vector<ops::PagedKv> caches;
      for (int i = 0; i < 4; i++) {
        caches.push_back({4, 256});
        const auto k = random_tensor({length - rows, 4, 256}, 0, 1);
        if (length > rows) ops::kv_append(caches.back(), k, k);
      }
      const auto q = random_tensor({rows, 16, 256}, 0, 1);
      const auto k = random_tensor({rows, 4, 256}, 0, 1);
      for (auto& cache : caches) ops::kv_append(cache, k, k);
      const double t = timed([&](int i) { ops::attention(q, caches[i % 4], {0.0625f}); });
      const double bytes = 2.0 * length * 4 * 256 * 2;
      fmt::print("  attention of 9B, {} rows at {}: {:.1f} us, {:.0f} GB/s {:.0f} %, {:.1f} TFLOP/s\n", rows,
                 length, t * 1e6, bytes / t / 1e9, 100 * bytes / t / bandwidth,
                 4.0 * rows * 16 * 256 * length / t / 1e12);
    }
  }
}

void kernels(double bandwidth, double flops) {
  fmt::print("kernels alone (weights in rotation, larger than the cache); us, GB/s or TFLOP/s, share\n");
  product_kernels(bandwidth, flops);
  for (const int rows : {1, 4, 16, 4096}) delta_kernel(bandwidth, 1, rows);
  for (const int sequences : {8, 32}) delta_kernel(bandwidth, sequences, 1);
  attention_kernels(bandwidth);
}

// A layer's mixture of experts, with its router, beside the bytes of the experts that its rows use.
void expert_kernels(double bandwidth, double flops) {
  const ModelShape& s = k35b;
  std::vector<nn::Moe> layers;
  for (int i = 0; i < 4; i++) layers.push_back(random_moe(s));
  const auto norm = random_tensor({s.hidden}, 1, 0.1f);
  const double all = static_cast<double>(layers[0].gate->weight.bytes() * 3);
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048, 4096}) {
    const auto x = random_tensor({rows, s.hidden}, 0, 1);
    const nn::Norm n{{norm, 1e-6f}};
    const double t = timed([&](int i) { layers[static_cast<size_t>(i % 4)]({x, &n}, {&x, std::nullopt}); });
    const double bytes =
        all * (1 - std::pow(1 - static_cast<double>(s.top_k) / s.experts, rows)) + all / s.experts;
    const double work = 6.0 * rows * (s.top_k + 1) * s.hidden * s.intermediate;
    fmt::print("  experts of 35B-A3B, {} rows: {:.1f} us, {:.0f} GB/s {:.0f} %, {:.1f} TFLOP/s {:.1f} %\n",
               rows, t * 1e6, bytes / t / 1e9, 100 * bytes / t / bandwidth, work / t / 1e12,
               100 * work / t / flops);
    std::fflush(stdout);
  }
}

// What a user meets, for each packed kind of weights.
void formats(const ModelShape& shape) {
  for (const WeightFormat& f : kFormats) {
    format = &f;
    const auto model = random_model(shape);
    const Run bench{*model};
    fmt::print("{}, {}: {:.2f} GB read a token\n", shape.name, f.name,
               static_cast<double>(bytes_per_token(*model)) / 1e9);
    bench.decode({512});
    for (const int streams : {8, 32}) {
      const double t = bench.step(streams, 1, 512);
      bench.line(fmt::format("{} streams", streams), streams / t, t);
    }
    bench.prefills({{4096, 4096}});
  }
  format = kFormats;
}

void run_parts(const Run& bench, const ModelShape& shape, double bandwidth,
               const std::function<bool(const char*)>& asked) {
  const double bytes = static_cast<double>(bytes_per_token(bench.model));
  fmt::print("{}: {:.2f} GB read a token; the limit of decode is {:.0f} tok/s\n", shape.name, bytes / 1e9,
             bandwidth / bytes);
  if (asked("decode")) bench.decode({512, 4096});
  if (asked("rows")) bench.rows();
  if (asked("streams")) bench.streams();
  if (asked("prefill")) bench.prefills({{512, 512}, {4096, 2048}, {4096, 4096}});
  if (asked("long")) {
    bench.decode({32768, 131072}, 24);
    bench.prefills({{32768, 2048}});
  }
  if (asked("profile")) {
    bench.profile(1, 512);
    bench.profile(4096, 0);
  }
  if (asked("timeline")) bench.timeline(shape);
}

int run(int count, char** words) {
  const std::vector<std::string> wanted(words, words + count);
  const auto named = [&](const std::string& word) {
    return std::find(wanted.begin(), wanted.end(), word) != wanted.end();
  };
  const auto asked = [&](const char* word) { return wanted.empty() || named(word); };
  const std::vector<std::string> usual = {"decode", "rows", "streams", "prefill"},
                                 more = {"long", "profile", "timeline", "formats"};
  const bool all_usual =
      std::none_of(usual.begin(), usual.end(), named) && std::none_of(more.begin(), more.end(), named);
  const auto part = [&](const char* word) {
    return named(word) || (all_usual && std::find(usual.begin(), usual.end(), word) != usual.end());
  };
  auto device = ops::open_device({.name = "cuda"});
  if (!device) {
    fmt::print(stderr, "error: {}\n", device.error().message);
    return 1;
  }
  opened = std::move(device).value();
  const double bandwidth = ops::cuda::copy_rate(card().context()), flops = card().info().tensor_flops;
  fmt::print("{}: a copy moves {:.0f} GB/s; bf16 {:.0f} TFLOP/s by the data sheet\n", card().name(),
             bandwidth / 1e9, flops / 1e12);
  for (const auto& [shape, name] : {std::pair{&k9b, "9b"}, {&k08b, "0.8b"}, {&k35b, "35b"}}) {
    if (!asked(name)) continue;
    if (named("formats")) {
      formats(*shape);
      continue;
    }
    const double start = now_seconds();
    const auto model = random_model(*shape);
    fmt::print("{} made in {:.1f} s\n", shape->name, now_seconds() - start);
    run_parts({*model}, *shape, bandwidth, part);
  }
  if (asked("kernels")) kernels(bandwidth, flops);
  if (asked("experts")) expert_kernels(bandwidth, flops);
  opened.reset();
  return 0;
}

}  // namespace
}  // namespace anabranch

int main(int count, char** words) {
  return anabranch::run(count - 1, words + 1);
}
