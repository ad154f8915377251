// Loads a model: distributes its layers among devices, and takes its tensors from a checkpoint.
#include "models/model_load.h"

#include <set>
#include <utility>

#include "base/log.h"
#include "checkpoint/experts.h"
#include "models/family.h"
#include "models/model.h"
#include "ops/collective.h"

namespace anabranch {
namespace {

// The number of leading layers that include every kind of layer, if the model has more than twice as many;
// else 0.
int layers_of_each_kind(const ModelSpec& spec) {
  std::set<std::pair<size_t, size_t>> kinds;
  size_t first = 0;
  for (size_t i = 0; i < spec.layers.size(); i++)
    if (kinds.insert({spec.layers[i].mixer.index(), spec.layers[i].mlp.index()}).second) first = i + 1;
  return 2 * first < spec.layers.size() ? static_cast<int>(first) : 0;
}

// Says why layers cannot be split among this many devices; empty: they can. Each layer must have enough heads
// and units for every rank, in whole tiles of packed rows.
std::string unsplit_because(const ModelSpec& spec, int ranks) {
  if (spec.hidden % kSharedTile != 0 || spec.hidden / kSharedColumns < ranks)
    return fmt::format("layers of width {}", spec.hidden);
  for (size_t i = 0; i < spec.layers.size(); i++) {
    const LayerSpec& layer = spec.layers[i];
    const auto* a = std::get_if<AttentionSpec>(&layer.mixer);
    const auto* delta = std::get_if<ops::RecurrenceShape>(&layer.mixer);
    const auto* mlp = std::get_if<MlpSpec>(&layer.mlp);
    if ((!a && !delta) || (delta && !delta->is_gated_delta()))
      return fmt::format("layer {} is neither attention nor Gated DeltaNet alone", i);
    const int heads = a ? a->kv_heads : delta->key_heads;
    const int of_value = !a ? delta->value_dim : a->value_dim > 0 ? a->value_dim : a->head_dim;
    const int width = (a ? a->heads : delta->value_heads) / heads * of_value;
    if (!mlp) return fmt::format("layer {} is not an MLP alone", i);
    if (a && a->norms_all_heads) return fmt::format("the norms of layer {} are over all heads", i);
    if (heads < ranks) return fmt::format("layer {} has {} key heads", i, heads);
    if (width % kSharedTile != 0) return fmt::format("a key head of layer {} has {} outputs", i, width);
    if (mlp->intermediate % kSharedTile != 0 || mlp->intermediate / kSharedTile < ranks)
      return fmt::format("the MLP of layer {} has {} units", i, mlp->intermediate);
  }
  return "";
}

// For each layer, the device that has all of it; empty if layers are split. Error: unsupported.
Result<std::vector<int>> owners_of_layers(const ModelSpec& spec, int ranks, const std::string& path) {
  const std::string why = unsplit_because(spec, ranks);
  const auto layers = static_cast<int>(spec.layers.size());
  if (why.empty() && spec.per_layer_width == 0) return std::vector<int>();
  if (layers < ranks || spec.per_layer_width > 0 || spec.streams.count > 0 ||
      spec.state_layout().size() != spec.layers.size())
    return make_error(
        ErrorKind::unsupported, "{}: this model cannot be shared by {} devices: {}", path, ranks,
        layers < ranks ? fmt::format("it has {} layers", layers) : "its layers need each other");
  log_info("{}: each of {} devices has some layers, and they work in turns: {}", path, ranks, why);
  std::vector<int> owners;
  for (int i = 0; i < layers; i++) owners.push_back(i * ranks / layers);
  return owners;
}

void plan_experts(const Checkpoint& checkpoint, Device& device, bool split) {
  uint64_t experts = 0, others = 0;
  for (const TensorInfo& tensor : checkpoint.tensors())
    (is_expert_module(tensor.name) ? experts : others) += tensor.bytes;
  // The first device may hold everything else: embeddings, head, drafts.
  const auto devices = split ? device.other_ranks().size() + 1 : 1;
  device.plan_experts(experts / devices, others);
  if (devices > 1)
    for (const auto& other : device.other_ranks()) other->plan_experts(experts / devices, others / devices);
}

// Whether there is memory for own_inputs (nn/linear.h), the second copies split by inputs that few rows are
// multiplied with: about a quarter of a device's share again, plus the head's.
bool keeps_own_inputs(const Checkpoint& checkpoint, const Device& device) {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) bytes += tensor.bytes;
  return bytes / (device.other_ranks().size() + 1) <= device.memory_bytes() / 4;
}

// The devices that get a model's layers.
struct Placement {
  std::vector<Device*> devices;  // by rank
  std::vector<int> owners;       // see Ranks
  bool own_inputs = false;       // see ModelBuilder::keeps_own_inputs

