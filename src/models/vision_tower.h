// The part of a model that sees images: a vision transformer whose outputs are used as input rows of the text
// model, one row for each of an image's tokens. Made and used on the engine thread, like the text model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "images/processor.h"
#include "tensor/tensor.h"

namespace anabranch {

struct VisionSpec {
  // qwen: the tower of Qwen3-VL and Qwen3.5 (Transformers' Qwen3VLVisionModel and Qwen3_5VisionModel).
  // gemma3: SigLIP with Gemma 3's projector.
  enum class Family { qwen, gemma3 };
  Family family = Family::qwen;
  int depth = 0, hidden = 0, intermediate = 0, heads = 0;
  int patch = 0, temporal_patch = 1;  // a patch has 3 * temporal_patch * patch * patch numbers
  int table_side = 0;                 // learned positions: table_side x table_side
  int merge = 1;                      // merge x merge patches become a token
  int out_hidden = 0;                 // width of the text model
  // "Deepstack" (Meng et al. 2024): behind each of these layers (ascending) a merger makes features of an
  // image's tokens. Those of the i-th are added to the tokens' rows behind layer i of the text model.
  std::vector<int> deepstack;
  float eps = 1e-6f;
  double rope_theta = 0;  // 0: no rotary positions

  int head_dim() const { return hidden / heads; }
  int patch_inputs() const { return 3 * temporal_patch * patch * patch; }
  // The rows that an image has for each of its tokens (PromptImage::embeddings).
  int rows_per_token() const { return 1 + static_cast<int>(deepstack.size()); }
};

struct VisionWeights;  // vision_parts.h

class VisionTower {
 public:
  // Whether the files have a tower of a supported family beside the text model.
  static bool present(const Checkpoint& checkpoint);
  // Errors: not_found (there is no tower), unsupported (a value that this program cannot run), invalid (a
  // value or a tensor is missing, misshapen or left over; the tower belongs to another text model). The
  // device outlives the tower.
  static Result<std::unique_ptr<VisionTower>> load(const Checkpoint& checkpoint, Device& device);
  ~VisionTower();

  const VisionSpec& spec() const;
  uint64_t weight_bytes() const;
  // The most device memory that the encoding of an image with this many patches takes, in bytes.
  uint64_t working_bytes(int64_t patches) const;

  // The work on one image. It must not outlive the tower, and runs on the device's thread.
  class Encoding {
   public:
    virtual ~Encoding() = default;
    // Works for about this many seconds, or to the end; true when done. The result does not depend on the
    // number of calls or their arguments.
    virtual bool step(double seconds) = 0;
    // [rows_per_token() * tokens, width of the text model] f32 on the device: a row for each of the image's
    // tokens, in their order, then as many for each deepstack layer. Only when done.
    virtual Tensor result() const = 0;
  };
  // The image must fit the processor, and the processor the tower (image_processor_of()). The image must
  // outlive the encoding.
  std::unique_ptr<Encoding> begin(const ProcessedImage& image, const ImageProcessor& processor) const;

 private:
  explicit VisionTower(std::unique_ptr<VisionWeights> weights);
  std::unique_ptr<VisionWeights> weights_;
};

// The image processor that the files describe, checked against the tower. Errors: see read_image_processor(),
// and not_found.
Result<ImageProcessor> image_processor_of(const Checkpoint& checkpoint);

}  // namespace anabranch
