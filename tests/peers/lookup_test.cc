// The JSON of lookups, and addresses of peers.
#include "peers/lookup.h"

#include <gtest/gtest.h>

#include "peers/peer_states.h"

namespace anabranch {
namespace {

Json parsed(const char* text) {
  return *parse_json(text);
}

TEST(Lookup, AQuestionComesBack) {
  const StatesQuestion asked{"1.2", fingerprint_of("a model"), {root_key({}, ""), {1, 2}}};
  const auto read = parse_question(to_json(asked));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->version, asked.version);
  EXPECT_EQ(read->fingerprint, asked.fingerprint);
  EXPECT_EQ(read->keys, asked.keys);
}

TEST(Lookup, WrongQuestionsAreRefused) {
  const std::string key(32, 'a');
  for (const std::string& text :
       {std::string("3"), std::string("{}"), R"({"fingerprint":")" + key + R"("})",
        R"({"fingerprint":")" + key + R"(","keys":[]})", R"({"fingerprint":")" + key + R"(","keys":[7]})",
        R"({"fingerprint":"x","keys":[")" + key + R"("]})",
        R"({"fingerprint":")" + key + R"(","keys":["A)" + key.substr(1) + R"("]})"}) {
    const auto read = parse_question(parsed(text.c_str()));
    EXPECT_FALSE(read.ok()) << text;
  }
  StatesQuestion large{"", {}, std::vector<PrefixKey>(65538)};
  EXPECT_FALSE(parse_question(to_json(large)).ok());
  large.keys.pop_back();
  EXPECT_TRUE(parse_question(to_json(large)).ok());
}

TEST(Lookup, AnAnswerComesBack) {
  const KeptPrefix told{3, {{1000, 0xffffffff}, {512, 0}}};
  const auto read = parse_kept(to_json(told), 3);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->blocks, told.blocks);
  EXPECT_EQ(read->points, told.points);
}

TEST(Lookup, AnswersBeyondTheQuestionAreRefused) {
  for (const char* text :
       {"[]", "{}", R"({"blocks":4,"points":[]})", R"({"blocks":-1,"points":[]})",
        R"({"blocks":1.5,"points":[]})", R"({"blocks":1,"points":3})", R"({"blocks":1,"points":[[512,1]]})",
        R"({"blocks":1,"points":[[300]]})", R"({"blocks":1,"points":[[]]})",
        R"({"blocks":1,"points":[[300,1,2]]})", R"({"blocks":1,"points":[[-3,1]]})",
        R"({"blocks":1,"points":[[300,4294967296]]})", R"({"blocks":1,"points":["x"]})"})
    EXPECT_FALSE(parse_kept(parsed(text), 3).ok()) << text;
  EXPECT_TRUE(parse_kept(parsed(R"({"blocks":1,"points":[[511,1]]})"), 3).ok());
  EXPECT_FALSE(parse_kept(to_json(KeptPrefix{0, std::vector<KeptPoint>(kMaxKeptPoints + 1)}), 3).ok());
}

TEST(PeerOrigin, TakesAddressesOnly) {
  EXPECT_EQ(*peer_origin("http://10.0.0.5:8001"), "http://10.0.0.5:8001");
  EXPECT_EQ(*peer_origin("HTTPS://Worker/"), "https://worker:443");
  EXPECT_EQ(*peer_origin("http://[::1]:80"), "http://[::1]:80");
  for (const char* url : {"", "worker:8001", "ftp://worker", "http://", "http://worker/v1",
                          "http://worker?x=1", "http://user@worker:80", "file:///etc/passwd"})
    EXPECT_FALSE(peer_origin(url).ok()) << url;
}

}  // namespace
}  // namespace anabranch
