// Recurrences of every rule and short convolutions on CUDA, skipped where there is no device.
#include "ops/open.h"
#include "ops/recurrence_cases.h"

namespace anabranch::ops {
namespace {

class CudaRecurrence : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cuda_unsupported().empty()) opened = open_device({.name = "cuda"}).value();
  }
  static void TearDownTestSuite() { opened.reset(); }
  void SetUp() override {
    if (!opened) GTEST_SKIP() << cuda_unsupported();
  }
  static Device& card() { return *opened; }

 private:
  static inline std::unique_ptr<Device> opened;
};

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
