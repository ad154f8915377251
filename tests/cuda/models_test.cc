// Whole models on CUDA, by kernels that the emulator runs on the CPU, against Transformers.
#include "cuda/emulated_card.h"
#include "models/golden.h"

namespace anabranch::golden {
namespace {

class EmulatedModels : public EmulatedCard, public ::testing::WithParamInterface<std::string> {};

TEST_P(EmulatedModels, CloseToTransformersAndTheSameBitsForAnyRows) {
  const auto device = ops::cuda::open_cuda(0, 1).value();
  expect_close_on_cuda(read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / GetParam()), *device,
                       {3, 23}, 100);
}
INSTANTIATE_TEST_SUITE_P(Cuda, EmulatedModels, ::testing::ValuesIn(directory_names()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Q8, EmulatedModels,
                         ::testing::Values("qwen3_moe_gguf", "nemotron_h_gguf", "nemotron_h_moe_gguf",
                                           "gpt_oss_gguf", "arcee_gguf", "apertus_gguf", "nemotron_gguf",
                                           "jais2_gguf"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(EmulatedCard, ExpertsInTheMachinesMemory) {
  const auto device = ops::cuda::open_cuda(0, 1, 1).value();
  expect_close_on_cuda(read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / "qwen35_moe_fused"),
                       *device, {3, 23}, 100);
  EXPECT_EQ(static_cast<ops::cuda::CudaDevice&>(*device).resident_experts(8), 0);
}

}  // namespace
}  // namespace anabranch::golden
