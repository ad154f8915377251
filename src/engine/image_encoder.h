// Encodes the images of prompts with a vision tower, in pieces between the engine's steps.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "cache/image_store.h"
#include "engine/sequence.h"
#include "models/vision_tower.h"

namespace anabranch {

// The images of a request as the model takes them, still without embeddings; null: the request has none.
std::unique_ptr<PromptImages> images_of(const Request& request, const VisionTower* tower);

class ImageEncoder {
 public:
  // store: a cache of embeddings, or null. The tower and the device must outlive the encoder.
  ImageEncoder(const VisionTower& tower, const ImageProcessor& processor, Device& device,
               std::unique_ptr<ImageStore> store)
      : tower_(tower), processor_(processor), device_(device), store_(std::move(store)) {}

  // Looks up the embeddings of the sequence's images that end after the first `covered` tokens. Returns
  // whether all of them are now known.
  bool find(Sequence& sequence, int covered);
  // Queues the sequence: work() encodes its missing images; first come, first served. The sequence must stay
  // at its address until work() returns it or it is removed.
  void add(Sequence& sequence, int covered) { jobs_.push_back({&sequence, covered}); }
  void remove(RequestId id);
  bool idle() const { return jobs_.empty(); }
  // Encodes for about `seconds`, at least one piece. Ends early when a request has all its embeddings, and
  // returns its id; it is then no longer queued. Throws if the device does; the cause is then the request
  // first().
  std::optional<RequestId> work(double seconds);
  // Frees the embeddings of images that both the state and the drafters have read.
  static void drop_read(Sequence& sequence);
  RequestId first() const { return jobs_.front().sequence->id; }

 private:
  static constexpr int kReadAgain = 512;  // tokens that a drafter may lag behind
  struct Job {
    Sequence* sequence;
    int covered;
  };
  // The job's first image without embeddings; null: none.
  PromptImage* lacking(const Job& job);
  const RequestImage& input_of(const Sequence& sequence, const PromptImage& image) const;
  void finish_image(const Sequence& sequence, PromptImage& image, const Tensor& embeddings);

  const VisionTower& tower_;
  const ImageProcessor& processor_;
  Device& device_;
  std::unique_ptr<ImageStore> store_;
  std::deque<Job> jobs_;
  std::unique_ptr<VisionTower::Encoding> current_;  // of the first job's first image without embeddings
};

}  // namespace anabranch
