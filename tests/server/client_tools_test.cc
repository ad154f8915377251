// Tools of the Responses API that have item types of their own and run at the client.
#include "server/api/responses/client_tools.h"

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

constexpr const char* kTools =
    R"("tools":[{"type":"shell","environment":{"type":"local"}},{"type":"apply_patch"},{"type":"local_shell"}])";

std::string call(const std::string& name, const Json& arguments) {
  return "<tool_call>" + Json{{"name", name}, {"arguments", arguments}}.dump() + "</tool_call>";
}

class ClientTools : public ServerTest {
 protected:
  ClientTools() { engine_.mutable_info().context_length = 10000; }
  HttpAnswer respond(const Json& input, const std::string& extra = kTools) {
    return post("/v1/responses", "{\"input\":" + input.dump() + "," + extra + "}");
  }
  void says(std::vector<std::string> parts) {
    engine_.script = [parts](const Request&) { return Script{parts}; };
  }
  // The item of a call that the model makes so.
  Json called(const std::string& name, const Json& arguments) {
    says({call(name, arguments)});
    Json item = respond("hi").json()["output"].back();
    EXPECT_TRUE(item["id"].is_string());
    EXPECT_EQ(item["call_id"].get<std::string>().rfind("call_", 0), 0u);
    item.erase("id");
    item.erase("call_id");
    return item;
  }
  std::string prompt(const Json& items) {
    const HttpAnswer answer = respond(items);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return engine_.last_prompt();
  }
};

TEST_F(ClientTools, AreOfferedAsFunctions) {
  const HttpAnswer answer = respond("hi");
  for (const char* part : {R"("name":"shell")", R"("commands")", R"("name":"apply_patch")",
                           R"("create_file")", R"("name":"local_shell")"})
    EXPECT_NE(engine_.last_prompt().find(part), std::string::npos) << part;
  EXPECT_FALSE(answer.json()["anabranch"].contains("left_out_tools"));
  EXPECT_EQ(answer.json()["tools"], parse_json(std::string("{") + kTools + "}")->at("tools"));
}

TEST_F(ClientTools, ShellsInContainersAreLeftOut) {
  const auto left_out = [&](const std::string& environment) {
    return respond("hi", R"("tools":[{"type":"shell")" + environment + "}]")
        .json()["anabranch"]
        .value("left_out_tools", Json());
  };
  for (const char* container :
       {R"({"type":"container_auto"})", R"({"type":"container_reference","container_id":"c"})"}) {
    EXPECT_EQ(left_out(std::string(R"(,"environment":)") + container).dump(), R"(["shell"])");
    EXPECT_EQ(engine_.last_prompt().find("commands"), std::string::npos);
  }
  for (const char* local : {"", R"(,"environment":null)", R"(,"environment":{"type":"local"})"})
    EXPECT_TRUE(left_out(local).is_null()) << local;
  const HttpAnswer wrong = respond("hi", R"("tools":[{"type":"shell","environment":"local"}])");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.json()["error"]["param"], "tools[0].environment") << wrong.body;
}

TEST_F(ClientTools, SkillsAreTold) {
  respond("hi", R"("tools":[{"type":"shell","environment":{"type":"local","skills":[
      {"name":"pdf","description":"Reads PDF files","path":"/skills/pdf"}]}}])");
  EXPECT_NE(engine_.last_prompt().find("pdf (in the folder /skills/pdf): Reads PDF files"),
            std::string::npos);
}

TEST_F(ClientTools, AreChosenByTheirType) {
  const auto grammar = [&](const std::string& choice) {
    const HttpAnswer answer = respond("hi", kTools + (",\"tool_choice\":" + choice));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return engine_.grammar();
  };
  EXPECT_NE(grammar(R"({"type":"apply_patch"})").find("apply_patch"), std::string::npos);
  EXPECT_EQ(engine_.grammar().find("commands"), std::string::npos);
  EXPECT_NE(grammar(R"({"type":"shell"})").find("commands"), std::string::npos);
  EXPECT_EQ(engine_.grammar().find("apply_patch"), std::string::npos);
  respond("hi",
          kTools + std::string(R"(,"tool_choice":{"type":"allowed_tools","tools":[{"type":"shell"}]})"));
  EXPECT_EQ(engine_.last_prompt().find("apply_patch"), std::string::npos);
  EXPECT_EQ(respond("hi", R"("tools":[{"type":"shell"}],"tool_choice":{"type":"apply_patch"})").status, 400);
}

