#include "state/sequence_state.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

const ops::GatedDeltaShape kShape{
    .key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16, .conv_kernel = 4};
const StateLayout kLayout = {kShape, KvLayout{2, 32}, kShape, KvLayout{1, 64}};

TEST(SequenceState, CountsItsBytes) {
  EXPECT_EQ(kv_bytes_per_token(kLayout), 2u * (2 * 32 + 64) * 2);
  ops::set_precise(true);
  EXPECT_EQ(kv_bytes_per_token(kLayout), 2u * (2 * 32 + 64) * 4);
  ops::set_precise(false);
  // Two layers of S [4, 8, 16] and three conv rows of 2 * 2 * 8 + 4 * 16 channels, fp32.
  EXPECT_EQ(fixed_bytes(kLayout), 2u * 4 * (4 * 8 * 16 + 3 * 96));
}

TEST(SequenceState, StartsEmptyAndGivesEachLayerItsPart) {
  SequenceState state(kLayout);
  EXPECT_EQ(state.length(), 0);
  EXPECT_EQ(state.kv(1).kv_heads, 2);
  EXPECT_EQ(state.kv(3).head_dim, 64);
  EXPECT_EQ(state.kv(1).length, 0);
  for (const int layer : {0, 2}) {
    auto& delta = state.delta(layer);
    delta.s.eval();
    for (size_t i = 0; i < delta.s.size(); i++) ASSERT_EQ(delta.s.data<float>()[i], 0.0f);
  }
  state.advance(5);
  EXPECT_EQ(state.length(), 5);
}

TEST(SequenceStateDeathTest, AskingForTheWrongKindAborts) {
  SequenceState state(kLayout);
  EXPECT_DEATH(state.kv(0), "keeps no keys and values");
  EXPECT_DEATH(state.delta(1), "keeps no recurrent state");
}

}  // namespace
}  // namespace anabranch
