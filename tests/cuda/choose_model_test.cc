// The device for a model that nobody named, on machines whose GPU has more or less free memory.
#include "cli/choose_model.h"

#include "cuda/fake_card.h"
#include "ops/cuda/device.h"
#include "temp_dir.h"
#include "variable.h"

namespace anabranch::cli {
namespace {

// The device that is chosen with so many bytes free on the GPU.
std::string chosen_device(uint64_t free_bytes, bool any_device, const std::string& named = "cpu") {
  fake_cards[0] = {.free_bytes = free_bytes};
  ops::DeviceOptions options;
  options.name = named;
  options.threads = 1;
  const auto choice = choose_model("generate", options, any_device, true);
  EXPECT_TRUE(fake_cards[0].is_closed());
  fake_cards[0] = {};
  return choice ? choice->device : choice.error().message;
}

TEST(ChooseModelWithCuda, BusyOrSmallGpuLeavesTheCpu) {
  const testing::TempDir cache;
  const testing::Variable hub("HF_HUB_CACHE", cache.path().c_str()), home("HOME", cache.path().c_str());
  EXPECT_EQ(chosen_device(600'000'000, true), "cuda");
  EXPECT_EQ(chosen_device(290'000'000, true), "cpu");
  EXPECT_EQ(chosen_device(0, true), "cpu");
  EXPECT_EQ(chosen_device(600'000'000, false), "cpu");
  EXPECT_NE(chosen_device(10 << 20, false, "cuda").find("of memory are free"), std::string::npos)
      << chosen_device(10 << 20, false, "cuda");
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
}

TEST(ChooseModelWithCuda, RateIsMeasuredWithTheMemoryThatIsFree) {
  for (const uint64_t mb : {80, 400}) {
    fake_cards[0] = {.free_bytes = mb << 20};
    // The fake's copies take a millisecond: bytes are read and written.
    EXPECT_EQ(ops::cuda::measure_limits(*ops::cuda::open_cuda(0, 1).value()).memory_gb_s,
              2e3 * (mb << 17) / 1e9);
  }
  fake_cards[0] = {.free_bytes = 1 << 20};
  EXPECT_EQ(ops::cuda::measure_limits(*ops::cuda::open_cuda(0, 1).value()).memory_gb_s, 0);
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_cards[0] = {};
}

}  // namespace
}  // namespace anabranch::cli