TEST_F(ClientTools, CallsOfTheShell) {
  const Json empty = {{"timeout_ms", nullptr}, {"max_output_length", nullptr}};
  const auto action = [&](const Json& arguments) {
    const Json item = called("shell", arguments);
    EXPECT_EQ(item["type"], "shell_call");
    EXPECT_EQ(item["status"], "completed");
    EXPECT_EQ(item["environment"], (Json{{"type", "local"}}));
    return item["action"];
  };
  Json expected = {{"commands", {"ls -l", "pwd"}}, {"timeout_ms", 500}, {"max_output_length", 9}};
  EXPECT_EQ(action(expected), expected);
  // What a model fills wrongly becomes what clients can read.
  expected = {{"commands", {"ls"}}};
  expected.update(empty);
  EXPECT_EQ(action({{"commands", "ls"}, {"timeout_ms", "soon"}}), expected);
  EXPECT_EQ(action({{"commands", {"ls", 1, nullptr}}, {"max_output_length", 1.5}}), expected);
  expected["commands"] = Json::array();
  EXPECT_EQ(action(Json::object()), expected);
  EXPECT_EQ(action({{"commands", 5}}), expected);
}

TEST_F(ClientTools, CallsOfApplyPatch) {
  const auto operation = [&](const Json& arguments) {
    const Json item = called("apply_patch", arguments);
    EXPECT_EQ(item["type"], "apply_patch_call");
    EXPECT_EQ(item["status"], "completed");
    return item["operation"];
  };
  for (const char* type : {"create_file", "update_file"}) {
    const Json whole = {{"type", type}, {"path", "a.py"}, {"diff", "+x"}};
    EXPECT_EQ(operation(whole), whole);
  }
  EXPECT_EQ(operation({{"type", "delete_file"}, {"path", "a"}, {"diff", ""}}),
            (Json{{"type", "delete_file"}, {"path", "a"}}));
  EXPECT_EQ(operation({{"path", "a"}}), (Json{{"type", "update_file"}, {"path", "a"}, {"diff", ""}}))
      << "a file is never deleted by mistake";
  EXPECT_EQ(operation({{"type", "delete"}, {"path", 1}, {"diff", "d"}}),
            (Json{{"type", "update_file"}, {"path", ""}, {"diff", "d"}}));
}

TEST_F(ClientTools, HistoriesHoldCallsAndResults) {
  const Json items = *parse_json(R"([{"role":"user","content":"Go."},
    {"type":"shell_call","id":"sh_1","call_id":"c1","status":"completed","environment":{"type":"local"},
     "action":{"commands":["ls","pwd"],"timeout_ms":null,"max_output_length":100}},
    {"type":"shell_call_output","call_id":"c1","max_output_length":100,"output":[
     {"stdout":"a.py\n","stderr":"","outcome":{"type":"exit","exit_code":0}},
     {"stdout":"","stderr":"no","outcome":{"type":"exit","exit_code":2}},
     {"stdout":"half","stderr":"","outcome":{"type":"timeout"}}]},
    {"type":"apply_patch_call","id":"p","call_id":"c2","status":"completed",
     "operation":{"type":"update_file","path":"a.py","diff":"@@\n-x\n+y"}},
    {"type":"apply_patch_call_output","call_id":"c2","status":"completed","output":"1 change"},
    {"type":"apply_patch_call","call_id":"c3","status":"completed","operation":{"type":"delete_file","path":"b"}},
    {"type":"apply_patch_call_output","call_id":"c3","status":"failed","output":null}])");
  const std::string told = prompt(items);
  for (
      const char* part :
      {R"("id":"c1","type":"function","function":{"name":"shell","arguments":{"commands":["ls","pwd"],"max_output_length":100}})",
       "tool: a.py\n[exit code 0]\n[stderr]\nno\n[exit code 2]\nhalf\n[timed out][tool_call_id=\"c1\"]",
       R"("name":"apply_patch","arguments":{"type":"update_file","path":"a.py","diff":"@@\n-x\n+y"})",
       "tool: 1 change[tool_call_id=\"c2\"]", R"("arguments":{"type":"delete_file","path":"b"})",
       "tool: Error: the patch was not applied[tool_call_id=\"c3\"]"})
    EXPECT_NE(told.find(part), std::string::npos) << part << "\nin " << told;
}

