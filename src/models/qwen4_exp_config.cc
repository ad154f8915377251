// Qwen3.8-Flash-Next (qwen4_exp): Gated DeltaNet, attention over the positions that an index chooses,
// mixtures of experts, several residual streams, and embeddings of n-grams. References: Transformers'
// modeling_qwen4_exp.py and configuration_qwen4_exp.py, which also has the defaults of absent keys. Only text
// is run.
#include <algorithm>
#include <climits>

#include "models/hybrid_config.h"
#include "models/rope.h"

namespace anabranch {
namespace {

constexpr MoeKeys kQwen4Moe{.shared_width = "shared_expert_intermediate_size",
                            .default_shared = 512,
                            .shared_gate = true,
                            .normalise = "norm_topk_prob"};

ops::RecurrenceShape read_delta(ConfigReader& c) {
  ops::RecurrenceShape delta = hybrid::read_delta_net(c, 16, 32, 2);
  require_silu(c);
  const auto gate = c.string_or("output_gate_type", "silu");
  if (gate != "silu" && gate != "sigmoid") c.unsupported("output_gate_type", gate, "silu and sigmoid are");
  delta.sigmoid_gate = gate == "sigmoid";
  return delta;
}

// turned: how many of a head's dimensions turn, of the attention and of the index.
IndexedAttentionSpec read_indexed_attention(ConfigReader& c, const AttentionSpec& attention, int turned) {
  IndexedAttentionSpec out{attention};
  out.heads = c.integer("indexer_n_heads", 1, 4096);
  out.dim = c.integer("indexer_head_dim", 2, 1024);
  out.ratio = c.integer("indexer_compress_ratio", 1, 1 << 20);
  const int budget = c.integer("indexer_budget", 1, 1 << 27);
  if (c.integer("indexer_kv_heads", 1, 4096) != 1)
    c.unsupported("indexer_kv_heads", std::to_string(c.integer("indexer_kv_heads", 1, 4096)), "1 is");
  if (budget % out.ratio != 0) c.invalid("indexer_budget must be a multiple of indexer_compress_ratio");
  if (turned + turned % 2 > out.dim) c.invalid("indexer_head_dim is below the dimensions that turn");
  out.blocks = budget / out.ratio;
  return out;
}

bool is_prime(int64_t value) {
  for (int64_t divisor = 2; divisor * divisor <= value; divisor++)
    if (value % divisor == 0) return false;
  return value >= 2;
}

// Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators".
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
uint64_t split_mix(uint64_t value) {
  value += kGamma;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

// What the tables of all layers have in common.
struct NGramConfig {
  int longest, heads, width, multiple, taps, seed, end;
  int64_t least;  // size of a table
};

NGramConfig read_ngrams(ConfigReader& c, const Json& json, const ModelSpec& spec) {
  NGramConfig out{};
  out.longest = c.integer_or("ngram_size", 2, 16, 3);
  out.heads = c.integer_or("heads_per_ngram", 1, 64, 8);
  out.width = c.integer_or("ple_embed_dim", 1, 1 << 20, spec.hidden);
  out.multiple = c.integer_or("make_ngram_vocab_size_divisible_by", 1, 1 << 24, 128);
  out.taps = c.integer_or("ple_conv_kernel_size", 1, 1024, 4);
  out.seed = c.integer_or("seed", INT_MIN, INT_MAX, 1234);
  out.least = c.integer_or("ngram_vocab_size_base", 1, 1 << 30, 20'000'000);
  const auto ends = json.contains("eos_token_id") ? read_token_ids(json["eos_token_id"]) : std::vector<int>();
  if (ends.empty() || ends.front() >= spec.vocab)
    c.invalid("embeddings of n-grams need an \"eos_token_id\" below vocab_size");
  else
    out.end = ends.front();
  if (out.width % ((out.longest - 1) * out.heads) != 0)
    c.invalid("ple_embed_dim must be a multiple of (ngram_size - 1) * heads_per_ngram");
  if (const int rows = (out.taps - 1) * out.longest; rows >= kMaxConvKernel)
    c.unsupported("ple_conv_kernel_size", std::to_string(out.taps),
                  fmt::format("at most {} is, with this ngram_size", (kMaxConvKernel - 1) / out.longest + 1));
  return out;
}

// Each of a layer's tables has a prime number of rows, which no other table has. index: of the layer among
// those with n-grams. size: of the last table of the layers before it, and then of this one's.
NGramSpec ngrams_of_layer(ConfigReader& c, const NGramConfig& config, const ModelSpec& spec, int index,
                          int64_t& size) {
  NGramSpec out;
  out.width = config.width;
  out.tables.longest = config.longest;
  out.tables.end = config.end;
  const int count = (config.longest - 1) * config.heads;
  int64_t rows = 0;
  for (int i = 0; i < count && rows <= INT_MAX; i++) {
    do size++;
    while (!is_prime(size));
    out.tables.sizes.push_back(size);
    rows += size;
  }
  rows = (rows + config.multiple - 1) / config.multiple * config.multiple;
  if (rows > INT_MAX) c.invalid("the tables of n-grams have more than 2^31 rows (ngram_vocab_size_base)");
  out.rows = static_cast<int>(std::min<int64_t>(rows, INT_MAX));
  const int64_t most = INT64_MAX / spec.vocab, half = std::max<int64_t>(1, most / 2);
  const auto seed = static_cast<uint64_t>(int64_t{config.seed} + int64_t{10007} * index);
  for (int i = 1; i <= config.longest; i++) {
    const uint64_t drawn = split_mix(seed + kGamma * static_cast<uint64_t>(i)) % static_cast<uint64_t>(half);
    out.tables.multipliers.push_back(static_cast<int64_t>(2 * drawn + 1));
  }
  out.tokens = nn::token_memory(config.longest);
  out.convolution.channels = spec.streams.count * spec.hidden;
  out.convolution.conv_kernel = (config.taps - 1) * config.longest + 1;
  return out;
}

// "ple_layer_ids" counts layers from 1.
void add_ngrams(ConfigReader& c, const Json& json, ModelSpec& spec) {
  std::vector<int> ids = c.integers("ple_layer_ids");
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) return;
  const NGramConfig config = read_ngrams(c, json, spec);
  if (!c.check()) return;
  int64_t size = config.least - 1;
  for (size_t i = 0; i < ids.size() && c.check(); i++) {
    const auto layer = static_cast<size_t>(int64_t{ids[i]} - 1);
    if (ids[i] < 1 || layer >= spec.layers.size() || !recurrence_of(spec.layers[layer].mixer))
      return c.invalid(fmt::format("ple_layer_ids has {}, which is no layer of linear attention", ids[i]));
    spec.layers[layer].ngrams = ngrams_of_layer(c, config, spec, static_cast<int>(i), size);
  }
}

// Keys that this family's configs may lack, but the readers of other families' require.
Json with_defaults(Json json) {
  for (const auto& [key, value] :
       {std::pair{"num_experts", 512}, {"num_experts_per_tok", 10}, {"moe_intermediate_size", 512}})
    if (!json.contains(key) || json[key].is_null()) json[key] = value;
  return json;
}

std::vector<std::string> layer_types(ConfigReader& c) {
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 40);
  auto types = c.strings("layer_types");
  const int interval = c.integer_or("full_attention_interval", 1, 1024, 4);
  if (!c.has("layer_types"))
    for (int i = 1; i <= layers; i++)
      types.emplace_back(i % interval == 0 ? "indexed_attention" : "linear_attention");
  if (static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  return types;
}

}  // namespace

Result<ModelSpec> read_qwen4_exp_config(const Json& whole, const std::string& file) {
  const bool nested = whole.contains("text_config") && whole["text_config"].is_object();
  const Json json = with_defaults(nested ? whole["text_config"] : whole);
  ConfigReader c(json, nested ? file + " (text_config)" : file);
  ModelSpec spec;
  spec.family = "qwen4_exp";
  hybrid::read_sizes(c, {2048, 248320, 32768, "rms_norm_eps", 1e-6, false}, spec);
  spec.norms.offset = true;
  spec.streams = {c.integer_or("hc_count", 2, 64, 4), c.integer_or("hc_lowrank", 1, 1 << 16, 320)};
  AttentionSpec attention = hybrid::read_attention(c, {16, 2, 256}, spec.hidden);
  attention.qk_norm = attention.output_gate = true;
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  const Json parameters = rope_parameters_of(c, "full_attention");
  const int turned = turned_dims(c, parameters, attention.head_dim, 1);
  hybrid::read_one_rope(c, parameters, turned, 10000, spec);
  if (spec.ropes[0].query_beta != 0)
    c.unsupported("llama_4_scaling_beta", fmt::format("{}", spec.ropes[0].query_beta), "0 is");
  const ops::RecurrenceShape delta = read_delta(c);
  const MoeSpec experts = read_moe(c, kQwen4Moe);
  std::optional<IndexedAttentionSpec> indexed;
  for (const std::string& type : layer_types(c)) {
    LayerSpec layer{delta, experts, spec.norms};
    if (type == "full_attention" || type == "indexed_attention") {
      if (!indexed) indexed = read_indexed_attention(c, attention, turned);
      layer.mixer = *indexed;
    } else if (type != "linear_attention") {
      c.unsupported("layer_types", type, "linear_attention, full_attention and indexed_attention are");
    }
    spec.layers.push_back(std::move(layer));
  }
  add_ngrams(c, json, spec);
  TRY_VOID(c.check());
  return spec;
}

}  // namespace anabranch
