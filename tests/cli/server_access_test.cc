#include "cli/server_access.h"

#include <gtest/gtest.h>

namespace anabranch::cli {
namespace {

// A key is sent without being asked for to these hosts only.
TEST(ServerAccess, OnlyThisMachinesNamesAreThisMachine) {
  for (const char* url : {"http://localhost", "http://localhost:8080/v1", "http://127.0.0.1:8080",
                          "http://[::1]:8080/v1", "http://LOCALHOST:8080"})
    EXPECT_TRUE(is_this_machine(url)) << url;
  for (const char* url : {"http://localhost.example.com", "http://127.0.0.1.example.com:8080",
                          "http://[::1]x", "http://example.com/localhost", "http://localhost@example.com",
                          "http://notlocalhost", "http://127.0.0.10:8080", "https://example.com"})
    EXPECT_FALSE(is_this_machine(url)) << url;
}

}  // namespace
}  // namespace anabranch::cli
