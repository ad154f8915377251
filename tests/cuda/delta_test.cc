// The gated delta rule on CUDA, by kernels that the emulator runs on the CPU.
#include "cuda/emulated_card.h"
#include "ops/delta_cases.h"

namespace anabranch::ops {
namespace {

class EmulatedDelta : public EmulatedDevice {};

TEST_F(EmulatedDelta, EqualsReference) {
  expect_delta_like_reference(card());
}
TEST_F(EmulatedDelta, Drafts) {
  expect_drafts_of_delta(card());
}
TEST_F(EmulatedDelta, ManySequences) {
  expect_delta_of_many_sequences(card());
}
TEST_F(EmulatedDelta, SpansOfOneSequence) {
  expect_delta_of_spans(card());
}

}  // namespace
}  // namespace anabranch::ops
