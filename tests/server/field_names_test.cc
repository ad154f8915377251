// Fields that no API reads: misspelt ones are refused or named, those of other servers are named only.
#include "server/api/field_names.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "server/api/routes.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

std::string read_source(const std::string& path) {
  std::ifstream file(std::string(ANABRANCH_SOURCE_DIR) + "/src/server/api/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json body_with(std::initializer_list<const char*> names) {
  Json body = Json::object();
  for (const char* name : names) body[name] = 1;
  return body;
}

std::string unknown(AnswerKind kind, std::initializer_list<const char*> names) {
  return find_unknown_fields(kind, body_with(names).dump()).names;
}

void collect_properties(const Json& all, const Json& schema, std::set<std::string>& names) {
  if (schema.contains("$ref")) {
    const auto pointer = schema["$ref"].get<std::string>().substr(1);
    return collect_properties(all, all.at(Json::json_pointer(pointer)), names);
  }
  if (schema.contains("properties"))
    for (const auto& [name, _] : schema["properties"].items()) names.insert(name);
  for (const char* of : {"allOf", "anyOf", "oneOf"})
    if (schema.contains(of))
      for (const Json& part : schema[of]) collect_properties(all, part, names);
}

TEST(FieldNames, WhatTheApiDescribesIsKnown) {
  const Json all = parse_json(read_source("openapi.json")).value();
  size_t checked = 0;
  for (const Route& route : routes()) {
    const auto* kind = std::get_if<AnswerKind>(&route.handler);
    const std::string path(route.path);
    if (!kind || !all["paths"].contains(path)) continue;
    std::set<std::string> names;
    collect_properties(
        all, all["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"], names);
    Json body = Json::object();
    for (const std::string& name : names) body[name] = 1;
    EXPECT_EQ(find_unknown_fields(*kind, body.dump()).names, "") << path;
    checked += names.size();
  }
  EXPECT_GT(checked, 200u);
}

// The names that the parsers of requests ask for are in the lists: one that a parser gained is not "unknown".
TEST(FieldNames, WhatTheParsersReadIsKnown) {
  const std::string lists = read_source("field_names.cc");
  const std::regex asked(
      R"re(\bfields\.(?:find|boolean|number|integer|string|required_string|object|array|only)\("(\w+)")re");
  // Of messages, tools, calls and parts within.
  const std::set<std::string> inner = {"filename",
                                       "source",
                                       "type",
                                       "role",
                                       "item_reference",
                                       "tool_calls",
                                       "refusal",
                                       "reasoning_content",
                                       "media_type",
                                       "data",
                                       "url",
                                       "tool_name",
                                       "approval_request_id",
                                       "approve",
                                       "reason",
                                       "encrypted_content",
                                       "call_id",
                                       "output"};
  size_t checked = 0;
  for (const char* file :
       {"common_fields.cc", "chat_fields.cc", "openai/request.cc", "thinking_fields.cc", "format_fields.cc",
        "continuation_fields.cc", "generate/request.cc", "anthropic/request.cc", "ollama/request.cc",
        "llama/request.cc", "embedding_request.cc", "responses/request.cc", "sampler_fields.cc"}) {
    const std::string text = read_source(file);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), asked); at != std::sregex_iterator();
         ++at) {
      const std::string name = (*at)[1];
      if (inner.contains(name)) continue;
      checked++;
      EXPECT_TRUE(std::regex_search(lists, std::regex("\\b" + name + "\\b"))) << name << " of " << file;
    }
  }
  EXPECT_GT(checked, 80u);
}

TEST(FieldNames, UnknownOnesAreListed) {
  EXPECT_EQ(unknown(AnswerKind::chat, {"messages", "foo", "max_tokens", "bar"}), "foo, bar");
  EXPECT_EQ(unknown(AnswerKind::response, {"input", "max_tokens"}), "max_tokens");
  EXPECT_EQ(unknown(AnswerKind::message, {"max_tokens", "stop"}), "stop");
  EXPECT_EQ(find_unknown_fields(AnswerKind::chat, "[1]").names, "");
  EXPECT_EQ(find_unknown_fields(AnswerKind::chat, "{\"foo\": 1, ").names, "");
}

TEST(FieldNames, TheListIsShortAndOneLineOfAscii) {
  Json body = Json::object();
  for (int i = 0; i < 1000; ++i)
    body[fmt::format("field_{}\r\nX: \x01 \u00e9{}", i, std::string(500, 'z'))] = 1;
  const std::string names = find_unknown_fields(AnswerKind::chat, body.dump()).names;
  EXPECT_LT(names.size(), 16u * 200);
  for (const char c : names) EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
}

