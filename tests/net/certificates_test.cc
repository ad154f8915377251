#include "net/certificates.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace anabranch::net {
namespace {

TEST(Certificates, AreFoundWhereTheSystemHasThem) {
  const std::string folder = testing::TempDir() + "anabranch-certificates";
  std::filesystem::create_directories(folder);
  const std::string first = folder + "/first.pem", second = folder + "/second.pem",
                    absent = folder + "/absent.pem";
  std::ofstream(first) << "1";
  std::ofstream(second) << "2";
  const std::array both = {absent.c_str(), second.c_str(), first.c_str()};
  EXPECT_EQ(certificates(absent.c_str(), both), second);
  EXPECT_EQ(certificates(first.c_str(), both), "");  // libcurl's own is there
  EXPECT_EQ(certificates(nullptr, both), "");        // it looks elsewhere
  const std::array none = {absent.c_str()};
  EXPECT_EQ(certificates(absent.c_str(), none), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace anabranch::net
