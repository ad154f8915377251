#include "models/model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/image_ids.h"
#include "ops/elementwise.h"
#include "ops/profile.h"

namespace anabranch {

Model::Model(ModelSpec spec, ModelWeights weights) : spec_(std::move(spec)), weights_(std::move(weights)) {
  lay_out_states();
}

Model::Output Model::forward(const Batch& batch, std::vector<Tensor>* after_layer) const {
  std::vector<int> all(weights_.ranks.layers().size());
  std::iota(all.begin(), all.end(), 0);
  const Tensor x = run_layers(all, batch, after_layer);
  for (const auto& span : batch.spans) {
    span.state->advance(span.count);
    if (span.keep) span.keep->length = span.state->length();
  }
  const ops::Stage stage(device(), "norm, head");
  const auto hidden = finish(x);
  if (batch.logit_rows.empty()) return {hidden, device().empty({0, spec_.vocab}, Dtype::f32)};
  return {hidden, logits(ops::take_rows(hidden, batch.logit_rows))};
}

Tensor Model::forward_some(const Batch& batch, std::span<const int> layers) const {
  for (const auto& span : batch.spans)
    CHECK(span.state->has_draft_tokens(), "a draft's tokens are applied for good");
  const bool are_first = layers.empty() || layers.back() + 1 == static_cast<int>(layers.size());
  CHECK(can_skip_layers() || are_first, "layers need each other");
  const Tensor x = run_layers(layers, batch, nullptr);
  for (const auto& span : batch.spans) span.state->advance(span.count);
  return finish(x);
}

// -> the residual stream after the last of these layers.
Tensor Model::run_layers(std::span<const int> layers, const Batch& batch,
                         std::vector<Tensor>* after_layer) const {
  for (const auto& span : batch.spans)
    if (span.keep) span.state->begin_snapshot(*span.keep);
  const auto note = [&](const Tensor& x) { after_layer->push_back(finish(x)); };
  if (ranks() > 1) {
    RanksPass pass{layers,
                   batch,
                   spec_.hidden,
                   parts_,
                   static_cast<int>(layout_.size()) / ranks(),
                   [&] { return embed(batch); },
                   batch.deep_layers(),
                   [&](const Tensor& x, int layer) { return add_deep(x, batch, layer); },
                   {}};
    if (after_layer) pass.after_layer = note;
    return weights_.ranks.run(pass);
  }
  device().begin_pass();
  Tensor x = [&] {
    const ops::Stage stage(device(), "embedding");
    const Tensor rows = embed(batch);
    return weights_.mixer ? nn::to_streams(rows, weights_.mixer->streams) : rows;
  }();
  const auto& per_layer = weights_.per_layer_inputs;
  const Tensor* chosen = batch.chosen ? &*batch.chosen : nullptr;
  const Tensor inputs = per_layer ? (*per_layer)(batch.ids, x, chosen) : Tensor();
  for (const int i : layers) {
    const auto layer = static_cast<size_t>(i);
    const int rows = x.shape(0);
    const Tensor own = per_layer ? inputs.slice_rows(i * rows, (i + 1) * rows) : Tensor();
    x = weights_.ranks.layers().at(layer)(x, batch, parts_[layer], per_layer ? &own : nullptr);
    if (i < batch.deep_layers()) x = add_deep(x, batch, i);
    if (after_layer) note(x);
  }
  return x;
}

Tensor Model::embed(const Batch& batch) const {
  const Tensor* chosen = batch.chosen ? &*batch.chosen : nullptr;
  const auto of_text = [&](std::span<const int> ids) {
    const Tensor x = ops::embed(ids, weights_.embedding, chosen);
    if (spec_.normed_embedding) return weights_.norm(x);
    if (weights_.embedding_norm) return (*weights_.embedding_norm)(x);
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

Tensor Model::add_deep(const Tensor& x, const Batch& batch, int layer) {
  std::vector<Tensor> parts;
  int done = 0;
  for (const ImageRows& image : batch.images) {
    if (layer >= static_cast<int>(image.deep.size())) continue;
    const int end = image.begin + image.rows.shape(0);
    if (done < image.begin) parts.push_back(x.slice_rows(done, image.begin));
    parts.push_back(ops::add(x.slice_rows(image.begin, end), image.deep[static_cast<size_t>(layer)]));
    done = end;
  }
  if (done < x.shape(0)) parts.push_back(x.slice_rows(done, x.shape(0)));
  return ops::concat_rows(parts);
}

Tensor Model::mtp(const Tensor& hidden, const Batch& batch) const {
  CHECK(weights_.mtp, "the model has no MTP head");
  const auto out = (*weights_.mtp)(embed(batch), hidden, batch);
  for (const auto& span : batch.spans) span.state->advance(span.count);
  return out;
}

StateLayout Model::mtp_layout() const {
  StateLayout layout;
  if (weights_.mtp) {
    for (const auto& layer : weights_.mtp->layers) {
      const auto& attention = std::get<nn::Attention>(layer.mixer);
      layout.emplace_back(KvLayout{attention.kv_heads, attention.head_dim});
    }
  }
  return layout;
}

void Model::lay_out_states() {
  const Ranks& ranks = weights_.ranks;
  parts_ = spec_.state_parts();
  layout_.clear();
  part_devices_.clear();
  if (ranks.in_turns()) {
    layout_ = spec_.state_layout();
    for (size_t layer = 0; layer < layout_.size(); layer++) part_devices_.push_back(&ranks.owner(layer));
    return;
  }
  for (int rank = 0; rank < ranks.count(); rank++) {
    const StateLayout own = spec_.state_layout(rank, ranks.count());
    layout_.insert(layout_.end(), own.begin(), own.end());
    part_devices_.resize(layout_.size(), &ranks.device(rank));
  }
}

std::vector<StateLayout> Model::device_layouts() const {
  std::vector<StateLayout> out(static_cast<size_t>(ranks()));
  for (int rank = 0; rank < ranks(); rank++)
    for (size_t part = 0; part < layout_.size(); part++)
      if (part_devices_[part] == &weights_.ranks.device(rank))
        out[static_cast<size_t>(rank)].push_back(layout_[part]);
  return out;
}

void Model::drop_layers(std::span<const int> layers) {
  CHECK(can_skip_layers(), "layers need each other");
  for (const int layer : layers)
    weights_.ranks.layers()[static_cast<size_t>(layer)].visit_inputs(
        [&](const std::vector<const nn::Linear*>& linears) {
          for (const nn::Linear* linear : linears)
            if (linear->origin) dropped_modules_.insert(linear->origin->module);
        });
  weights_.ranks.drop_layers(layers);
  for (auto at = layers.rbegin(); at != layers.rend(); ++at) spec_.layers.erase(spec_.layers.begin() + *at);
  lay_out_states();
}

bool Model::can_skip_layers() const {
  const auto reads_another = [](const LayerSpec& layer) {
    const auto* attention = attention_of(layer.mixer);
    return attention && attention->kv_layer >= 0;
  };
  return !weights_.per_layer_inputs && std::ranges::none_of(spec_.layers, reads_another);
}

}  // namespace anabranch
