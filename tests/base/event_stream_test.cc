#include "base/event_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace anabranch {
namespace {

// The data of the events in these bytes, which come in pieces of `step`. A bar stands for an event that was
// too long.
std::string data_of(std::string_view bytes, size_t step, size_t most = 1000) {
  std::string all;
  EventStream events([&](const std::string& data) { all += "[" + data + "]"; }, most);
  for (size_t at = 0; at < bytes.size(); at += step)
    if (!events.push(bytes.substr(at, step))) return all + "|";
  return all;
}

TEST(EventStream, LinesMayEndInAnyWayAndComeInAnyPieces) {
  for (const size_t step : {1u, 2u, 3u, 1000u}) {
    EXPECT_EQ(data_of("data: a\n\ndata:b\n\n", step), "[a][b]") << step;
    EXPECT_EQ(data_of("data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", step), "[a\nb][c]") << step;
    EXPECT_EQ(data_of("data: a\rdata: b\r\rdata: c\r\r", step), "[a\nb][c]") << step;
    EXPECT_EQ(data_of("event: x\nid: 1\n: comment\ndata\ndata: a\n\n\n\n", step), "[a]") << step;
    EXPECT_EQ(data_of("data: a\n\ndata: not ended\n", step), "[a]") << step;
  }
}

TEST(EventStream, ManyShortLinesAreOneLongEvent) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += "data: 12345\n";
  for (const size_t step : {1u, 7u, 1000u}) {
    EXPECT_EQ(data_of(lines + "\n", step, 100), "|") << step;
    EXPECT_EQ(data_of("data: " + std::string(200, 'x') + "\n\n", step, 100), "|") << step;
    EXPECT_EQ(data_of("data: 1\n\ndata: 2\n\n" + lines + "\n", step, 100), "[1][2]|") << step;
  }
  // Events do not add up.
  std::string events;
  for (int i = 0; i < 30; ++i) events += "data: 12345\n\n";
  EXPECT_EQ(data_of(events, 5, 100).size(), 30 * std::string_view("[12345]").size());
}

}  // namespace
}  // namespace anabranch