// Programs store what they get, and later versions store more.
TEST_F(ClientTools, OddItemsEndNoConversation) {
  for (const char* odd :
       {R"({"type":"shell_call","call_id":"c"})", R"({"type":"shell_call","call_id":"c","action":"ls"})",
        R"({"type":"apply_patch_call","call_id":"c","operation":null})",
        R"({"type":"shell_call","call_id":"c","action":{"commands":"ls"}})"})
    for (
        const char* result :
        {R"({"type":"shell_call_output","call_id":"c","output":"text"})",
         R"({"type":"shell_call_output","call_id":"c","output":[]})",
         R"({"type":"shell_call_output","call_id":"c","output":[1,{"stdout":null,"outcome":"exit"},{"outcome":{"exit_code":"x"}}]})",
         R"({"type":"apply_patch_call_output","call_id":"c"})"})
      EXPECT_EQ(
          respond(Json::array({{{"role", "user"}, {"content", "hi"}}, *parse_json(odd), *parse_json(result)}))
              .status,
          200)
          << odd << result;
  EXPECT_EQ(respond(Json::array({{{"type", "shell_call_output"}, {"output", "x"}}})).status, 400) << "whose?";
}

TEST_F(ClientTools, StreamsTellTheCommands) {
  says({"Well. ", call("shell", {{"commands", {"ls", "pwd"}}}),
        call("apply_patch", {{"type", "create_file"}, {"path", "a"}, {"diff", "+x"}}),
        call("local_shell", {{"command", {"ls"}}})});
  std::string kinds;
  std::vector<Json> events;
  Json items = Json::array();
  const HttpAnswer streamed = respond("hi", kTools + std::string(",\"stream\":true"));
  for (size_t at = 0; (at = streamed.body.find("data: ", at)) != std::string::npos; at++) {
    events.push_back(*parse_json(streamed.body.substr(at + 6, streamed.body.find('\n', at) - at - 6)));
    const Json& event = events.back();
    const std::string type = event["type"];
    if (event.value("output_index", 0) > 0) kinds += type.substr(type.find('.') + 1) + " ";
    if (type == "response.output_item.done") items.push_back(event["item"]);
    if (type != "response.output_item.added") continue;
    EXPECT_EQ(event["item"]["status"], "in_progress");
    if (event["item"]["type"] == "shell_call") {
      EXPECT_EQ(event["item"]["action"]["commands"], Json::array());
    }
    if (event["item"]["type"] == "apply_patch_call") {
      EXPECT_EQ(event["item"]["operation"]["type"], "create_file") << "it is never told as another operation";
    }
  }
  EXPECT_EQ(kinds,
            "output_item.added shell_call_command.added shell_call_command.delta shell_call_command.done "
            "shell_call_command.added shell_call_command.delta shell_call_command.done output_item.done "
            "output_item.added output_item.done output_item.added output_item.done ");
  std::string commands;
  for (const Json& event : events)
    if (event["type"] == "response.shell_call_command.done")
      commands += fmt::format("{} {} {};", event["output_index"].get<int>(),
                              event["command_index"].get<int>(), event["command"].get<std::string>());
  EXPECT_EQ(commands, "1 0 ls;1 1 pwd;");
  EXPECT_EQ(items, events.back()["response"]["output"]);
  // A stored response as a stream is the same.
  const std::string id = events.back()["response"]["id"];
  const std::string again = ask(port_, "GET", "/v1/responses/" + id + "?stream=true").body;
  std::string same;
  for (size_t at = 0; (at = again.find("data: ", at)) != std::string::npos; at++) {
    const Json event = *parse_json(again.substr(at + 6, again.find('\n', at) - at - 6));
    const std::string type = event["type"];
    if (event.value("output_index", 0) > 0) same += type.substr(type.find('.') + 1) + " ";
  }
  EXPECT_EQ(same, kinds);
}

}  // namespace
}  // namespace anabranch::server
