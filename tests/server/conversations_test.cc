// OpenAI's Conversations API: conversations of items, on the stores of /v1/sessions.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

// A branch with every kind of item but those of MCP's.
constexpr const char* kItems = R"({"items":[
  {"type":"message","role":"developer","content":"Be brief."},
  {"role":"user","content":[{"type":"input_text","text":"Weather?"}]},
  {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
  {"type":"function_call","call_id":"call_1","name":"get","arguments":"{\"city\":\"Rome\"}"},
  {"type":"function_call_output","call_id":"call_1","output":"sunny"}]})";

class ConversationsApi : public ServerTest {
 protected:
  static std::string path_of(const std::string& id) { return "/v1/conversations/" + id; }
  std::string made(const std::string& body = "{}") { return post("/v1/conversations", body).json()["id"]; }
  Json add(const std::string& id, const std::string& items) {
    return post(path_of(id) + "/items", R"({"items":)" + items + "}").json();
  }
  Json list(const std::string& id, const std::string& query = "?order=asc&limit=100") {
    return ask(port_, "GET", path_of(id) + "/items" + query).json();
  }
  static std::string field_of_all(const Json& items, const char* name) {
    std::string all;
    for (const Json& item : items["data"]) all += item[name].get<std::string>() + "|";
    return all;
  }
  Json respond(const std::string& id, const std::string& more) {
    return post("/v1/responses",
                R"({"reasoning":{"effort":"none"},"conversation":")" + id + "\"," + more + "}")
        .json();
  }
};

TEST_F(ConversationsApi, AreMadeChangedAndRemoved) {
  const Json first = post("/v1/conversations", R"({"metadata":{"a":"1"}})").json();
  const std::string id = first["id"];
  EXPECT_EQ(id.rfind("conv_", 0), 0u);
  EXPECT_EQ(first["object"], "conversation");
  EXPECT_GT(first["created_at"], 0);
  EXPECT_EQ(ask(port_, "GET", path_of(id)).json(), first);
  EXPECT_EQ(post(path_of(id), R"({"metadata":{"b":"2"}})").json()["metadata"], Json({{"b", "2"}}));
  EXPECT_EQ(post(path_of(id), "{}").json()["metadata"], Json({{"b", "2"}})) << "absent: as it was";
  EXPECT_FALSE(std::filesystem::exists(sessions_)) << "only serve --sessions keeps them on disk";
  const Json gone = ask(port_, "DELETE", path_of(id)).json();
  EXPECT_EQ(gone, Json({{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}}));
  for (const char* method : {"GET", "DELETE"})
    EXPECT_EQ(ask(port_, method, path_of(id)).error_code(), "conversation_not_found");
}

TEST_F(ConversationsApi, ItemsBecomeMessagesAndItemsAgain) {
  const std::string id = made(kItems);
  const Json items = list(id);
  EXPECT_EQ(field_of_all(items, "type"),
            "message|message|reasoning|message|function_call|function_call_output|");
  const Json& data = items["data"];
  EXPECT_EQ(data[0]["role"], "system");
  EXPECT_EQ(data[1]["content"], Json::parse(R"([{"type":"input_text","text":"Weather?"}])"));
  EXPECT_EQ(data[2]["content"], Json::parse(R"([{"type":"reasoning_text","text":"Hm."}])"));
  EXPECT_EQ(data[3]["content"][0]["text"], "I look.");
  EXPECT_EQ(data[4]["call_id"], "call_1");
  EXPECT_EQ(data[4]["arguments"], R"({"city":"Rome"})");
  EXPECT_EQ(data[5]["output"], "sunny");
  std::set<std::string> ids;
  for (const Json& item : data) {
    EXPECT_TRUE(ids.insert(item["id"]).second) << item;
    EXPECT_EQ(item["status"], "completed");
    EXPECT_EQ(ask(port_, "GET", path_of(id) + "/items/" + item["id"].get<std::string>()).json(), item);
  }
  const std::string turn = data[3]["id"].get<std::string>().substr(4);
  EXPECT_EQ(data[2]["id"], "rs_" + turn);
  EXPECT_EQ(data[4]["id"], "fc_" + turn + "_0");
  // What the list has can be sent again.
  const std::string copy = made(Json{{"items", data}}.dump());
  EXPECT_EQ(field_of_all(list(copy), "type"), field_of_all(items, "type"));
}

