// Vision towers on CUDA, by kernels that the emulator runs on the CPU, against Transformers. Heads of 16 and
// 72 are padded there.
#include "models/vision_tower.h"

#include "cuda/emulated_card.h"
#include "models/vision_golden.h"
#include "ops/testing.h"

namespace anabranch::golden {
namespace {

class EmulatedVision : public EmulatedCard, public ::testing::WithParamInterface<std::string> {};

TEST_P(EmulatedVision, CloseToTransformersHoweverTheWorkIsCut) {
  const auto device = ops::cuda::open_cuda(0, 1).value();
  const VisionCase golden = read_vision_case(GetParam());
  const auto checkpoint = Checkpoint::open((golden.directory / "model").string()).value();
  const auto tower = VisionTower::load(*checkpoint, *device).value();
  const ImageProcessor processor = image_processor_of(*checkpoint).value();
  for (const VisionImage& image : golden.images) {
    const auto encode = [&](double seconds) {
      const auto encoding = tower->begin(image.image, processor);
      while (!encoding->step(seconds)) {
      }
      return to_host(encoding->result());
    };
    const Tensor whole = encode(1e9);
    ASSERT_EQ(static_cast<size_t>(whole.size()), image.features.size());
    // bf16 activations and f16 keys and values, in features whose standard deviation is 0.2 to 0.6.
    for (size_t i = 0; i < image.features.size(); i++)
      ASSERT_NEAR(whole.data<float>()[i], image.features[i], 4e-2) << "number " << i;
    ops::expect_same_bits(encode(0), whole, "piece by piece");
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, EmulatedVision,
                         ::testing::Values("qwen3_5_vision", "qwen3_5_vision_72", "qwen3_vl",
                                           "gemma3_vision"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace anabranch::golden
