#include "engine/loader_images.h"

#include "base/log.h"
#include "base/json.h"

namespace anabranch {
namespace {

// What the family's chat template writes for an image, and what its processor makes of that: Transformers'
// processing_qwen3_vl.py and processing_gemma3.py.
struct Written {
  const char *by_template, *in_prompt, *pad;
};
Written written_by(const VisionSpec& spec) {
  if (spec.see_each_other)
    return {"<start_of_image>", "\n\n<start_of_image><image_soft_token><end_of_image>\n\n",
            "<image_soft_token>"};
  return {"<|image_pad|>", "<|image_pad|>", "<|image_pad|>"};
}

Result<void> load(const Checkpoint& text, LoadedModel& model) {
  TRY(auto files, VisionTower::open(text.path()));
  TRY(auto tower, VisionTower::load(*files, *model.device));
  if (tower->spec().out_hidden != model.model->spec().hidden)
    return make_error(ErrorKind::invalid, "{}: its outputs have {} values, those of the model {}",
                      files->path(), tower->spec().out_hidden, model.model->spec().hidden);
  ImageFormat format;
  TRY(format.processor, tower->processor(*files));
  const Written written = written_by(tower->spec());
  const auto pad = model.tokenizer->find(written.pad);
  if (!pad) return make_error(ErrorKind::invalid, "the tokenizer lacks {}", written.pad);
  format.written = written.by_template;
  format.in_prompt = written.in_prompt;
  format.pad = *pad;
  if (files->path() != text.path()) model.tower_path = files->path();
  model.tower = std::move(tower);
  model.image_format = std::move(format);
  model.info.images = true;
  model.info.weight_bytes += model.tower->weight_bytes();
  return {};
}

}  // namespace

void load_images(const std::string& path, LoadedModel& model) {
  const auto text = Checkpoint::open(path);
  if (!text || !VisionTower::present(**text)) return;
  if (const auto loaded = load(**text, model); !loaded)
    log_warning("{}: images cannot be read, only text: {}", path, loaded.error().message);
}

}  // namespace anabranch
