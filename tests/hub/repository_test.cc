#include "hub/repository.h"

#include <gtest/gtest.h>

#include "hub/http.h"

namespace anabranch::hub {
namespace {

constexpr const char* kAnswer =
    R"({"_id": "6", "id": "org/name", "sha": "0123456789abcdef0123456789abcdef01234567",
  "gated": "manual", "config": {"model_type": "qwen3_5"}, "safetensors": {"parameters": {"BF16": 5}, "total": 5},
  "siblings": [
    {"rfilename": "model.safetensors", "size": 7, "blobId": "1111111111111111111111111111111111111111", "lfs":
      {"sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "size": 7, "pointerSize": 134}},
    {"rfilename": "config.json", "size": 3, "blobId": "2222222222222222222222222222222222222222"}]})";

TEST(Repository, IsRead) {
  const auto repository = parse_repository(kAnswer);
  ASSERT_TRUE(repository.ok()) << repository.error().message;
  EXPECT_EQ(repository->id, "org/name");
  EXPECT_TRUE(repository->gated);
  EXPECT_EQ(repository->model_type, "qwen3_5");
  EXPECT_EQ(repository->parameters, 5u);
  ASSERT_EQ(repository->files.size(), 2u);  // sorted
  EXPECT_EQ(repository->files[0].path, "config.json");
  EXPECT_EQ(repository->files[0].oid, std::string(40, '2'));
  EXPECT_EQ(repository->files[1].oid, std::string(64, 'a'));
  EXPECT_EQ(repository->files[1].size, 7u);
}

TEST(Repository, ListOfModels) {
  EXPECT_EQ(
      parse_model_list(R"([{"id": "a/b"}, {"id": "../x"}, {"x": 1}, 5, {"id": "c/d:e"}, {"id": "c/d"}])", 9),
      (std::vector<std::string>{"a/b", "c/d"}));
  EXPECT_TRUE(parse_model_list("{", 9).empty());
  EXPECT_TRUE(parse_model_list("{}", 9).empty());
  EXPECT_EQ(parse_model_list(R"([{"id": "a/b"}, {"id": "c/d"}])", 1).size(), 1u);
}

TEST(Redirect, NeverLeavesHttps) {
  net::Response response;
  response.status = 302;
  response.location = "http://cdn/x";
  EXPECT_FALSE(redirect_target("https://hub/x", response).ok());
  EXPECT_TRUE(redirect_target("http://hub/x", response).ok());
  response.location = "https://cdn/x";
  EXPECT_EQ(*redirect_target("https://hub/x", response), "https://cdn/x");
  for (const char* location : {"file:///etc/passwd", "ftp://cdn/x", ""}) {
    response.location = location;
    EXPECT_FALSE(redirect_target("http://hub/x", response).ok()) << location;
  }
}

std::string with_base(const std::string& base) {
  std::string text = kAnswer;
  return text.insert(1, R"("cardData":{"base_model":)" + base + "},");
}

TEST(Repository, ACardNamesNoneOneOrSeveralBaseModels) {
  for (const auto& [base, name] : {std::pair("[]", ""),
                                   {"null", ""},
                                   {R"("o/m")", "o/m"},
                                   {R"(["o/m","o/n"])", "o/m"},
                                   {"[7]", ""},
                                   {R"("../x")", ""}}) {
    const auto repository = parse_repository(with_base(base));
    ASSERT_TRUE(repository.ok()) << base;
    EXPECT_EQ(repository->base_model, name) << base;
  }
}

TEST(Repository, HasALimitOfFiles) {
  const auto listing = [](int files) {
    std::string text = R"({"id":"o/n","sha":")" + std::string(40, 'a') + R"(","siblings":[)";
    for (int i = 0; i < files; i++)
      text += fmt::format(R"({}{{"rfilename":"{}","size":1,"blobId":"{}"}})", i > 0 ? "," : "", i,
                          std::string(40, '1'));
    return parse_repository(text + "]}").ok();
  };
  EXPECT_TRUE(listing(20'000));
  EXPECT_FALSE(listing(20'001));
}

}  // namespace
}  // namespace anabranch::hub