TEST_F(ConversationsApi, ItemsAreAddedAndListedInPages) {
  const std::string id = made();
  EXPECT_EQ(list(id)["first_id"], Json());
  EXPECT_TRUE(add(id, "[]")["data"].empty());
  add(id, R"([{"role":"user","content":"a"}])");
  const Json added = add(id, R"([{"role":"assistant","content":"b"},{"role":"user","content":"c"}])");
  ASSERT_EQ(added["data"].size(), 2u) << "those that were added, and no others";
  EXPECT_EQ(added["data"][0]["content"][0]["type"], "output_text");
  const Json all = list(id, "");
  ASSERT_EQ(all["data"].size(), 3u);
  EXPECT_EQ(all["first_id"], added["last_id"]) << "the last one comes first";
  EXPECT_EQ(all["has_more"], false);
  std::string seen, after;
  for (bool more = true; more;) {
    const Json page = list(id, "?limit=1&order=asc" + (after.empty() ? "" : "&after=" + after));
    ASSERT_EQ(page["data"].size(), 1u);
    seen += page["data"][0]["content"][0]["text"].get<std::string>();
    after = page["last_id"], more = page["has_more"];
  }
  EXPECT_EQ(seen, "abc");
  EXPECT_TRUE(list(id, "?order=asc&after=" + after)["data"].empty());
}

TEST_F(ConversationsApi, TheLastItemCanBeRemoved) {
  const std::string id = made(kItems), items = path_of(id) + "/items/";
  const Json data = list(id)["data"];
  const auto erase = [&](size_t i) { return ask(port_, "DELETE", items + data[i]["id"].get<std::string>()); };
  EXPECT_EQ(erase(1).error_code(), "unsupported_value") << "others stand below it";
  const HttpAnswer gone = erase(5);
  EXPECT_EQ(gone.json()["id"], id);
  EXPECT_EQ(erase(5).error_code(), "item_not_found");
  for (const size_t i : {2, 3, 4})
    EXPECT_EQ(erase(i).error_code(), "unsupported_value") << "its message has other items";
  EXPECT_EQ(list(id)["data"].size(), 5u);
  add(id, R"([{"type":"function_call_output","call_id":"call_1","output":"rain"}])");
  EXPECT_EQ(list(id)["data"][5]["output"], "rain");
  const std::string single = made(R"({"items":[{"role":"user","content":"a"}]})");
  const std::string only = list(single)["first_id"];
  EXPECT_EQ(ask(port_, "DELETE", path_of(single) + "/items/" + only).status, 200);
  EXPECT_TRUE(list(single)["data"].empty());
  add(single, R"([{"role":"user","content":"b"}])");
  EXPECT_EQ(list(single)["data"].size(), 1u);
}

TEST_F(ConversationsApi, ResponsesGoOnWithThem) {
  const std::string id = made(R"({"items":[{"role":"user","content":"I am Ann."}]})");
  engine_.script = [](const Request&) { return Script{{"Hello."}, {}, FinishReason::stop}; };
  const Json answer = respond(id, R"("input":"Who am I?")");
  EXPECT_EQ(answer["conversation"]["id"], id);
  EXPECT_EQ(engine_.last_prompt(), "user: I am Ann.\nuser: Who am I?\nassistant:");
  const Json items = list(id);
  EXPECT_EQ(field_of_all(items, "role"), "user|user|assistant|");
  EXPECT_EQ(items["data"][2]["content"][0]["text"], "Hello.");
  // Another branch: its items are listed, and no others.
  const std::string question = items["data"][1]["id"];
  post("/v1/responses", R"({"input":[],"reasoning":{"effort":"none"},"conversation":{"id":")" + id +
                            R"(","parent":")" + question + "\"}}");
  const Json other = list(id);
  ASSERT_EQ(other["data"].size(), 3u);
  EXPECT_NE(other["last_id"], items["last_id"]);
  EXPECT_EQ(ask(port_, "GET", path_of(id) + "/items/" + items["last_id"].get<std::string>()).error_code(),
            "item_not_found");
}

TEST_F(ConversationsApi, CallsOfMcpToolsKeepTheirServer) {
  const std::string id = made(R"({"items":[{"role":"user","content":"Weather?"},
    {"type":"mcp_call","id":"mcp_a","server_label":"w","name":"get","arguments":"{}","output":"sunny"},
    {"type":"mcp_call","id":"mcp_b","server_label":"w","name":"get","arguments":"{}","error":"no such city"},
    {"type":"function_call","call_id":"call_c","name":"own","arguments":"{}"}]})");
  const Json items = list(id)["data"];
  ASSERT_EQ(items.size(), 4u) << items;
  EXPECT_EQ(items[1]["server_label"], "w");
  EXPECT_EQ(items[1]["name"], "get");
  EXPECT_EQ(items[1]["output"], "sunny");
  EXPECT_EQ(items[1]["status"], "completed");
  EXPECT_EQ(items[2]["error"], "no such city");
  EXPECT_EQ(items[2]["status"], "failed");
  EXPECT_EQ(items[3]["type"], "function_call");
  const std::string asks = made(R"({"items":[{"role":"user","content":"Weather?"},
    {"type":"mcp_approval_request","id":"mcpr_x","server_label":"w","name":"get","arguments":"{\"a\":1}"}]})");
  // Who was asked for approval, only the server's own record tells.
  const Json call = list(asks)["data"][1];
  EXPECT_EQ(call["type"], "mcp_call");
  EXPECT_EQ(call["status"], "incomplete");
  EXPECT_TRUE(call["approval_request_id"].is_null());
  EXPECT_EQ(call["arguments"], R"({"a":1})");
}

