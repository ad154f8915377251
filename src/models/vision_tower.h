#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "images/processor.h"
#include "tensor/tensor.h"

namespace anabranch {

struct VisionSpec {
  int out_hidden = 0;
  bool grid_positions = false, see_each_other = false;
};

class VisionTower {
 public:
  virtual ~VisionTower() = default;
  static bool present(const Checkpoint& checkpoint);
  static Result<std::unique_ptr<Checkpoint>> open(const std::string& path);
  static Result<std::unique_ptr<VisionTower>> load(Checkpoint& checkpoint, Device& device);
  virtual const VisionSpec& spec() const = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual Result<ImageProcessor> processor(const Checkpoint& checkpoint) const = 0;
  struct Grid {
    int rows, columns;
  };
  Grid token_grid(const ProcessedImage& image) const;
  class Encoding {
   public:
    virtual ~Encoding() = default;
    virtual bool step(double seconds) = 0;
    virtual Tensor result() = 0;
  };
  virtual std::unique_ptr<Encoding> begin(const ProcessedImage& image, const ImageProcessor& processor) const = 0;
};

}  // namespace anabranch
