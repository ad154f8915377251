// A CUDA device for all tests of a suite, which are skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "ops/open.h"
#include "tensor/device.h"

namespace anabranch::ops {

class OpenedCard : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cuda_unsupported().empty()) opened = open_device({.name = "cuda"}).value();
  }
  static void TearDownTestSuite() { opened.reset(); }
  void SetUp() override {
    if (!opened) GTEST_SKIP() << cuda_unsupported();
  }
  static Device& card() { return *opened; }
  static Tensor on_card(const Tensor& x) { return opened->to_device(x); }

 private:
  static inline std::unique_ptr<Device> opened;
};

}  // namespace anabranch::ops
