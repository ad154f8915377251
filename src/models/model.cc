#include "models/model.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/outside_text.h"
#include "checkpoint/experts.h"
#include "models/family.h"
#include "ops/collective.h"
#include "ops/profile.h"
#include "ops/table.h"

namespace anabranch {
namespace {

constexpr const char *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

const Family* find_family(const std::string& model_type) {
  for (const char* name : {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"})
    if (model_type == name) return &qwen3_5_family();
  for (const char* name : {"gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text"})
    if (model_type == name) return &gemma_family();
  return find_llama_family(model_type);
}

// Whether the embedding is also the head: tie_word_embeddings is set at the top level or in text_config
// (either may hold only a default), and the files have no head. As in Transformers, a head in the files is
// used, whatever the config says.
bool has_tied_embeddings(const ModelSpec& spec, const Checkpoint& checkpoint) {
  const Json& config = checkpoint.config();
  const auto flag = config.find("tie_word_embeddings");
  const bool either = spec.tied_embeddings || (flag != config.end() && *flag == true);
  return either && !checkpoint.has(kHead);
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

// Reports shapes that the device has no kernels for, before anything is loaded onto it.
Result<void> check_shapes(const ModelSpec& spec, const Device& device, const std::string& path) {
  for (size_t i = 0; i < spec.layers.size(); i++) {
    if (!std::holds_alternative<MlpSpec>(spec.layers[i].mlp) && !device.ops().mix_experts)
      return make_error(
          ErrorKind::unsupported,
          "{}: layer {}: there are no kernels for mixtures of experts on {}; run this model with "
          "--device cpu",
          path, i, device.name());
    const auto* attention = std::get_if<AttentionSpec>(&spec.layers[i].mixer);
    const std::string why =
        attention
            ? device.ops().attention_unsupported(attention->head_dim,
                                                 spec.ropes.at(static_cast<size_t>(spec.layers[i].rope)))
            : device.ops().gated_delta_unsupported(std::get<ops::GatedDeltaShape>(spec.layers[i].mixer));
    if (!why.empty())
      return make_error(ErrorKind::unsupported, "{}: layer {}: {}; run this model with --device cpu", path, i,
                        why);
  }
  return {};
}

// The family that config.json's model_type names. Errors: invalid (no model_type), unsupported.
Result<const Family*> family_of(const Checkpoint& checkpoint) {
  const std::string type = string_at(checkpoint.config(), "model_type");
  if (type.empty())
    return make_error(ErrorKind::invalid, "{}: config.json has no \"model_type\"", checkpoint.path());
  const Family* family = find_family(type);
  if (!family)
    return make_error(
        ErrorKind::unsupported,
        "{}: model_type \"{}\" is not supported; llama, mistral, ministral, ministral3, mistral3, mixtral, "
        "qwen2, qwen3, qwen3_moe, qwen3_5, qwen3_5_moe, qwen3_next, gemma2, gemma3 and gemma4 are",
        checkpoint.path(), shown(type));
  return family;
}

template <class Layer, class Of>
uint64_t sum_weights(const Layer& layer, const Of& of) {
  uint64_t sum = 0;
  layer.visit_weights([&](const ops::Weight& weight) { sum += of(weight); });
  return sum;
}

uint64_t stored_bytes(const ops::Weight& w) {
  return w.bytes();
}
uint64_t copied_bytes(const nn::DecoderLayer& layer) {
  uint64_t sum = 0;
  layer.visit_copies([&](const ops::Weight& weight) { sum += weight.bytes(); });
  return sum;
}
uint64_t parameters_of(const ops::Weight& w) {
  return static_cast<uint64_t>(w.out_features() * w.in_features());
}

}  // namespace

StateLayout ModelSpec::state_layout(int rank, int ranks) const {
  StateLayout layout;
  for (const auto& layer : layers) {
    const auto* a = std::get_if<AttentionSpec>(&layer.mixer);
    if (a && a->kv_layer >= 0) continue;
    if (a) {
      const int kv_heads = ops::split_units(a->kv_heads, 1, ranks).size(rank);
      layout.emplace_back(KvLayout{kv_heads, a->head_dim, a->window});
    } else {
      ops::GatedDeltaShape shape = std::get<ops::GatedDeltaShape>(layer.mixer);
      const int values = shape.value_heads / shape.key_heads;
      shape.key_heads = ops::split_units(shape.key_heads, 1, ranks).size(rank);
      shape.value_heads = shape.key_heads * values;
      layout.emplace_back(shape);
    }
  }
  return layout;
}

std::vector<int> ModelSpec::state_parts() const {
  std::vector<int> parts;
  int next = 0;
  for (const auto& layer : layers) {
    const auto* a = std::get_if<AttentionSpec>(&layer.mixer);
    parts.push_back(a && a->kv_layer >= 0 ? parts.at(static_cast<size_t>(a->kv_layer)) : next++);
  }
  return parts;
}

Result<ModelSpec> read_model_spec(const Checkpoint& checkpoint, const Device& device) {
  TRY(const Family* family, family_of(checkpoint));
  TRY(ModelSpec spec, family->read_config(checkpoint.config(), checkpoint.path()));
  TRY_VOID(check_shapes(spec, device, checkpoint.path()));
  spec.eos = read_eos(checkpoint.config());
  spec.tied_embeddings = has_tied_embeddings(spec, checkpoint);
  return spec;
}

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
    const auto* a = std::get_if<AttentionSpec>(&spec.layers[i].mixer);
    const auto* delta = std::get_if<ops::GatedDeltaShape>(&spec.layers[i].mixer);
    const auto* mlp = std::get_if<MlpSpec>(&spec.layers[i].mlp);
    const int heads = a ? a->kv_heads : delta->key_heads;
    const int width =
        a ? a->heads / a->kv_heads * a->head_dim : delta->value_heads / delta->key_heads * delta->value_dim;
    if (!mlp) return fmt::format("layer {} is a mixture of experts", i);
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
  if (layers < ranks || spec.per_layer_width > 0 || spec.state_layout().size() != spec.layers.size())
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
  const auto devices = split ? device.peers().size() + 1 : 1;
  device.plan_experts(experts / devices, others);
  if (devices > 1)
    for (const auto& peer : device.peers()) peer->plan_experts(experts / devices, others / devices);
}

// Whether there is memory for own_inputs (nn/linear.h), the second copies split by inputs that few rows are
// multiplied with: about a quarter of a device's share again, plus the head's.
bool keeps_own_inputs(const Checkpoint& checkpoint, const Device& device) {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) bytes += tensor.bytes;
  return bytes / (device.peers().size() + 1) <= device.memory_bytes() / 4;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(Checkpoint& checkpoint, Device& device,
                                           const ModelLoadOptions& options) {
  TRY(const Family* family, family_of(checkpoint));
  TRY(ModelSpec spec, read_model_spec(checkpoint, device));
  const ModelBuilder builder{checkpoint, spec, device};
  plan_experts(checkpoint, device, options.split);
  // Without a group, the device has all of every layer.
  std::vector<Rank> others;
  std::vector<int> owners;
  if (options.split && device.collective()) {
    TRY(owners, owners_of_layers(spec, device.collective()->ranks(), checkpoint.path()));
    for (const auto& peer : device.peers()) others.push_back({peer.get(), {}});
  }

  const bool own_inputs = !others.empty() && owners.empty() && keeps_own_inputs(checkpoint, device);
  const int layer_count = static_cast<int>(spec.layers.size()), of_each_kind = layers_of_each_kind(spec);
  TRY(auto head_rows, checkpoint.take_matrix(kEmbedding, spec.vocab, spec.hidden));
  auto embedding = ops::Weight::make(device, head_rows);
  checkpoint.release_pages();
  std::vector<nn::DecoderLayer> layers;
  for (int i = 0; i < layer_count; i++) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const int owner = owners.empty() ? 0 : owners[static_cast<size_t>(i)];
    ModelBuilder of_layer{checkpoint, spec,
                          owner == 0 ? device : *device.peers()[static_cast<size_t>(owner) - 1]};
    if (!others.empty() && owners.empty()) of_layer.group = device.collective();
    of_layer.keeps_own_inputs = own_inputs;
    TRY(auto layer, family->build_layer(of_layer, prefix, spec.layers[i]));
    layers.push_back(std::move(layer));
    for (Rank& rank : others) {
      if (!owners.empty()) break;
      checkpoint.reopen(prefix);
      ModelBuilder of_rank{checkpoint, spec, *rank.device};
      of_rank.group = rank.device->collective();
      of_rank.keeps_own_inputs = own_inputs;
      TRY(auto share, family->build_layer(of_rank, prefix, spec.layers[i]));
      rank.layers.push_back(std::move(share));
    }
    checkpoint.release_pages();
    if (options.progress) TRY_VOID(options.progress(i + 1, layer_count));
    if (options.begun && i + 1 == of_each_kind && spec.per_layer_width == 0 && owners.empty()) {
      ModelSpec first = spec;
      first.layers.resize(layers.size());
      Model begun(device, std::move(first), embedding, layers, layers.front().norm1, embedding);
      begun.set_ranks(others, {});
      options.begun(begun);
    }
  }
  TRY(auto norm, take_norm(builder, "model.norm", spec.hidden, spec.norms));
  ops::Weight head = embedding;
  if (!spec.tied_embeddings) {
    TRY(head_rows, checkpoint.take_matrix(kHead, spec.vocab, spec.hidden));
    head = ops::Weight::make(device, head_rows);
  }
  std::optional<nn::PerLayerInputs> per_layer_inputs;
  if (spec.per_layer_width > 0) {
    TRY(per_layer_inputs, family->build_per_layer_inputs(builder));
  }
  std::optional<nn::Mtp> mtp;
  if (family->build_mtp && checkpoint.has("mtp.fc.weight")) {
    if (spec.mtp_unsupported.empty()) {
      ModelBuilder for_drafts = builder;
      for_drafts.for_drafts = true;
      TRY(mtp, family->build_mtp(for_drafts));
    } else {
      log_warning("{}: the MTP head is left aside: {}", checkpoint.path(), spec.mtp_unsupported);
    }
  }
  if (family->build_mtp && spec.mtp_layers > 0 && !checkpoint.has("mtp.fc.weight"))
    log_warning("{}: the files lack the MTP head that config.json promises (docs/convert.md, --mtp-from)",
                checkpoint.path());
  std::unique_ptr<Model> model(new Model(device, std::move(spec), std::move(embedding), std::move(layers),
                                         std::move(norm), std::move(head)));
  model->set_ranks(std::move(others), std::move(owners));
  model->per_layer_inputs_ = std::move(per_layer_inputs);
  model->mtp_ = std::move(mtp);
  if (own_inputs) model->share_head(head_rows);
  if (options.draft_vocab) model->load_draft_head(head_rows, options.draft_vocab());
  // Some files list the rotary frequencies; they repeat the config, so they are ignored.
  for (int i = 0; i < layer_count; i++)
    checkpoint.ignore(fmt::format("model.layers.{}.self_attn.rotary_emb.", i));
  if (model->mtp_) {  // GGUF files may repeat the trunk's embedding and head
    checkpoint.ignore("mtp.embed_tokens.");
    checkpoint.ignore("mtp.lm_head.");
  } else {
    checkpoint.ignore("mtp.");
  }
  TRY_VOID(checkpoint.finish());
  return model;
}

Model::Model(Device& device, ModelSpec spec, ops::Weight embedding, std::vector<nn::DecoderLayer> layers,
             nn::RmsNorm norm, ops::Weight head)
    : device_(&device),
      spec_(std::move(spec)),
      layout_(spec_.state_layout()),
      part_devices_(layout_.size(), device_),
      embedding_(std::move(embedding)),
      layers_(std::move(layers)),
      parts_(spec_.state_parts()),
      norm_(std::move(norm)),
      head_(std::move(head)) {}

void Model::load_draft_head(const WeightSource& head_rows, const std::vector<int>& vocab) {
  std::vector<int64_t> rows;
  for (const int id : vocab) {
    CHECK(id >= 0 && (rows.empty() || id > rows.back()), "draft vocabulary: {} is not ascending", id);
    if (id < spec_.vocab) rows.push_back(id);
  }
  draft_head_.reset();
  draft_vocab_.clear();
  if (rows.empty() || static_cast<int>(rows.size()) == spec_.vocab) return;
  draft_head_ = ops::Weight::make(*device_, select_rows(head_rows, rows));
  draft_vocab_.assign(rows.begin(), rows.end());
}

Result<void> Model::set_draft_vocab(Checkpoint& checkpoint, const std::vector<int>& vocab) {
  const char* name = spec_.tied_embeddings ? kEmbedding : kHead;
  TRY(const auto head_rows, checkpoint.take_matrix(name, spec_.vocab, spec_.hidden));
  load_draft_head(head_rows, vocab);
  return {};
}

Tensor Model::embed(const Batch& batch) const {
  const Tensor* chosen = batch.chosen ? &*batch.chosen : nullptr;
  const auto of_text = [&](std::span<const int> ids) {
    const Tensor x = ops::embed(ids, embedding_, chosen);
    return spec_.embedding_scale == 1 ? x : ops::scale(x, spec_.embedding_scale);
  };
  if (batch.images.empty()) return of_text(batch.ids);
  std::vector<int> ids = batch.ids;
  std::ranges::replace_if(ids, is_image_id, 0);  // any valid token: the image's rows replace it
  const Tensor x = of_text(ids);
  std::vector<Tensor> parts;
  int done = 0;
  for (const ImageRows& image : batch.images) {
    if (done < image.begin) parts.push_back(x.slice_rows(done, image.begin));
    parts.push_back(image.rows);
    done = image.begin + image.rows.shape(0);
  }
  if (done < x.shape(0)) parts.push_back(x.slice_rows(done, x.shape(0)));
  return ops::concat_rows(parts);
}

Tensor Model::run_layer(int layer, const Tensor& x, const Batch& batch, const Tensor& inputs) const {
  const auto i = static_cast<size_t>(layer);
  if (!per_layer_inputs_) return layers_.at(i)(x, batch, parts_[i]);
  const int rows = x.shape(0);
  const Tensor own = inputs.slice_rows(layer * rows, (layer + 1) * rows);
  return layers_.at(i)(x, batch, parts_[i], &own);
}

Tensor Model::logits(const Tensor& hidden, const ops::Weight& head) const {
  const bool shared = &head == &head_ && !head_shares_.empty() && hidden.shape(0) <= ops::kFewRows;
  const Tensor y = shared ? logits_of_ranks(hidden) : ops::linear(hidden, head);
  return spec_.logits_soft_cap > 0 ? ops::soft_cap(y, spec_.logits_soft_cap) : y;
}

Tensor Model::run_layers(std::span<const int> layers, const Batch& batch,
                         std::vector<Tensor>* after_layer) const {
  for (const auto& span : batch.spans)
    if (span.keep) span.state->begin_snapshot(*span.keep);
  if (!others_.empty()) return run_ranks(layers, batch, after_layer);
  device_->begin_pass();
  auto x = [&] {
    const ops::Stage stage(*device_, "embedding");
    return embed(batch);
  }();
  const Tensor* chosen = batch.chosen ? &*batch.chosen : nullptr;
  const Tensor inputs = per_layer_inputs_ ? (*per_layer_inputs_)(batch.ids, x, chosen) : Tensor();
  for (const int i : layers) {
    x = run_layer(i, x, batch, inputs);
    if (after_layer) after_layer->push_back(norm_(x));
  }
  return x;
}

Model::Output Model::forward(const Batch& batch, std::vector<Tensor>* after_layer) const {
  std::vector<int> all(layers_.size());
  std::iota(all.begin(), all.end(), 0);
  const Tensor x = run_layers(all, batch, after_layer);
  for (const auto& span : batch.spans) {
    span.state->advance(span.count);
    if (span.keep) span.keep->length = span.state->length();
  }
  const ops::Stage stage(*device_, "norm, head");
  const auto hidden = norm_(x);
  if (batch.logit_rows.empty()) return {hidden, device_->empty({0, spec_.vocab}, Dtype::f32)};
  return {hidden, logits(ops::take_rows(hidden, batch.logit_rows), head_)};
}

Tensor Model::forward_some(const Batch& batch, std::span<const int> layers) const {
  for (const auto& span : batch.spans)
    CHECK(span.state->has_draft_tokens(), "a draft's tokens are applied for good");
  CHECK(can_skip_layers() || layers.empty() || layers.back() + 1 == static_cast<int>(layers.size()),
        "layers need each other");
  const Tensor x = run_layers(layers, batch, nullptr);
  for (const auto& span : batch.spans) span.state->advance(span.count);
  return norm_(x);
}

Tensor Model::draft_logits(const Tensor& hidden) const {
  return logits(hidden, draft_head_ ? *draft_head_ : head_);
}

Tensor Model::mtp(const Tensor& hidden, const Batch& batch) const {
  CHECK(mtp_, "the model has no MTP head");
  const auto out = (*mtp_)(embed(batch), hidden, batch);
  for (const auto& span : batch.spans) span.state->advance(span.count);
  return out;
}

StateLayout Model::mtp_layout() const {
  StateLayout layout;
  if (mtp_) {
    for (const auto& layer : mtp_->layers) {
      const auto& attention = std::get<nn::Attention>(layer.mixer);
      layout.emplace_back(KvLayout{attention.kv_heads, attention.head_dim});
    }
  }
  return layout;
}

bool Model::can_skip_layers() const {
  const size_t shares = in_turns() ? 1 : static_cast<size_t>(ranks());
  return !per_layer_inputs_ && layout_.size() == layers_.size() * shares;
}

void Model::lay_out_states() {
  layout_.clear();
  part_devices_.clear();
  if (in_turns()) {
    layout_ = spec_.state_layout();
    for (const int owner : owners_) part_devices_.push_back(&rank_device(owner));
    return;
  }
  for (int rank = 0; rank < ranks(); rank++) {
    const StateLayout own = spec_.state_layout(rank, ranks());
    layout_.insert(layout_.end(), own.begin(), own.end());
    part_devices_.resize(layout_.size(), &rank_device(rank));
  }
}

std::vector<StateLayout> Model::device_layouts() const {
  std::vector<StateLayout> out(static_cast<size_t>(ranks()));
  for (int rank = 0; rank < ranks(); rank++)
    for (size_t part = 0; part < layout_.size(); part++)
      if (part_devices_[part] == &rank_device(rank)) out[static_cast<size_t>(rank)].push_back(layout_[part]);
  return out;
}

void Model::drop_layers(std::span<const int> layers) {
  CHECK(can_skip_layers(), "layers need each other");
  const auto drop = [&](auto& from) {
    for (auto at = layers.rbegin(); at != layers.rend(); ++at) from.erase(from.begin() + *at);
  };
  for (const int layer : layers)
    layers_[static_cast<size_t>(layer)].visit_inputs([&](const std::vector<const nn::Linear*>& linears) {
      for (const nn::Linear* linear : linears)
        if (linear->origin) dropped_.insert(linear->origin->module);
    });
  drop(layers_);
  drop(spec_.layers);
  if (in_turns()) drop(owners_);
  for (Rank& rank : others_)
    if (!rank.layers.empty()) drop(rank.layers);
  parts_ = spec_.state_parts();
  lay_out_states();
}

uint64_t Model::parameters() const {
  uint64_t sum = parameters_of(embedding_) + (spec_.tied_embeddings ? 0 : parameters_of(head_));
  for (const auto& layer : layers_) sum += sum_weights(layer, parameters_of);
  for (const Rank& rank : others_)
    for (const auto& layer : rank.layers) sum += sum_weights(layer, parameters_of);
  return sum;
}

uint64_t Model::weight_bytes() const {
  const PartBytes parts = part_bytes();
  return std::accumulate(parts.layers.begin(), parts.layers.end(), parts.embedding + parts.head) + parts.mtp +
         parts.draft_head + parts.copies;
}

Model::PartBytes Model::part_bytes() const {
  PartBytes out;
  for (const auto& layer : layers_) {
    out.layers.push_back(sum_weights(layer, stored_bytes));
    out.copies += copied_bytes(layer);
  }
  for (const Rank& rank : others_)
    for (size_t i = 0; i < rank.layers.size(); i++) {
      out.layers[i] += sum_weights(rank.layers[i], stored_bytes);
      out.copies += copied_bytes(rank.layers[i]);
    }
  out.embedding = spec_.tied_embeddings ? 0 : embedding_.bytes();
  out.head = head_.bytes();
  for (const ops::Weight& share : head_shares_) out.copies += share.bytes();
  if (draft_head_) out.draft_head = draft_head_->bytes();
  if (mtp_) out.mtp = sum_weights(*mtp_, stored_bytes);
  return out;
}

uint64_t Model::bytes_per_token() const {
  return layer_bytes_per_token() + (head_shares_.empty() ? head_ : head_shares_.front()).bytes();
}

uint64_t Model::layer_bytes_per_token() const {
  uint64_t sum = 0;
  for (const auto& layer : layers_) {
    sum += sum_weights(layer, stored_bytes);
    if (const auto* moe = std::get_if<nn::Moe>(&layer.mlp)) sum -= moe->idle_bytes();
    if (const auto* both = std::get_if<nn::MlpAndMoe>(&layer.mlp)) sum -= both->moe.idle_bytes();
  }
  return sum;
}

}  // namespace anabranch
