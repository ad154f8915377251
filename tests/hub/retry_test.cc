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

TEST(Pace, ALinkThatWasFastAtFirstMayNotTrickle) {
  Pace pace(60);
  for (int second = 1; second <= 61; ++second)
    EXPECT_TRUE(pace.keeps_up(second * 1'000'000, second)) << second;
  for (int second = 62; second <= 120; ++second) EXPECT_TRUE(pace.keeps_up(61'000'000, second)) << second;
  EXPECT_FALSE(pace.keeps_up(61'000'000, 121));
}

TEST(Retry, BytesCountOnce) {
  Retry retry;
  retry.progress(300 << 10);
  net::Response broken;
  broken.status = 206;
  broken.problem = "the connection broke";
  int waits = 0;
  for (; retry.wait_after(broken) && waits < 100; waits++) retry.progress(1);
  EXPECT_EQ(waits, 5) << "what came before the first failure is no progress since";
}

TEST(Retry, WhatMayPassIsTriedAgain) {
  net::Response response;
  for (const auto& [status, may] : {std::pair(200, false),
                                    {302, false},
                                    {404, false},
                                    {408, true},
                                    {429, true},
                                    {500, true},
                                    {503, true}}) {
    response.status = status;
    EXPECT_EQ(may_pass(response), may) << status;
  }
  response = {};
  response.problem = "it broke";
  response.end = net::End::broken;
  EXPECT_TRUE(may_pass(response));
  for (const net::End end : {net::End::untrusted, net::End::not_taken}) {
    response.end = end;
    EXPECT_FALSE(may_pass(response)) << "nothing changes by itself";
  }
}

TEST(Retry, TooManyRequestsArePausedForLonger) {
  net::Response response;
  response.status = 503;
  EXPECT_EQ(Retry().wait_after(response), 0.25);
  response.status = 429;
  EXPECT_EQ(Retry().wait_after(response), 2);
  response.headers["retry-after"] = "Sun, 06 Nov 1994 08:49:37 GMT";
  EXPECT_EQ(retry_after(response), 0) << "the time is over";
}

}  // namespace
}  // namespace anabranch::hub
