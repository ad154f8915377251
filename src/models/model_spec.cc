#include "models/model_spec.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "models/config.h"
#include "models/family.h"
#include "models/family_config.h"
#include "ops/collective.h"
#include "ops/table.h"

namespace anabranch {
namespace {

// Whether the embedding is also the head: tie_word_embeddings is set at the top level or in text_config
// (either may hold only a default), and the files have no head. As in Transformers, a head in the files is
// used, whatever the config says.
bool has_tied_embeddings(const ModelSpec& spec, const Checkpoint& checkpoint) {
  const Json& config = checkpoint.config();
  const auto flag = config.find("tie_word_embeddings");
  const bool either = spec.tied_embeddings || (flag != config.end() && *flag == true);
  return either && !checkpoint.has(kHeadMatrix);
}

// The layers for prediction of a family whose heads are not run.
Result<void> read_mtp(const Checkpoint& checkpoint, ModelSpec& spec) {
  const Json& config = checkpoint.config();
  const bool nested = config.contains("text_config") && config["text_config"].is_object();
  ConfigReader c(nested ? config["text_config"] : config, checkpoint.path());
  const int usual = c.integer_or("num_mtp_layers", 0, 64, is_latent_member(spec.family) ? 1 : 0);
  spec.mtp_layers = c.integer_or("num_nextn_predict_layers", 0, 64, usual);
  return c.check();
}

// "eos_token_id" may be a number or a list, at the top or in text_config.
std::vector<int> read_eos(const Json& config) {
  std::vector<int> out;
  const auto add = [&](const Json& holder) {
    const auto it = holder.find("eos_token_id");
    if (it == holder.end()) return;
    const auto ids = read_token_ids(*it);
    out.insert(out.end(), ids.begin(), ids.end());
  };
  add(config);
  if (config.contains("text_config") && config["text_config"].is_object()) add(config["text_config"]);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Why the device cannot run this latent attention, or empty. Its parts go through the kernels of whole heads.
std::string unsupported_latent(const LatentAttentionSpec& latent, const ops::Rope& rope,
                               const Device& device) {
  if (!device.ops().linear_heads)
    return fmt::format("there are no kernels for latent attention on {}", device.name());
  std::vector<int> heads = {latent.turned_dim, latent.turned_dim + latent.rank};
  if (rope.query_beta != 0) heads.push_back(latent.plain_dim);
  for (const int dim : heads)
    if (const auto why = device.ops().attention_unsupported(dim, rope); !why.empty())
      return "latent attention: " + why;
  return "";
}

// Why the device cannot run the layer's mixer, or empty.
std::string unsupported_mixer(const ModelSpec& spec, const LayerSpec& layer, const Device& device) {
  std::string why;
  if (const auto* attention = attention_of(layer.mixer))
    why = device.ops().attention_unsupported(attention->head_dim,
                                             spec.ropes.at(static_cast<size_t>(layer.rope)));
  if (const auto* latent = std::get_if<LatentAttentionSpec>(&layer.mixer))
    why = unsupported_latent(*latent, spec.ropes.at(static_cast<size_t>(layer.rope)), device);
  if (std::holds_alternative<IndexedAttentionSpec>(layer.mixer) && !device.ops().index_scores)
    why = fmt::format("there are no kernels for attention with an index on {}", device.name());
  if (spec.streams.count > 0 && !device.ops().mix_streams)
    why = fmt::format("there are no kernels for several residual streams on {}", device.name());
  if (const auto* recurrence = recurrence_of(layer.mixer); why.empty() && recurrence)
    why = device.ops().recurrence_unsupported(*recurrence);
  return why;
}

// Reports shapes that the device has no kernels for, before anything is loaded onto it.
Result<void> check_shapes(const ModelSpec& spec, const Device& device, const std::string& path) {
  for (size_t i = 0; i < spec.layers.size(); i++) {
    const auto& mlp = spec.layers[i].mlp;
    const auto* attention = attention_of(spec.layers[i].mixer);
    if (attention) {
      const size_t pairs = spec.ropes.at(static_cast<size_t>(spec.layers[i].rope)).inv_freq.size();
      if (2 * pairs > static_cast<size_t>(attention->head_dim))
        return make_error(ErrorKind::invalid, "{}: layer {}: {} pairs cannot turn in heads of {} dimensions",
                          path, i, pairs, attention->head_dim);
    }
    if ((std::holds_alternative<MoeSpec>(mlp) || std::holds_alternative<MlpAndMoeSpec>(mlp)) &&
        !device.ops().mix_experts)
      return make_error(
          ErrorKind::unsupported,
          "{}: layer {}: there are no kernels for mixtures of experts on {}; run this model with "
          "--device cpu",
          path, i, device.name());
    const std::string why = unsupported_mixer(spec, spec.layers[i], device);
    if (!why.empty())
      return make_error(ErrorKind::unsupported, "{}: layer {}: {}; run this model with --device cpu", path, i,
                        why);
  }
  return {};
}

}  // namespace

const AttentionSpec* attention_of(const MixerSpec& mixer) {
  if (const auto* indexed = std::get_if<IndexedAttentionSpec>(&mixer)) return &indexed->attention;
  const auto* both = std::get_if<SideBySideSpec>(&mixer);
  return both ? &both->attention : std::get_if<AttentionSpec>(&mixer);
}

const ops::RecurrenceShape* recurrence_of(const MixerSpec& mixer) {
  const auto* both = std::get_if<SideBySideSpec>(&mixer);
  return both ? &both->recurrence : std::get_if<ops::RecurrenceShape>(&mixer);
}

StateLayout ModelSpec::state_layout(int rank, int ranks) const {
  StateLayout layout;
  for (const auto& layer : layers) {
    if (layer.ngrams)
      layout.emplace_back(layer.ngrams->tokens), layout.emplace_back(layer.ngrams->convolution);
    const auto* a = attention_of(layer.mixer);
    if (a && a->kv_layer < 0)
      layout.emplace_back(
          KvLayout{ops::split_units(a->kv_heads, 1, ranks).size(rank), a->head_dim, a->window});
    if (const auto* indexed = std::get_if<IndexedAttentionSpec>(&layer.mixer))
      layout.emplace_back(KvLayout{1, indexed->dim, 0, indexed->dim});
    if (const auto* latent = std::get_if<LatentAttentionSpec>(&layer.mixer))
      layout.emplace_back(KvLayout{1, latent->turned_dim + latent->rank, 0, latent->rank});
    if (const auto* recurrence = recurrence_of(layer.mixer)) {
      ops::RecurrenceShape shape = *recurrence;
      if (shape.key_heads > 0) {
        const int values = shape.value_heads / shape.key_heads;
        shape.key_heads = ops::split_units(shape.key_heads, 1, ranks).size(rank);
        shape.value_heads = shape.key_heads * values;
      }
      layout.emplace_back(shape);
    }
  }
  return layout;
}

std::vector<int> ModelSpec::state_parts() const {
  std::vector<int> parts;
  int next = 0;
  for (const auto& layer : layers) {
    const auto* a = attention_of(layer.mixer);
    const bool reads_another = a && a->kv_layer >= 0;
    parts.push_back(reads_another ? parts.at(static_cast<size_t>(a->kv_layer)) : next);
    const bool latent = std::holds_alternative<LatentAttentionSpec>(layer.mixer);
    next += (a && !reads_another) || latent ? 1 : 0;
    next += std::holds_alternative<IndexedAttentionSpec>(layer.mixer) ? 1 : 0;
    next += layer.ngrams ? 2 : 0;
    next += recurrence_of(layer.mixer) ? 1 : 0;
  }
  return parts;
}

std::vector<std::string> ModelSpec::names_of_mtp() const {
  std::vector<std::string> names = {"mtp.", "model.mtp_"};  // the second: Ernie's
  for (size_t i = layers.size(); i < layers.size() + static_cast<size_t>(mtp_layers); i++)
    names.push_back(fmt::format("model.layers.{}.", i));
  return names;
}

Result<ModelSpec> read_model_spec(const Checkpoint& checkpoint, const Device& device) {
  TRY(const Family* family, find_family(checkpoint));
  TRY(ModelSpec spec, family->read_config(checkpoint.config(), checkpoint.path()));
  spec.runs_mtp = family->build_mtp != nullptr;
  if (!spec.runs_mtp) TRY_VOID(read_mtp(checkpoint, spec));
  TRY_VOID(check_shapes(spec, device, checkpoint.path()));
  spec.eos = read_eos(checkpoint.config());
  spec.tied_embeddings = has_tied_embeddings(spec, checkpoint);
  return spec;
}

}  // namespace anabranch