TEST_F(ConversationsApi, RefuseWhatIsWrong) {
  const std::string id = made(), items = path_of(id) + "/items";
  const auto expect = [&](const std::string& path, const std::string& body, int status, const char* param) {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, status) << path << body << answer.body;
    EXPECT_EQ(answer.error_param(), param) << answer.body;
  };
  expect("/v1/conversations", R"({"metadata":7})", 400, "metadata");
  expect("/v1/conversations", R"({"metadata":{"a":")" + std::string(70'000, 'x') + "\"}}", 400, "");
  expect("/v1/conversations", R"({"items":7})", 400, "items");
  expect("/v1/conversations", R"({"items":[7]})", 400, "items[0]");
  expect("/v1/conversations", R"({"items":[{"role":"robot","content":"x"}]})", 400, "items[0].role");
  expect(items, "{}", 400, "items");
  expect(items, R"({"items":[{"type":"mcp_approval_response","approval_request_id":"x","approve":true}]})",
         400, "items");
  expect(items, R"({"items":[{"type":"item_reference","id":"msg_1"}]})", 400, "items[0].id");
  expect(items, Json{{"items", Json(std::vector<Json>(1025, Json::object()))}}.dump(), 400, "items");
  expect("/v1/conversations/conv_x", "{}", 404, "");
  for (const char* query : {"?limit=0", "?limit=101", "?limit=x", "?limit=-1", "?order=up"})
    EXPECT_EQ(ask(port_, "GET", items + query).status, 400) << query;
  EXPECT_EQ(ask(port_, "GET", items + "?after=msg_99").error_param(), "after");
  EXPECT_EQ(ask(port_, "GET", items + "/msg_99").status, 404);
  EXPECT_EQ(ask(port_, "DELETE", items).status, 405);
  EXPECT_TRUE(list(id)["data"].empty()) << "nothing was added";
}

TEST_F(ConversationsApi, AreSessionsOnDiskAndBelongToTheirKey) {
  ServerOptions options;
  options.sessions = {sessions_, true};
  options.api_keys = {{"key-of-ann", "ann"}, {"key-of-bob", "bob"}};
  start(options);
  const auto as = [&](const char* key, const char* method, const std::string& path,
                      const std::string& body = "") {
    return ask(port_, method, path, body, std::string("Authorization: Bearer ") + key + "\r\n");
  };
  const std::string id = as("key-of-ann", "POST", "/v1/conversations", kItems).json()["id"];
  EXPECT_EQ(as("key-of-ann", "GET", "/v1/sessions").json()["data"][0]["id"], id);
  EXPECT_EQ(as("key-of-ann", "GET", "/v1/sessions/" + id).json()["title"], "Weather?");
  const std::string items = path_of(id) + "/items";
  for (const std::string& path : {path_of(id), items, items + "/msg_1"}) {
    EXPECT_EQ(as("key-of-bob", "GET", path).error_code(), "conversation_not_found") << path;
    EXPECT_EQ(ask(port_, "GET", path).status, 401) << path;
  }
  EXPECT_EQ(as("key-of-bob", "POST", items, kItems).status, 404);
  EXPECT_EQ(as("key-of-bob", "DELETE", path_of(id)).status, 404);
  start(options);
  EXPECT_EQ(as("key-of-ann", "GET", items).json()["data"].size(), 6u) << "after a restart, too";
  EXPECT_EQ(as("key-of-ann", "DELETE", path_of(id)).status, 200);
  EXPECT_EQ(as("key-of-ann", "GET", "/v1/sessions/" + id).status, 404);
}

TEST_F(ConversationsApi, StrangersKeepNone) {
  ServerOptions options;
  options.host = "0.0.0.0";
  start(options);
  EXPECT_EQ(post("/v1/conversations", "{}").error_code(), "no_api_keys");
  EXPECT_EQ(ask(port_, "GET", "/v1/conversations/conv_1/items").error_code(), "no_api_keys");
}

TEST_F(ConversationsApi, ArgumentsMayBeDeep) {
  const std::string deep = R"({"a":)" + std::string(126, '[') + std::string(126, ']') + "}";
  const Json call = {{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", deep}};
  const std::string id = made(Json{{"items", Json::array({call})}}.dump());
  EXPECT_EQ(list(id)["data"][0]["arguments"], deep);
}

// Messages of sessions may have any form.
TEST_F(ConversationsApi, ReadSessionsOfAnyForm) {
  const Json session = post("/v1/sessions", R"({"messages":[{"role":"assistant","content":""},
    {"role":"tool","content":"x"},
    {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"no JSON"}}],
     "about":{"mcp_calls":[1],"status":7}},{"role":"tool","content":"r","tool_call_id":"c","about":{"mcp":5}}]})")
                           .json();
  const Json items = list(session["id"]);
  EXPECT_EQ(field_of_all(items, "type"), "message|function_call_output|function_call|function_call_output|");
  EXPECT_EQ(items["data"][2]["arguments"], "no JSON");
}

}  // namespace
}  // namespace anabranch::server
