// Who keeps a connection when there are too many, and who is dropped for taking too little.
#include <gtest/gtest.h>

#include "server/http/admission.h"
#include "server/http/stall.h"

namespace anabranch::server {
namespace {

using Phase = ConnectionState::Phase;

Admission admit_at_10(const std::vector<ConnectionState>& states, const std::string& network) {
  return admit(states, network, 4, 2, 1, 10);
}

TEST(Admission, IsFreeBelowTheLimits) {
  EXPECT_TRUE(admit_at_10({}, "a").admitted);
  const Admission last =
      admit_at_10({{"a", Phase::busy, 0}, {"b", Phase::kept, 0}, {"", Phase::kept, 0}}, "a");
  EXPECT_TRUE(last.admitted);
  EXPECT_FALSE(last.leaves.has_value());
}

TEST(Admission, TheSlowestRequestLeavesFirstThenTheLongestKept) {
  const std::vector<ConnectionState> states{
      {"", Phase::busy, 0}, {"", Phase::kept, 2}, {"", Phase::arriving, 8.9}, {"", Phase::arriving, 8}};
  EXPECT_EQ(admit_at_10(states, "").leaves, 3u);
  const std::vector<ConnectionState> fresh{
      {"", Phase::busy, 0}, {"", Phase::kept, 3}, {"", Phase::arriving, 9.1}, {"", Phase::kept, 2}};
  EXPECT_EQ(admit_at_10(fresh, "").leaves, 3u);
  const std::vector<ConnectionState> busy{
      {"", Phase::busy, 0}, {"", Phase::busy, 0}, {"", Phase::arriving, 9.5}, {"", Phase::busy, 0}};
  EXPECT_FALSE(admit_at_10(busy, "").admitted);
}

TEST(Admission, OneAddressPaysForItselfOnly) {
  const std::vector<ConnectionState> states{
      {"a", Phase::busy, 0}, {"a", Phase::busy, 0}, {"b", Phase::kept, 0}};
  EXPECT_FALSE(admit_at_10(states, "a").admitted);
  EXPECT_TRUE(admit_at_10(states, "b").admitted);
  const std::vector<ConnectionState> idle{
      {"b", Phase::kept, 0}, {"a", Phase::kept, 5}, {"a", Phase::kept, 4}};
  EXPECT_EQ(admit_at_10(idle, "a").leaves, 2u);
  // Loopback has no such limit.
  EXPECT_TRUE(admit_at_10({{"", Phase::busy, 0}, {"", Phase::busy, 0}, {"", Phase::busy, 0}}, "").admitted);
}

TEST(Admission, KnowsWhoIsOneClient) {
  for (const char* loopback : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"})
    EXPECT_EQ(network_of(loopback), "") << loopback;
  EXPECT_EQ(network_of("192.168.0.1"), "192.168.0.1");
  EXPECT_EQ(network_of("::ffff:192.168.0.1"), "192.168.0.1");
  EXPECT_EQ(network_of("2001:db8:1:2:3::4"), network_of("2001:db8:1:2:ffff::1"));
  EXPECT_NE(network_of("2001:db8:1:2::"), network_of("2001:db8:1:3::"));
}

TEST(StallWatch, DropsWhoTakesTooLittle) {
  StallWatch watch(20, 1000);
  EXPECT_FALSE(watch.stalled(0, 5000, false, 0));
  EXPECT_FALSE(watch.stalled(19, 9000, true, 999));
  EXPECT_TRUE(watch.stalled(20, 9000, true, 999));
}

TEST(StallWatch, KeepsWhoTakesEnoughOrHasTakenAll) {
  StallWatch slow(20, 1000);
  for (int t = 0; t < 200; t += 10) EXPECT_FALSE(slow.stalled(t, 50000, true, 60u * t)) << t;
  StallWatch idle(20, 1000);  // a little that is on its way is no stall, however long it takes
  for (int t = 0; t < 200; t += 10) EXPECT_FALSE(idle.stalled(t, 1000, false, 0)) << t;
  StallWatch recovered(20, 1000);
  EXPECT_FALSE(recovered.stalled(0, 5000, false, 0));
  EXPECT_FALSE(recovered.stalled(15, 0, false, 5000));
  EXPECT_FALSE(recovered.stalled(30, 5000, false, 5000));
  EXPECT_FALSE(recovered.stalled(45, 5000, false, 5500));
  EXPECT_TRUE(recovered.stalled(50, 5000, false, 5500));
}

}  // namespace
}  // namespace anabranch::server
