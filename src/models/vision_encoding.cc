// The pass of one image through a tower, in pieces: rows of patches go through the query, key and value
// projections, or through attention and the MLP. A row's result does not depend on the other rows of its
// piece.
#include <algorithm>
#include <chrono>
#include <utility>

#include "models/vision_parts.h"
#include "ops/profile.h"

namespace anabranch {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rows of a piece, in whole blocks: the device's preferred number; on the CPU half of it, which takes tens of
// milliseconds when all rows see thousands of patches, and makes an image 3 % slower.
int piece_rows(const VisionWeights& w) {
  const int block = w.spec.merge * w.spec.merge, liked = w.device->prefill_chunk();
  return std::max((w.device->is_host() ? liked / 2 : liked) / block, 1) * block;
}

class EncodingImpl final : public VisionTower::Encoding {
 public:
  EncodingImpl(const VisionWeights& weights, const PatchReader& reader, PatchGrid grid)
      : w_(weights),
        reader_(reader),
        grid_(grid),
        rows_(piece_rows(weights)),
        pieces_((grid.count() + rows_ - 1) / rows_),
        x_(static_cast<size_t>(pieces_)),
        q_(static_cast<size_t>(pieces_)),
        deep_(weights.spec.deepstack.size()) {
    for (int i = 0; i < grid.count() && !w_.rope.axis.empty(); i++) {
      const PatchPosition place = position_in_blocks(grid, w_.spec.merge, i);
      places_.push_back(place.row);
      places_.push_back(place.column);
    }
  }

  bool step(double seconds) override {
    const auto start = Clock::now();
    double last = 0;
    while (!done()) {
      const double before = seconds_since(start);
      run_piece();
      w_.device->synchronize();
      const double now = seconds_since(start);
      last = now - before;
      if (now + last / 2 > seconds) break;
    }
    return done();
  }

  Tensor result() const override {
    CHECK(done(), "the picture is not encoded yet");
    std::vector<Tensor> parts = out_;
    for (const auto& pieces : deep_) parts.insert(parts.end(), pieces.begin(), pieces.end());
    return ops::concat_rows(parts);
  }

 private:
  // The stages are: the patches, two stages for each layer, the end. Each has `pieces_` pieces.
  int stages() const { return 2 + 2 * static_cast<int>(w_.layers.size()); }
  bool done() const { return stage_ == stages(); }

  void run_piece() {
    const int begin = piece_ * rows_, end = std::min(begin + rows_, grid_.count());
    if (stage_ == 0)
      embed(begin, end);
    else if (stage_ == stages() - 1)
      finish();
    else if (stage_ % 2 == 1)
      prepare_attention(layer(), begin, end);
    else
      run_rest(layer());
    if (++piece_ < pieces_) return;
    piece_ = 0;
    stage_++;
  }
  int layer_number() const { return (stage_ - 1) / 2; }
  const VisionLayer& layer() const { return w_.layers[static_cast<size_t>(layer_number())]; }
  Tensor& x() { return x_[static_cast<size_t>(piece_)]; }
  Tensor& q() { return q_[static_cast<size_t>(piece_)]; }

