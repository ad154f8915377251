// The gated delta rule on CUDA, by kernels that the emulator runs on the CPU.
#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "ops/cuda/device.h"
#include "ops/delta_cases.h"

namespace anabranch::ops {
namespace {

class EmulatedDelta : public testing::Test {
 protected:
  void SetUp() override {
    if (!emulator::unsupported().empty()) GTEST_SKIP() << emulator::unsupported();
    fake_cards[0] = {.capability = 80, .multiprocessors = 512, .shared_bytes = 166912, .emulated = true};
    device_ = cuda::open_cuda(0, 1).value();
  }
  void TearDown() override {
    device_.reset();
    EXPECT_EQ(fake_faults, std::vector<std::string>());
    fake_faults.clear();
    fake_cards[0] = {};
  }
  Device& card() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
};

TEST_F(EmulatedDelta, EqualsReference) {
  expect_delta_like_reference(card());
}
TEST_F(EmulatedDelta, Trials) {
  expect_trials_of_delta(card());
}
TEST_F(EmulatedDelta, ManySequences) {
  expect_delta_of_many_sequences(card());
}
TEST_F(EmulatedDelta, SpansOfOneSequence) {
  expect_delta_of_spans(card());
}

}  // namespace
}  // namespace anabranch::ops
