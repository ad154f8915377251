// A card whose kernels the emulator runs, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "ops/cuda/device.h"

namespace anabranch {

// Without Hopper's own kernels, which the emulator cannot run, and with so many multiprocessors that one
// variant of gemv.cu does for most matrices and each part of attention has a block of its own.
class EmulatedCard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!emulator::unsupported().empty()) GTEST_SKIP() << emulator::unsupported();
    fake_cards[0] = {.capability = 80, .multiprocessors = 512, .shared_bytes = 166912, .emulated = true};
  }
  void TearDown() override {
    EXPECT_EQ(fake_faults, std::vector<std::string>());
    fake_faults.clear();
    fake_cards[0] = {};
  }
};

// The same with a device.
class EmulatedDevice : public EmulatedCard {
 protected:
  void SetUp() override {
    EmulatedCard::SetUp();
    if (!IsSkipped()) device_ = ops::cuda::open_cuda(0, 1).value();
  }
  void TearDown() override {
    device_.reset();
    EmulatedCard::TearDown();
  }
  ops::cuda::CudaDevice& card() { return static_cast<ops::cuda::CudaDevice&>(*device_); }

  std::unique_ptr<Device> device_;
};

}  // namespace anabranch