  // Returns values [end - begin, width] on the device, whose rows fill(row, to) writes.
  template <class Fill>
  Tensor make_rows(int begin, int end, int width, const Fill& fill) const {
    Tensor out = w_.device->empty_host({end - begin, width}, Dtype::f32);
    w_.device->threads().parallel_for(end - begin, 16, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i++) fill(begin + static_cast<int>(i), out.data<float>() + i * width);
    });
    return w_.device->to_device(out);
  }

  void embed(int begin, int end) {
    const ops::Stage stage(*w_.device, "vision patches");
    const int inputs = w_.spec.patch_inputs();
    const Tensor patches = make_rows(begin, end, inputs, [&](int i, float* to) {
      const PatchPosition place = position_in_blocks(grid_, w_.spec.merge, i);
      reader_.read(place.row, place.column, to);
    });
    const Tensor positions = make_rows(begin, end, w_.spec.hidden, [&](int i, float* to) {
      w_.family->position(w_, grid_, position_in_blocks(grid_, w_.spec.merge, i), to);
    });
    x() = ops::add(project(w_.patches, patches), positions);
  }

  void prepare_attention(const VisionLayer& layer, int begin, int end) {
    const ops::Stage stage(*w_.device, "vision qkv");
    if (piece_ == 0) {
      kv_ = {};
      kv_.kv_heads = w_.spec.heads;
      kv_.head_dim = w_.head_dim;
    }
    const ops::Weight* const weights[] = {&layer.q.weight, &layer.k.weight, &layer.v.weight};
    const auto products = ops::linear(layer.norm1(x()), weights);
    const Shape heads{end - begin, w_.spec.heads, w_.head_dim};
    const auto of_heads = [&](const Tensor& y, const nn::Linear& linear) {
      return ops::add_bias(y, *linear.bias).reshape(heads);
    };
    q() = of_heads(products[0], layer.q);
    Tensor k = of_heads(products[1], layer.k);
    if (!w_.rope.inv_freq.empty()) {
      const auto at = std::span<const int>(places_).subspan(static_cast<size_t>(2 * begin),
                                                            static_cast<size_t>(2 * (end - begin)));
      q() = ops::rope(q(), at, w_.rope);
      k = ops::rope(k, at, w_.rope);
    }
    ops::kv_append(kv_, k, of_heads(products[2], layer.v));
  }

  void run_rest(const VisionLayer& layer) {
    Tensor mixed;
    {
      const ops::Stage stage(*w_.device, "vision attention");
      const float scale = 1.0f / std::sqrt(static_cast<float>(w_.spec.head_dim()));
      mixed = ops::attention(q(), kv_, {scale}, true).reshape({q().shape(0), w_.spec.heads * w_.head_dim});
      q() = {};
    }
    const ops::Stage stage(*w_.device, "vision mlp");
    const auto add_output = [&](const nn::Linear& linear, const Tensor& y) {
      x() = ops::add_bias(ops::linear_add(y, linear.weight, x()), *linear.bias);
    };
    add_output(layer.out, mixed);
    add_output(layer.down, ops::gelu(project(layer.up, layer.norm2(x())), ops::Gelu::tanh));
    const auto& deep = w_.spec.deepstack;
    const auto at = std::ranges::find(deep, layer_number());
    if (at == deep.end()) return;
    const auto merger = static_cast<size_t>(at - deep.begin());
    deep_[merger].push_back(w_.family->merge(w_.deepstack[merger], x()));
  }

  void finish() {
    const ops::Stage stage(*w_.device, "vision end");
    kv_ = {};
    out_.push_back(w_.family->finish(w_, x()));
    x() = {};
  }

  const VisionWeights& w_;
  PatchReader reader_;
  PatchGrid grid_;
  std::vector<int> places_;  // row and column of each patch
  int rows_, pieces_;        // rows of a piece, pieces of a stage
  int stage_ = 0, piece_ = 0;
  std::vector<Tensor> x_, q_, out_;        // of each piece
  std::vector<std::vector<Tensor>> deep_;  // for each deepstack layer: of each piece
  ops::PagedKv kv_;                        // of a layer
};

}  // namespace

uint64_t VisionTower::working_bytes(int64_t patches) const {
  const VisionSpec& s = weights_->spec;
  const int64_t heads = int64_t{s.heads} * weights_->head_dim,
                wide = int64_t{s.heads} * (weights_->head_dim + 16);
  const int64_t blocks = (patches + ops::kKvBlock - 1) / ops::kKvBlock;
  const int64_t kv = blocks * ops::kKvBlock * 2 * wide * bytes_of(weights_->device->kv_dtype());
  const int64_t tokens = patches / (s.merge * s.merge);
  const int64_t piece = std::min<int64_t>(patches, piece_rows(*weights_)) *
                        (s.patch_inputs() + 4 * int64_t{s.hidden} + 4 * heads + 2 * int64_t{s.intermediate});
  return static_cast<uint64_t>(
      kv + 4 * (patches * (s.hidden + heads) + 2 * s.rows_per_token() * tokens * s.out_hidden + piece));
}

std::unique_ptr<VisionTower::Encoding> VisionTower::begin(const ProcessedImage& image,
                                                          const ImageProcessor& processor) const {
  const VisionSpec& s = weights_->spec;
  CHECK(processor.patch == s.patch && image.rows > 0 && image.rows % s.merge == 0 && image.columns > 0 &&
            image.columns % s.merge == 0,
        "{} x {} patches of {} pixels", image.rows, image.columns, processor.patch);
  CHECK(
      s.family != VisionSpec::Family::gemma3 || (image.rows == s.table_side && image.columns == s.table_side),
      "{} x {} patches", image.rows, image.columns);
  const PatchReader reader(image, processor);
  CHECK(reader.values() == s.patch_inputs(), "patches of {} numbers", reader.values());
  return std::make_unique<EncodingImpl>(*weights_, reader, PatchGrid{image.rows, image.columns});
}

}  // namespace anabranch
