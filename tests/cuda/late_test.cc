// That the host waits for the card where it must: the driver here does everything as late as it can be done
// (late_work.h).
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/fake_card.h"
#include "ops/choose.h"
#include "ops/collective.h"
#include "ops/cuda/device.h"

namespace anabranch::ops {
namespace {

class LateCard : public ::testing::Test {
 protected:
  void SetUp() override {
    for (FakeCard& card : fake_cards) card = {};
    device_ = cuda::open_cuda(0, 1).value();
  }
  void TearDown() override {
    device_.reset();
    for (const FakeCard& card : fake_cards) EXPECT_TRUE(card.is_closed());
    EXPECT_EQ(fake_faults, std::vector<std::string>());
    fake_faults.clear();
    for (FakeCard& card : fake_cards) card = {};
  }
  cuda::CudaDevice& card() { return static_cast<cuda::CudaDevice&>(*device_); }
  // Of the host, in pinned memory.
  Tensor filled(int size, float value) {
    Tensor x = device_->empty_host({size}, Dtype::f32);
    std::fill_n(x.data<float>(), size, value);
    return x;
  }
  // Whether every number on the card is this one.
  bool all_are(const Tensor& x, float value) {
    const Tensor host = device_->to_host(x);
    return std::all_of(host.data<float>(), host.data<float>() + host.size(),
                       [&](float y) { return y == value; });
  }

  std::unique_ptr<Device> device_;
};

TEST_F(LateCard, ToHostWaitsForTheCopy) {
  const Tensor x = device_->to_device(filled(1000, 3));
  EXPECT_TRUE(all_are(x, 3));
  EXPECT_TRUE(all_are(device_->zeros({1000}, Dtype::f32), 0));
}

TEST_F(LateCard, TheHostsMemoryMayGoOnceItIsOnTheDevice) {
  const Tensor x = device_->to_device(filled(1000, 3));
  const Tensor other = filled(1000, 4);  // in the memory of the first
  EXPECT_TRUE(all_are(x, 3));
  EXPECT_TRUE(all_are(device_->to_device(other), 4));
}

// 3 MiB each: three do not fit the ring, and 96 MiB come round often.
TEST_F(LateCard, StagingIsNotWrittenAgainBeforeItIsRead) {
  constexpr int kSize = 3 << 18;
  std::vector<Tensor> on_card;
  std::vector<cuda::Block> blocks;
  for (int i = 0; i < 32; i++) {
    const std::vector<float> from(kSize, static_cast<float>(i));
    blocks.push_back(card().upload(from.data(), from.size() * sizeof(float)));
  }
  for (int i = 0; i < 32; i++) {
    std::vector<float> now(kSize);
    card().context().copy_to_host(now.data(), blocks[static_cast<size_t>(i)].address(),
                                  now.size() * sizeof(float));
    EXPECT_EQ(std::ranges::count(now, static_cast<float>(i)), kSize) << i;
  }
}

TEST_F(LateCard, TokensThatNobodyWaitsForAreWrittenToNobodysMemory) {
  constexpr int kOurs = 7;
  const Tensor logits = device_->zeros({3, 70}, Dtype::f32);
  const std::vector<RowSampling> rows(3, {.kind = RowSampling::Kind::greedy});
  for (int i = 0; i < 3; i++) choose_tokens(logits, rows);
  Tensor next = device_->empty_host({3}, Dtype::i32);  // where the last tokens went
  std::fill_n(next.data<int>(), 3, kOurs);
  device_->synchronize();
  for (int i = 0; i < 3; i++) EXPECT_EQ(next.data<int>()[i], kOurs);
}

TEST_F(LateCard, ADeviceThatClosesWaitsForItsCopies) {
  const std::vector<float> from(1000, 1.0f);
  const cuda::Block block = card().upload(from.data(), 4000);
  const Tensor logits = device_->zeros({1, 70}, Dtype::f32);
}

TEST_F(LateCard, MemoryThatThePoolKeepsIsGivenBackWhenItIsNeeded) {
  constexpr int kMore = 1 << 30;  // of two gigabytes that the card has
  (void)device_->empty({kMore}, Dtype::u8);
  EXPECT_EQ(device_->empty({kMore / 2 * 3}, Dtype::u8).nbytes(), size_t{kMore} / 2 * 3);
  EXPECT_THROW(device_->empty({3, kMore}, Dtype::u8), std::runtime_error);
}

TEST_F(LateCard, TwoGroupsOfTheSameCards) {
  const auto open_group = [] {
    std::vector<std::unique_ptr<Device>> devices;
    for (int i : {1, 2}) devices.push_back(std::move(cuda::open_cuda(i, 1)).value());
    return make_group(std::move(devices));
  };
  const auto first = open_group(), second = open_group();
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(second.ok()) << second.error().message;
}

}  // namespace
}  // namespace anabranch::ops
