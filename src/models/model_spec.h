// config.json as plain values: everything a forward pass needs to know besides the weights.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "nn/ngram_input.h"
#include "nn/normed_residual.h"
#include "ops/heads.h"
#include "ops/recurrence.h"
#include "state/sequence_state.h"

namespace anabranch {

class Checkpoint;

// An output gate with a projection of its own.
struct GateSpec {
  const char* module = "g_proj";
  bool of_heads = true;  // a number for each head, otherwise for each value
  ops::GateCurve curve = ops::GateCurve::sigmoid;
};

struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  int window = 0;  // sliding window, 0 = none
  bool qkv_bias = false, out_bias = false;
  bool qk_norm = false;           // of each head
  bool norms_weigh = true;        // these norms have weights
  bool norms_all_heads = false;   // it is over all heads together instead
  bool norms_after_rope = false;  // it comes after the rotation
  bool neighbours_turn = false;   // a rope turns dimensions 2i and 2i + 1, not i and i + half, as a pair
  bool output_gate = false;       // in q_proj
  std::optional<GateSpec> gate = {};
  float scale = 0;               // of the scores; 0 = 1 / sqrt(head_dim)
  float soft_cap = 0;            // of the scores, 0 = none
  bool sinks = false;            // each head has a learned score without a value (ops::ScoreSpec)
  int value_dim = 0;             // of a head, less than head_dim; 0 = head_dim
  bool v_norm = false;           // values are normalised, without a weight
  bool keys_are_values = false;  // there is no v_proj
  int kv_layer = -1;             // the layer whose keys and values it reads, -1 = its own
  // Factors of the projections' input, of the keys and of the output.
  float in_scale = 1, key_scale = 1, out_scale = 1;
};

// Factors of a recurrence's projections: of their input, of each of their outputs, and of the mixer's output.
struct RecurrenceScales {
  float in = 1, z = 1, values = 1, keys = 1, queries = 1, a = 1, out = 1;
  bool operator==(const RecurrenceScales&) const = default;
};

// Attention and a recurrence that read the same input (nn/side_by_side.h).
struct SideBySideSpec {
  AttentionSpec attention;
  ops::RecurrenceShape recurrence;
  RecurrenceScales scales;
};

// Multi-head latent attention (nn/latent_attention.h).
struct LatentAttentionSpec {
  int heads = 0;
  int query_rank = 0;  // queries are projections of a row of this width; 0: of the layer's input
  int rank = 0;        // of the latents
  int plain_dim = 0, turned_dim = 0;  // of a head's queries and keys
  int value_dim = 0;
  bool bias = false;             // q_a_proj, kv_a_proj_with_mqa and o_proj have biases
  bool neighbours_turn = false;  // see AttentionSpec
  bool head_gate = false;        // each head's output is multiplied by the sigmoid of a projection
  float scale = 0;               // of the scores
};

// Attention over the positions that an index chooses (nn/indexed_attention.h).
struct IndexedAttentionSpec {
  AttentionSpec attention;
  int heads = 0, dim = 0;     // of the index's queries; its keys have one head
  int ratio = 1, blocks = 1;  // positions of a block, and how many whole blocks a query sees
};

// monostate: the layer has no such part.
using MixerSpec = std::variant<AttentionSpec, LatentAttentionSpec, IndexedAttentionSpec, ops::RecurrenceShape,
                               SideBySideSpec, std::monostate>;
// The mixer's attention and its recurrence; null where it has none.
const AttentionSpec* attention_of(const MixerSpec& mixer);
const ops::RecurrenceShape* recurrence_of(const MixerSpec& mixer);

struct MlpSpec {
  int intermediate = 0;
  ops::Activation activation = ops::Activation::silu;
  bool bias = false;  // gate, up and down have biases
  bool gated = true;  // otherwise gelu(up(x)) takes the place of activation(gate(x)) * up(x)
  ops::Gelu gelu = ops::Gelu::tanh;
  bool relu2 = false;                           // without a gate: relu(up(x))^2 instead of gelu(up(x))
  std::optional<ops::Xielu> xielu = {};         // without a gate: instead of gelu(up(x))
  bool xielu_in_files = false;                  // its factors are tensors of the layer
  std::optional<ops::ClampedGlu> clamped = {};  // in place of activation(gate(x)) * up(x)
  float gate_scale = 1, down_scale = 1;         // factors of the outputs of both projections
};

struct MoeSpec {
  ops::RouterSpec routing;
  int experts = 0, intermediate = 0;
  int shared_intermediate = 0;  // of the expert that every row uses; 0 = there is none
  float shared_scale = 1;       // of its output
  bool shared_gate = false;     // whose output is multiplied by a sigmoid
  ops::Activation activation = ops::Activation::silu;
  bool gated = true;         // otherwise relu(up(x))^2 takes the place of activation(gate(x)) * up(x)
  bool choice_bias = false;  // see ops::route()
  int latent = 0;            // experts' inputs and outputs have so many values; 0 = the hidden size
  bool bias = false;         // the shared expert and the projections of `latent` have biases
  bool expert_bias = false;  // the router and the experts' matrices have biases
  // In place of activation(gate) * up: of the routed experts, and of the shared one.
  std::optional<ops::ClampedGlu> clamped = {}, shared_clamped = {};
};