TEST(FieldNames, MisspeltOnes) {
  const std::pair<const char*, const char*> pairs[] = {
      {"temprature", "temperature"},  {"max_token", "max_tokens"},
      {"mesages", "messages"},        {"top-p", "top_p"},
      {"streem", "stream"},           {"response_fromat", "response_format"},
      {"tool_choise", "tool_choice"}, {"Temperature", "temperature"},
      {"maxtokens", "max_tokens"}};
  for (const auto& [wrong, right] : pairs) {
    const auto found = find_unknown_fields(AnswerKind::chat, body_with({"foo", wrong}).dump());
    EXPECT_EQ(found.misspelt, wrong);
    EXPECT_EQ(found.meant, right);
  }
  // Fields of other servers, and words that are far from all.
  for (const char* other : {"models", "min_keep", "top_n", "provider", "id", "foo", "n_predict"})
    EXPECT_EQ(find_unknown_fields(AnswerKind::chat, body_with({other}).dump()).misspelt, "") << other;
}

void expect(const HttpAnswer& answer, int status, const std::string& words) {
  EXPECT_EQ(answer.status, status) << answer.body;
  EXPECT_NE(answer.body.find(words), std::string::npos) << answer.body;
}

class MisspeltFields : public ServerTest {};

TEST_F(MisspeltFields, AreRefusedWhereTheOriginalsDo) {
  const char* messages = R"("messages":[{"role":"user","content":"hi"}],"max_tokens":4)";
  for (const char* path : {"/v1/chat/completions", "/v1/messages"}) {
    const auto answer = post(path, fmt::format(R"({{{},"temprature":0}})", messages));
    expect(answer, 400, "did you mean 'temperature'?");
  }
  expect(post("/v1/responses", R"({"input":"hi","max_output_token":4})"), 400,
         "did you mean 'max_output_tokens'?");
}

TEST_F(MisspeltFields, AreNamedInAHeaderElsewhere) {
  const auto ollama = post("/api/chat", R"({"messages":[{"role":"user","content":"hi"}],"strem":false})");
  EXPECT_EQ(ollama.status, 200);
  EXPECT_EQ(ollama.headers.at("x-anabranch-ignored-fields"), "strem");
  const auto options = post("/api/generate", R"({"prompt":"hi","stream":false,"options":)"
                                             R"({"num_ctx":64,"temprature":1,"num_predict":4},"sufix":"x"})");
  EXPECT_EQ(options.status, 200);
  EXPECT_EQ(options.headers.at("x-anabranch-ignored-fields"), "options.temprature, sufix");
  const auto llama = post("/completion", R"({"prompt":"hi","n_predic":4})");
  EXPECT_EQ(llama.status, 200);
  EXPECT_EQ(llama.headers.at("x-anabranch-ignored-fields"), "n_predic");
}

TEST_F(MisspeltFields, OthersServersFieldsDoNoHarm) {
  for (const char* stream : {"true", "false"}) {
    const auto answer =
        post("/v1/chat/completions",
             fmt::format(
                 R"({{"messages":[{{"role":"user","content":"hi"}}],"stream":{},"provider":{{}},"min_keep":1,
                             "slot_id":3}})",
                 stream));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("x-anabranch-ignored-fields"), "provider, min_keep, slot_id");
  }
  const auto plain = post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(plain.headers.count("x-anabranch-ignored-fields"), 0u);
}

class NearRoutes : public ServerTest {};

TEST_F(NearRoutes, AreNamed) {
  const std::pair<const char*, const char*> pairs[] = {{"/v1/chat/completion", "/v1/chat/completions"},
                                                       {"/v1/v1/chat/completions", "/v1/chat/completions"},
                                                       {"/v1/v1//messages", "/v1/messages"},
                                                       {"/openai/v1/responses", "/v1/responses"},
                                                       {"/V1/Embeddings", "/v1/embeddings"},
                                                       {"/api/chats", "/api/chat"}};
  for (const auto& [wrong, right] : pairs) {
    EXPECT_EQ(near_route(wrong), right) << wrong;
    expect(post(wrong, "{}"), 404, fmt::format("did you mean {}?", right));
  }
  for (const char* far : {"", "/favicon.png/and/much/more/of/it", "/wp-login.php"})
    EXPECT_EQ(near_route(far), "") << far;
}

