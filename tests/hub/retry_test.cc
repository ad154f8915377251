#include "hub/retry.h"

#include <gtest/gtest.h>

namespace anabranch::hub {
namespace {

TEST(Retry, AFewBytesBeforeEachFailureAreNoProgress) {
  Retry retry;
  net::Response broken;
  broken.status = 206;
  broken.problem = "the connection broke";
  int waits = 0;
  while (retry.wait_after(broken) && waits < 100) {
    waits++;
    retry.progress(1);
  }
  EXPECT_EQ(waits, 5);
  retry.progress(1 << 20);
  EXPECT_TRUE(retry.wait_after(broken)) << "much came";
}

TEST(Pace, ATrickleDoesNotKeepUp) {
  Pace pace(60);
  uint64_t bytes = 0;
  for (int second = 1; second <= 60; ++second) EXPECT_TRUE(pace.keeps_up(bytes++, second)) << second;
  EXPECT_FALSE(pace.keeps_up(bytes, 61));
}

TEST(Pace, ASlowLinkDoes) {
  Pace pace(60);
  uint64_t bytes = 0;
  for (int second = 1; second <= 600; ++second) EXPECT_TRUE(pace.keeps_up(bytes += 5000, second)) << second;
  // A pause that was asked for is not counted, and time before it neither.
  for (int second = 600; second < 900; ++second) {
    pace.pause();
    EXPECT_TRUE(pace.keeps_up(bytes, second));
  }
  EXPECT_TRUE(pace.keeps_up(bytes, 950));
  EXPECT_FALSE(pace.keeps_up(bytes, 960));
}

}  // namespace
}  // namespace anabranch::hub
