// Has a vision tower encode the images of prompts, in pieces between the engine's steps.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "cache/image_store.h"
#include "engine/sequence.h"
#include "models/vision_tower.h"

namespace anabranch {

// The images of a request as the model sees them, without their embeddings; null: it has none.
std::unique_ptr<PromptImages> images_of(const Request& request, const VisionTower* tower);

class ImageEncoder {
 public:
  // store: of embeddings, or null. The tower and the device outlive it.
  ImageEncoder(const VisionTower& tower, const ImageProcessor& processor, Device& device,
               std::unique_ptr<ImageStore> store)
      : tower_(tower), processor_(processor), device_(device), store_(std::move(store)) {}

  // Gives the sequence's images that end beyond `covered` tokens their embeddings, as far as those are kept.
  // Returns whether it now has all of these.
  bool find(Sequence& sequence, int covered);
  // Encodes what it lacks later, in work(); first come, first served. The sequence stays where it is until it
  // is returned or removed.
  void add(Sequence& sequence, int covered) { jobs_.push_back({&sequence, covered}); }
  void remove(RequestId id);
  bool idle() const { return jobs_.empty(); }
  // Works for about so many seconds, and at least on one piece, or until a request has what it needs: that is
  // returned, and is no job any more. Throws as the device does; the first job is at fault then.
  std::optional<RequestId> work(double seconds);
  // Gives back the memory of images whose tokens the state has applied, and drafters seen.
  static void drop_read(Sequence& sequence);
  RequestId first() const { return jobs_.front().sequence->id; }

 private:
  static constexpr int kReadAgain = 512;  // tokens that a drafter may lag behind
  struct Job {
    Sequence* sequence;
    int covered;
  };
  // The first image that lacks its embeddings; null: none does.
  PromptImage* lacking(const Job& job);
  const RequestImage& input_of(const Sequence& sequence, const PromptImage& image) const;
  void finish_image(const Sequence& sequence, PromptImage& image, const Tensor& embeddings);

  const VisionTower& tower_;
  const ImageProcessor& processor_;
  Device& device_;
  std::unique_ptr<ImageStore> store_;
  std::deque<Job> jobs_;
  std::unique_ptr<VisionTower::Encoding> current_;  // of the first job's first image that lacks embeddings
};

}  // namespace anabranch
