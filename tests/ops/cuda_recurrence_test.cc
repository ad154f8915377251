// Recurrences of every rule and short convolutions on CUDA, skipped where there is no device.
#include "ops/opened_card.h"
#include "ops/recurrence_cases.h"

namespace anabranch::ops {
namespace {

using CudaRecurrence = OpenedCard;

TEST_F(CudaRecurrence, EqualsReference) {
  for (const auto& s : kRecurrenceShapes) expect_recurrence_like_reference(card(), s);
}
TEST_F(CudaRecurrence, SameBitsForAnyChunks) {
  for (const auto& s : kRecurrenceShapes)
    expect_recurrence_of_any_chunks(card(), s, 150, {{1}, {2}, {5, 1, 3, 20}, {32, 5}, {64}, {65}});
}
TEST_F(CudaRecurrence, ACommittedDraftEqualsNeverHavingDrafted) {
  for (const auto& s : kRecurrenceShapes) expect_recurrence_drafts(card(), s);
}
TEST_F(CudaRecurrence, SpansEqualCallsOfTheirOwn) {
  for (const auto& s : kRecurrenceShapes) expect_recurrence_spans(card(), s);
}

}  // namespace
}  // namespace anabranch::ops
