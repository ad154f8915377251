// Recurrences of every rule and short convolutions on CUDA, by kernels that the emulator runs on the CPU.
#include "ops/recurrence_cases.h"

#include "cuda/emulated_card.h"

namespace anabranch::ops {
namespace {

class EmulatedRecurrence : public EmulatedDevice, public ::testing::WithParamInterface<RecurrenceShape> {};

TEST_P(EmulatedRecurrence, EqualsReference) {
  expect_recurrence_like_reference(card(), GetParam());
}
TEST_P(EmulatedRecurrence, SameBitsForAnyChunks) {
  expect_recurrence_of_any_chunks(card(), GetParam(), 40, {{1}, {5, 1, 3, 20}, {17}});
}
TEST_P(EmulatedRecurrence, ACommittedDraftEqualsNeverHavingDrafted) {
  expect_recurrence_drafts(card(), GetParam());
}
TEST_P(EmulatedRecurrence, SpansEqualCallsOfTheirOwn) {
  expect_recurrence_spans(card(), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cuda, EmulatedRecurrence, ::testing::ValuesIn(kRecurrenceShapes));

}  // namespace
}  // namespace anabranch::ops
