#include "engine/image_encoder.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace anabranch {

std::unique_ptr<PromptImages> images_of(const Request& request, const VisionTower* tower) {
  if (request.images.empty() || !tower) return nullptr;
  auto out = std::make_unique<PromptImages>();
  out->grid_positions = tower->spec().family == VisionSpec::Family::qwen;
  out->see_each_other = tower->spec().family == VisionSpec::Family::gemma3;
  for (const RequestImage& image : request.images) {
    const int rows = image.image->rows / tower->spec().merge,
              columns = image.image->columns / tower->spec().merge;
    CHECK(rows * columns == image.image->tokens, "an image of {} tokens in a grid of {} x {}",
          image.image->tokens, rows, columns);
    out->images.push_back({image.begin, rows, columns, {}});
  }
  return out;
}

PromptImage* ImageEncoder::lacking(const Job& job) {
  for (PromptImage& image : job.sequence->images->images)
    if (image.end() > job.covered && image.embeddings.empty()) return &image;
  return nullptr;
}

const RequestImage& ImageEncoder::input_of(const Sequence& sequence, const PromptImage& image) const {
  const auto& inputs = sequence.request.images;
  return *std::ranges::find(inputs, image.begin, &RequestImage::begin);
}

bool ImageEncoder::find(Sequence& sequence, int covered) {
  const Job job{&sequence, covered};
  if (store_ && sequence.request.cache)
    for (PromptImage& image : sequence.images->images) {
      if (image.end() <= covered || !image.embeddings.empty()) continue;
      const auto kept =
          store_->find(input_of(sequence, image).key, sequence.request.cache_salt,
                       {tower_.spec().rows_per_token() * image.tokens(), tower_.spec().out_hidden});
      if (kept) image.embeddings = device_.to_device(*kept);
    }
  return !lacking(job);
}

void ImageEncoder::finish_image(const Sequence& sequence, PromptImage& image, const Tensor& embeddings) {
  image.embeddings = embeddings;
  if (store_ && sequence.request.cache)
    store_->keep(input_of(sequence, image).key, sequence.request.cache_salt, device_.to_host(embeddings));
}

void ImageEncoder::drop_read(Sequence& sequence) {
  for (PromptImage& image : sequence.images->images)
    if (image.end() + kReadAgain < sequence.state->length()) image.embeddings = Tensor();
}

void ImageEncoder::remove(RequestId id) {
  if (!jobs_.empty() && first() == id) current_.reset();
  std::erase_if(jobs_, [&](const Job& job) { return job.sequence->id == id; });
}

std::optional<RequestId> ImageEncoder::work(double seconds) {
  const double end = now_seconds() + seconds;
  do {
    if (jobs_.empty()) return std::nullopt;
    const Job job = jobs_.front();
    // Another request may have stored the same image meanwhile.
    if (!current_) find(*job.sequence, job.covered);
    PromptImage* image = lacking(job);
    if (!image) {
      jobs_.pop_front();
      return job.sequence->id;
    }
    if (!current_) current_ = tower_.begin(*input_of(*job.sequence, *image).image, processor_);
    if (!current_->step(std::max(0.0, end - now_seconds()))) continue;
    const auto encoded = std::move(current_);
    finish_image(*job.sequence, *image, encoded->result());
  } while (now_seconds() < end);
  return std::nullopt;
}

}  // namespace anabranch