  bool splits_layers() const { return devices.size() > 1 && owners.empty(); }
  int first_rank(int layer) const { return owners.empty() ? 0 : owners[static_cast<size_t>(layer)]; }
};

// Without a group, the device has all of every layer.
Result<Placement> place_layers(const Checkpoint& checkpoint, const ModelSpec& spec, Device& device,
                               bool split) {
  Placement out{{&device}};
  if (!split || !device.collective()) return out;
  TRY(out.owners, owners_of_layers(spec, device.collective()->ranks(), checkpoint.path()));
  for (const auto& other : device.other_ranks()) out.devices.push_back(other.get());
  out.own_inputs = out.splits_layers() && keeps_own_inputs(checkpoint, device);
  return out;
}

// The layer, or one rank's share of it.
Result<nn::DecoderLayer> load_layer(const ModelBuilder& model, const Family& family,
                                    const Placement& placement, int rank, int layer) {
  ModelBuilder builder{model.checkpoint, model.spec, *placement.devices[static_cast<size_t>(rank)]};
  if (placement.splits_layers()) builder.group = builder.device.collective();
  builder.keeps_own_inputs = placement.own_inputs;
  return family.build_layer(builder, fmt::format("model.layers.{}.", layer),
                            model.spec.layers[static_cast<size_t>(layer)]);
}

OutputHead make_head(const ModelSpec& spec, ops::Weight weight, std::optional<Tensor> bias = {}) {
  return OutputHead(std::move(weight), spec.logits_scale, spec.logits_soft_cap, std::move(bias));
}

std::optional<nn::Norm> embedding_norm(const ModelSpec& spec, Device& device) {
  if (spec.embedding_norm_eps == 0) return {};
  return nn::Norm{{device.to_device(filled(spec.hidden, 1)), spec.embedding_norm_eps}};
}

// A model of the layers loaded so far, whose head is the embedding (ModelLoadOptions::begun).
Model begin_model(const ModelSpec& spec, const ops::Weight& embedding, const std::vector<Rank>& ranks) {
  const auto& layers = ranks.front().layers;
  ModelSpec first = spec;
  first.layers.resize(layers.size());
  const nn::DecoderLayer& layer = layers.front();
  nn::Norm norm = layer.norm1 ? *layer.norm1 : layer.post1 ? *layer.post1 : *layer.norm2;
  ModelWeights weights{embedding, {}, Ranks(ranks), std::move(norm), make_head(spec, embedding)};
  weights.embedding_norm = embedding_norm(spec, *ranks.front().device);
  return {std::move(first), std::move(weights)};
}

Result<Ranks> load_layers(const ModelBuilder& model, const Family& family, Placement placement,
                          const ops::Weight& embedding, const ModelLoadOptions& options) {
  const ModelSpec& spec = model.spec;
  const int count = static_cast<int>(spec.layers.size()), of_each_kind = layers_of_each_kind(spec);
  std::vector<Rank> ranks;
  for (Device* device : placement.devices) ranks.push_back({device, {}});
  for (int i = 0; i < count; i++) {
    TRY(auto layer, load_layer(model, family, placement, placement.first_rank(i), i));
    ranks[0].layers.push_back(std::move(layer));
    for (size_t rank = 1; placement.splits_layers() && rank < ranks.size(); rank++) {
      model.checkpoint.reopen(fmt::format("model.layers.{}.", i));
      TRY(auto share, load_layer(model, family, placement, static_cast<int>(rank), i));
      ranks[rank].layers.push_back(std::move(share));
    }
    model.checkpoint.release_pages();
    if (options.progress) TRY_VOID(options.progress(i + 1, count));
    const bool alone = spec.per_layer_width == 0 && spec.streams.count == 0 && placement.owners.empty();
    if (options.begun && i + 1 == of_each_kind && alone) options.begun(begin_model(spec, embedding, ranks));
  }
  return Ranks(std::move(ranks), std::move(placement.owners));
}

// The MTP head, if the checkpoint has one that can be run.
Result<std::optional<nn::Mtp>> load_mtp(const ModelBuilder& model, const Family& family) {
  const Checkpoint& checkpoint = model.checkpoint;
  std::optional<nn::Mtp> mtp;
  if (!family.build_mtp) return mtp;
  if (!checkpoint.has("mtp.fc.weight")) {
    if (model.spec.mtp_layers > 0)
      log_warning("{}: the files lack the MTP head that config.json promises (docs/convert.md, --mtp-from)",
                  checkpoint.path());
  } else if (model.spec.mtp_unsupported.empty()) {
    ModelBuilder builder = model;
    builder.for_drafts = true;
    TRY(mtp, family.build_mtp(builder));
  } else {
    log_warning("{}: the MTP head is left aside: {}", checkpoint.path(), model.spec.mtp_unsupported);
  }
  return mtp;
}

// Tensors that files may have and a model does not use.
void ignore_the_rest(Checkpoint& checkpoint, const ModelSpec& spec, bool has_mtp) {
  const auto layers = static_cast<int>(spec.layers.size());
  // Some files list the rotary frequencies, which repeat the config, and GPT-NeoX's a triangle as a mask.
  for (int i = 0; i < layers; i++)
    for (const char* part : {"rotary_emb.", "bias", "masked_bias"})
      checkpoint.ignore(fmt::format("model.layers.{}.self_attn.{}", i, part));
  if (has_mtp) {  // GGUF files may repeat the trunk's embedding and head
    checkpoint.ignore("mtp.embed_tokens.");
    checkpoint.ignore("mtp.lm_head.");
    return;
  }
  int count = 0;
  for (const std::string& prefix : spec.names_of_mtp()) count += checkpoint.ignore(prefix);
  if (count > 0) log_info("{}: {} tensors of the MTP head are left aside", checkpoint.path(), count);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(Checkpoint& checkpoint, Device& device,
                                           const ModelLoadOptions& options) {
  TRY(const Family* family, find_family(checkpoint));
  TRY(ModelSpec spec, read_model_spec(checkpoint, device));
  const ModelBuilder builder{checkpoint, spec, device};
  plan_experts(checkpoint, device, options.split);
  TRY(Placement placement, place_layers(checkpoint, spec, device, options.split));
  const bool shares_head = placement.own_inputs;

  TRY(auto head_rows, checkpoint.take_matrix(kEmbeddingMatrix, spec.vocab, spec.hidden));
  const ops::Weight embedding = ops::Weight::make(device, head_rows);
  checkpoint.release_pages();
  TRY(Ranks ranks, load_layers(builder, *family, std::move(placement), embedding, options));
  nn::Norm norm;
  std::optional<nn::StreamMixer> mixer;
  if (spec.streams.count > 0) {
    TRY(mixer, take_stream_mixer(builder, "model.hyper_connection_mixer.", spec.norms));
  } else {
    TRY(norm, take_norm(builder, "model.norm", spec.hidden, spec.norms));
  }
  if (!spec.tied_embeddings) {
    TRY(head_rows, checkpoint.take_matrix(kHeadMatrix, spec.vocab, spec.hidden));
  }
  std::optional<Tensor> head_bias;
  if (checkpoint.has(kHeadBias)) {
    TRY(const auto values, checkpoint.take(kHeadBias, {spec.vocab}));
    head_bias = device.to_device(values);
  }
  OutputHead head = make_head(spec, spec.tied_embeddings ? embedding : ops::Weight::make(device, head_rows),
                              std::move(head_bias));
  std::optional<nn::PerLayerInputs> per_layer_inputs;
  if (spec.per_layer_width > 0) {
    TRY(per_layer_inputs, family->build_per_layer_inputs(builder));
  }
  TRY(auto mtp, load_mtp(builder, *family));
  if (shares_head) head.share(ranks, head_rows);
  if (options.draft_vocab) head.set_draft_vocab(device, head_rows, options.draft_vocab());
  ignore_the_rest(checkpoint, spec, mtp.has_value());
  TRY_VOID(checkpoint.finish());
  return std::make_unique<Model>(
      std::move(spec),
      ModelWeights{embedding, std::move(per_layer_inputs), std::move(ranks), std::move(norm), std::move(head),
                   std::move(mtp), std::move(mixer), embedding_norm(spec, device)});
}

Result<void> Model::set_draft_vocab(Checkpoint& checkpoint, const std::vector<int>& vocab) {
  const char* name = spec_.tied_embeddings ? kEmbeddingMatrix : kHeadMatrix;
  TRY(const auto head_rows, checkpoint.take_matrix(name, spec_.vocab, spec_.hidden));
  weights_.head.set_draft_vocab(device(), head_rows, vocab);
  return {};
}

}  // namespace anabranch
