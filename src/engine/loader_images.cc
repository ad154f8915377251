#include "engine/loader_images.h"

#include "base/log.h"
#include "models/kernel_passes.h"

namespace anabranch {
namespace {

// The text that a family's chat template writes for an image, and the text with which its processor replaces
// it. Reference: Transformers' processing_qwen3_vl.py and processing_gemma3.py.
struct Written {
  const char *by_template, *in_prompt, *pad;
};
Written written_by(VisionSpec::Family family) {
  if (family == VisionSpec::Family::gemma3)
    return {"<start_of_image>", "\n\n<start_of_image><image_soft_token><end_of_image>\n\n",
            "<image_soft_token>"};
  return {"<|image_pad|>", "<|image_pad|>", "<|image_pad|>"};
}

// Checks that a Qwen model has RoPE over time, height and width, because positions in its images form a grid.
Result<void> check_positions(const ModelSpec& spec, VisionSpec::Family family) {
  if (family != VisionSpec::Family::qwen) return {};
  for (const ops::Rope& rope : spec.ropes)
    if (rope.axes() != 3)
      return make_error(ErrorKind::unsupported, "its rotary positions do not tell rows and columns apart");
  return {};
}

Result<void> load(const Checkpoint& checkpoint, LoadedModel& model) {
  TRY(auto tower, VisionTower::load(checkpoint, *model.device));
  ImageFormat format;
  TRY(format.processor, image_processor_of(checkpoint));
  TRY_VOID(check_positions(model.model->spec(), tower->spec().family));
  const Written written = written_by(tower->spec().family);
  const auto pad = model.tokenizer->find(written.pad);
  if (!pad) return make_error(ErrorKind::invalid, "the tokenizer lacks {}", written.pad);
  format.written = written.by_template;
  format.in_prompt = written.in_prompt;
  format.pad = *pad;
  if (const std::string path = checkpoint.vision()->path(); path != checkpoint.path())
    model.tower_path = path;
  prepare_kernels(*tower, format.processor, *model.device);
  model.tower = std::move(tower);
  model.image_format = std::move(format);
  model.info.images = true;
  const ImageProcessor& by = model.image_format->processor;
  const int64_t area = int64_t{by.patch} * by.patch;
  const int64_t pixels = by.kind == ImageProcessor::Kind::qwen ? by.max_pixels : int64_t{by.size} * by.size;
  model.info.image_bytes = model.tower->working_bytes(pixels / area);
  model.info.weight_bytes += model.tower->weight_bytes();
  return {};
}

}  // namespace

void load_images(const Checkpoint& checkpoint, LoadedModel& model) {
  if (!VisionTower::present(checkpoint)) return;
  if (const auto loaded = load(checkpoint, model); !loaded)
    log_warning("{}: images cannot be read, only text: {}", checkpoint.path(), loaded.error().message);
}

}  // namespace anabranch
