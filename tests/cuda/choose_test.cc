// The choice of tokens by kernels that the emulator runs on the CPU, against the host's sampler.
#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "decode/choices.h"
#include "ops/cuda/device.h"

namespace anabranch {
namespace {

TEST(ChooseOnCuda, EqualsTheHostsSampler) {
  if (!emulator::unsupported().empty()) GTEST_SKIP() << emulator::unsupported();
  fake_cards[0] = {.emulated = true};
  for (const int vocab : {70, 3000, 9001})
    testing::expect_choices_of_the_host(*ops::cuda::open_cuda(0, 1).value(), vocab);
  // More parts of a row than a block takes at once: Gemma 3's vocabulary.
  testing::expect_choices_of_the_host(*ops::cuda::open_cuda(0, 1).value(), 262208, 1);
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
  fake_cards[0] = {};
}

}  // namespace
}  // namespace anabranch