// An MLP and a mixture of experts in parallel, each with its own norms (nn/mlp_and_moe.h).
struct MlpAndMoeSpec {
  MlpSpec mlp;
  MoeSpec moe;
};

using FeedForwardSpec = std::variant<MlpSpec, MoeSpec, MlpAndMoeSpec, std::monostate>;

// Embeddings of n-grams (nn/ngram_input.h).
struct NGramSpec {
  nn::NGramTables tables;
  int rows = 0;   // of all tables, with rows that are not used at the end
  int width = 0;  // of a token's embedding, to which each table gives an equal share
  ops::RecurrenceShape tokens, convolution;
};

// A residual stream of several streams (nn/streams.h); count 0: there is one.
struct StreamsSpec {
  int count = 0, rank = 0;
};

struct NormsSpec {
  float eps = 1e-6f;
  float post_eps = 0;       // of the norms after a layer's parts; 0 = eps
  bool offset = false;      // the family multiplies by (1 + w)
  bool layer_norm = false;  // LayerNorm, otherwise RMSNorm
  bool bias = false;        // of a LayerNorm
  bool weightless = false;  // the files have no weights: they are 1
};

// How a layer is put together, and the names of its parts in the files. A norm without a name does not exist.
struct LayerForm {
  const char *norm1 = "input_layernorm", *post1 = nullptr;           // before and after the mixer
  const char *norm2 = "post_attention_layernorm", *post2 = nullptr;  // before and after the feed-forward part
  bool parallel = false;  // both parts read norm1(the layer's input)
  const char *q_norm = "q_norm", *k_norm = "k_norm";
  const char* o = "o_proj";
  const char* qkv = "qkv_proj";        // a matrix with the rows of queries, then keys, then values
  const char* qkv_by_heads = nullptr;  // a matrix with the query, key and value rows of each head together
  const char *gate = "gate_proj", *up = "up_proj", *gate_up = "gate_up_proj", *down = "down_proj";
  const char *attention = "self_attn.", *recurrence = "linear_attn.", *mlp = "mlp.";
};

struct LayerSpec {
  MixerSpec mixer;
  FeedForwardSpec mlp;
  NormsSpec norms;
  int rope = 0;  // index in ModelSpec::ropes; both kinds of attention only
  LayerForm form = {};
  float residual_scale = 1;  // multiplies what both parts add to the residual stream
  std::optional<nn::NormedResidual> normed_residual = {};
  std::optional<NGramSpec> ngrams = {};
  // Of a recurrence with a constant decay: head h decays at the rate decay_factor * 2^(-8 (h + 1) / heads).
  float decay_factor = 1;
};

struct ModelSpec {
  std::string family;  // config.json's model_type
  int hidden = 0, vocab = 0;
  int context_length = 0;
  NormsSpec norms;  // the final norm
  bool tied_embeddings = false;
  std::vector<ops::Rope> ropes;
  std::vector<LayerSpec> layers;
  float embedding_scale = 1;
  bool normed_embedding = false;  // the embedding's rows go through the final norm, too
  StreamsSpec streams = {};
  float embedding_norm_eps = 0;  // above 0: embeddings are normalised, without a weight, and not scaled
  float logits_scale = 1, logits_soft_cap = 0;  // 0 = no cap; the scale comes first
  int per_layer_width = 0,
      per_layer_vocab = 0;      // of the per-layer embeddings (nn/per_layer_input.h); 0 = none
  std::vector<int> eos;         // token ids that end a turn
  int mtp_layers = 0;           // as config.json states; the files may lack them
  bool runs_mtp = false;        // the family's MTP heads can be run
  std::string mtp_unsupported;  // why this model's MTP head cannot be run all the same, or empty
  // What the names of the MTP head's tensors begin with, where it is not run: some files number its layers
  // like the others, behind the last (DeepSeek, GLM, Ling).
  std::vector<std::string> names_of_mtp() const;

  // The parts of a sequence's state: one for each mixer that has its own memory, in order, and two for mixers
  // side by side. For one rank of several, with its share of the heads.
  StateLayout state_layout(int rank = 0, int ranks = 1) const;
  // For each layer, the first part of the state that it uses.
  std::vector<int> state_parts() const;
};

// The model that config.json describes, without its weights. Errors: unsupported (a family or value that this
// program or the device cannot run), invalid (a value is missing or wrong).
Result<ModelSpec> read_model_spec(const Checkpoint& checkpoint, const Device& device);

}  // namespace anabranch
