#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/python_json.h"
#include "slow.h"

namespace anabranch {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  Result<Json> r = parse_json(text, limits);
  return r.ok() ? "no error: " + r->dump() : r.error().message;
}

TEST(Json, KeepsOrderAndNumbers) {
  Result<Json> r =
      parse_json(R"({"z":1,"a":-2,"m":1.0,"big":18446744073709551615,"e":1e5,"t":[true,false,null]})");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->dump(),
            R"({"z":1,"a":-2,"m":1.0,"big":18446744073709551615,"e":100000.0,"t":[true,false,null]})");
  EXPECT_TRUE((*r)["m"].is_number_float());
  EXPECT_TRUE((*r)["a"].is_number_integer());
}

TEST(Json, LastOfARepeatedKeyWins) {
  Result<Json> r = parse_json(R"({"a":1,"b":2,"a":{"c":3}})");
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->dump(), R"({"a":{"c":3},"b":2})");
}

TEST(Json, ErrorsNameTheByte) {
  EXPECT_NE(error_of("[1, x]").find("at byte 4"), std::string::npos) << error_of("[1, x]");
  EXPECT_NE(error_of("[1,").find("unexpected end of input"), std::string::npos) << error_of("[1,");
  EXPECT_NE(error_of("{} 1").find("at byte 3"), std::string::npos) << error_of("{} 1");
  EXPECT_NE(error_of("").find("JSON: "), std::string::npos);
  EXPECT_LT(error_of("\"" + std::string(100000, 'a')).size(), 300u);
  for (const char* bad :
       {"{'a':1}", "[1,]", "01", "nul", "NaN", "\"\\ud80\"", "{\"a\"}", "[1}", "\"\t\"", "1e999"}) {
    Result<Json> r = parse_json(bad);
    ASSERT_FALSE(r.ok()) << bad;
    EXPECT_EQ(r.error().kind, ErrorKind::invalid) << bad;
  }
}

TEST(Json, RejectsInvalidUtf8AndZeroBytes) {
  for (std::string bad :
       {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"", "\"\xf4\x90\x80\x80\""})
    EXPECT_FALSE(parse_json(bad).ok()) << bad;
  EXPECT_FALSE(parse_json(std::string("{}\0{", 4)).ok());
  EXPECT_TRUE(parse_json("\"\xf0\x9f\x98\x80 \\ud83d\\ude00\"").ok());
}

TEST(Json, HalfASurrogatePairIsAReplacementCharacter) {
  const std::pair<const char*, const char*> cases[] = {{R"("cut \ud83d here")", "cut \uFFFD here"},
                                                       {R"("\ude00")", "\uFFFD"},
                                                       {R"("\uD83D\u0041")", "\uFFFDA"},
                                                       {R"("\ud83d\ud83d\ude00")", "\uFFFD\U0001F600"},
                                                       {R"("\ude00\ud83d")", "\uFFFD\uFFFD"},
                                                       {R"("\ud83d\n")", "\uFFFD\n"},
                                                       {R"("\ud83d\\ude00")", "\uFFFD\\ude00"},
                                                       {R"("\\ud83d")", "\\ud83d"},
                                                       {R"("\\\ud83d")", "\\\uFFFD"},
                                                       {R"("\ud83d\ude00")", "\U0001F600"},
                                                       {R"("\ud83d\"")", "\uFFFD\""}};
  for (const auto& [text, meant] : cases) {
    const auto read = parse_json(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.error().message;
    EXPECT_EQ(read->get<std::string>(), meant) << text;
  }
  EXPECT_EQ(parse_json(R"({"\ud83d":"\udc00"})")->dump(), "{\"\uFFFD\":\"\uFFFD\"}");
  for (const char* bad : {R"("\ud83")", R"("\ud83d)", R"(\ud83d)", R"("\ud83d\")", R"("\ud83g")"})
    EXPECT_FALSE(parse_json(bad).ok()) << bad;
}

TEST(Json, Limits) {
  JsonLimits limits;
  limits.bytes = 1000;
  limits.depth = 3;
  limits.keys_per_object = 2;
  limits.values = 8;
  EXPECT_TRUE(parse_json("[[[1]]]", limits).ok());
  for (const char* text : {"[[[[1]]]]", R"({"a":1,"b":2,"c":3})", "[1,2,3,4,5,6,7,8]"}) {
    Result<Json> r = parse_json(text, limits);
    ASSERT_FALSE(r.ok()) << text;
    EXPECT_EQ(r.error().kind, ErrorKind::exhausted) << r.error().message;
  }
  EXPECT_TRUE(parse_json(R"({"a":1,"b":2,"a":3})", limits).ok());
  EXPECT_FALSE(parse_json(std::string(1001, ' ') + "1", limits).ok());
  // Hostile nesting must not cost a stack frame per level.
  EXPECT_FALSE(parse_json(std::string(1 << 20, '[')).ok());
}

TEST(Json, ManyKeysAreNotQuadratic) {
  std::string object = "{";
  for (int i = 0; i < 4096; ++i) object += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  object += "}";
  std::string text = "[" + object;
  for (int i = 0; i < 200; ++i) text += "," + object;
  text += "]";
  auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(parse_json(text).ok());
  // About 0.1 s; inserting key by key takes over 5 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4 * kSlowdown));
}

TEST(Json, PythonsNumbersAreTakenAsObjects) {
  const Json infinity = {{"__float__", "Infinity"}};
  const auto read =
      parse_python_json(R"({"a": [0.0, Infinity], "b \" Infinity": "NaN", "c": -Infinity, "d": NaN})");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)["a"][1], infinity);
  EXPECT_EQ((*read)["b \" Infinity"], "NaN");
  EXPECT_EQ((*read)["c"]["__float__"], "-Infinity");
  EXPECT_EQ((*read)["d"]["__float__"], "NaN");
  EXPECT_FALSE(parse_json("[Infinity]").ok()) << "only in configs";
  for (const char* wrong : {"[Infinite]", "[Infinity", "Infinity Infinity", "[\"Infinity]"}) {
    const auto bad = parse_python_json(wrong);
    ASSERT_FALSE(bad.ok()) << wrong;
    EXPECT_EQ(bad.error().message, parse_json(wrong).error().message);
  }
}

TEST(Json, StringAtTakesStringsOnly) {
  const Json object = {{"a", "text"}, {"b", 5}, {"c", nullptr}};
  EXPECT_EQ(string_at(object, "a"), "text");
  for (const char* key : {"b", "c", "d"}) EXPECT_EQ(string_at(object, key), "");
  for (const Json& other : {Json(), Json(5), Json::array({"a"}), Json("a")})
    EXPECT_EQ(string_at(other, "a"), "");
}

}  // namespace
}  // namespace anabranch
