// What the tests of tokenizers share: the components of tests/tokenizer/data, and a check of the stream of
// text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

namespace anabranch::testing {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

inline Json load(const std::string& name) {
  Result<std::string> text =
      read_file(std::string(ANABRANCH_SOURCE_DIR "/tests/tokenizer/data/") + name, 16u << 20);
  CHECK(text.ok(), "{}", text.error().message);
  Result<Json> json = parse_json(*text, JsonLimits{64u << 20, 128, 4096, 4u << 20});
  CHECK(json.ok(), "{}", json.error().message);
  return std::move(*json);
}

inline const Json& components() {
  static const Json json = load("tokenizer_components.json");
  return json;
}

inline TokenizerPtr parse(const Json& tokenizer, const std::string& config = "") {
  auto made = parse_tokenizer_json(tokenizer.dump(), config);
  CHECK(made.ok(), "{}", made.error().message);
  return *made;
}

// The tokenizer.json of a component case.
inline Json definition(const Json& test) {
  Json tokenizer = test["tokenizer"];
  tokenizer["model"] = components()["models"][test["model"].get<std::string>()];
  tokenizer["model"].update(test["override"]);
  return tokenizer;
}

inline const Json& component(std::string_view name) {
  const Json& cases = components()["cases"];
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const Json& c) { return c["name"] == name; });
  CHECK(found != cases.end(), "no case is named {}", name);
  return *found;
}

// What the streaming detokeniser makes of ids. Every step must be UTF-8, and hold back less than a character.
inline std::string stream(const Tokenizer& tokenizer, const std::vector<int>& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string out;
  for (const int id : ids) {
    const std::string step = detokenizer.push(id);
    EXPECT_TRUE(is_valid_utf8(step)) << ::testing::PrintToString(ids);
    out += step;
  }
  const std::string rest = detokenizer.flush();
  EXPECT_TRUE(rest.empty() || rest == "\uFFFD") << rest;
  return out + rest;
}

}  // namespace anabranch::testing