// A request that is taken.
Json body_of(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::response:
    case AnswerKind::input_count:
    case AnswerKind::compaction:
    case AnswerKind::embedding:
    case AnswerKind::ollama_embed:
      return {{"input", "x"}};
    case AnswerKind::generate:
      return {{"prompt_token_ids", {65}}};
    case AnswerKind::completion:
    case AnswerKind::llama_completion:
    case AnswerKind::ollama_generate:
    case AnswerKind::ollama_embedding:
      return {{"prompt", "x"}};
    case AnswerKind::infill:
      return {{"input_prefix", "x"}, {"input_suffix", "y"}};
    case AnswerKind::tokenize:
      return {{"content", "x"}};
    case AnswerKind::detokenize:
      return {{"tokens", {65}}};
    case AnswerKind::rerank:
      return {{"query", "x"}, {"documents", {"y"}}};
    default:
      return {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"max_tokens", 5}};
  }
}

class FieldErrors : public ServerTest {
 protected:
  void SetUp() override {
    engine_.mutable_info().pooling = Pooling::mean;
    ServerTest::SetUp();
  }
  // The message about the first of some odd values that is refused; "": all are taken. place: of the field's
  // object in the body.
  std::string refusal(const std::string& path, const Json& body, const Json::json_pointer& field) {
    for (const Json& odd :
         {Json{{"no such", 1}}, Json("no such"), Json(7.5), Json::array({Json::object()})}) {
      Json wrong = body;
      wrong[field] = odd;
      const auto answer = post(path, wrong.dump());
      EXPECT_LT(answer.status, 500) << path << " " << wrong.dump() << answer.body;
      if (answer.status != 400) continue;
      const Json error = answer.json()["error"];
      return error.is_string() ? error.get<std::string>() : error["message"].get<std::string>();
    }
    return "";
  }
};

TEST_F(FieldErrors, NameTheFieldAsItsClientWroteIt) {
  size_t refused = 0;
  for (const Route& route : routes()) {
    const auto* kind = std::get_if<AnswerKind>(&route.handler);
    if (!kind) continue;
    const std::string path(route.path);
    if (*kind == AnswerKind::infill)
      continue;  // the fake tokenizer has no tokens for it; it reads as /completion does
    for (const std::string& name : known_fields(*kind)) {
      const std::string message = refusal(path, body_of(*kind), Json::json_pointer("/" + name));
      EXPECT_TRUE(message.empty() || message.find(name) != message.npos)
          << path << " " << name << ": " << message;
      refused += !message.empty();
    }
  }
  EXPECT_GT(refused, 400u);
}

TEST_F(FieldErrors, NameOllamasOptions) {
  const auto check = [&](const std::string& path, AnswerKind kind, const char* name) {
    const std::string message =
        refusal(path, body_of(kind), Json::json_pointer(fmt::format("/options/{}", name)));
    EXPECT_NE(message.find(fmt::format("'options.{}", name)), message.npos)
        << path << " " << name << ": " << message;
  };
  for (const char* name :
       {"num_predict", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "repeat_penalty",
        "repeat_last_n", "presence_penalty", "frequency_penalty", "mirostat", "typical_p", "tfs_z"}) {
    check("/api/chat", AnswerKind::ollama_chat, name);
    check("/api/generate", AnswerKind::ollama_generate, name);
  }
  const auto said = [&](const Json& options) {
    return post("/api/chat",
                Json{{"messages", body_of(AnswerKind::chat)["messages"]}, {"options", options}}.dump())
        .body;
  };
  EXPECT_NE(said({{"num_predict", "abc"}}).find("'options.num_predict' must be a whole number"),
            std::string::npos);
  EXPECT_NE(said({{"repeat_penalty", 0.001}}).find("'options.repeat_penalty' is"), std::string::npos);
  EXPECT_NE(said({{"stop", {"a", 5}}}).find("'options.stop[1]' must be"), std::string::npos);
  EXPECT_NE(said(7).find("'options' must be an object"), std::string::npos);
}

TEST_F(FieldErrors, NameLlamaServersFields) {
  for (const char* name : {"n_predict", "repeat_penalty", "repeat_last_n", "n_probs", "cache_prompt"}) {
    const std::string message = refusal("/completion", body_of(AnswerKind::llama_completion),
                                        Json::json_pointer(fmt::format("/{}", name)));
    EXPECT_NE(message.find(fmt::format("'{}'", name)), message.npos) << name << ": " << message;
  }
}

}  // namespace
}  // namespace anabranch::server
