// POST /v1/responses: what is taken, whole answers, streams, what is stored, errors.
#include "server/api/responses/request.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

constexpr const char* kTools =
    R"("tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"b":{"type":"string"}}}},
    {"type":"custom","name":"patch","description":"Edits"},{"type":"local_shell"},{"type":"web_search"},
    {"type":"namespace","name":"hub","description":"d","tools":[{"type":"function","name":"pull","parameters":{}}]}])";

std::string call(const std::string& name, const std::string& arguments) {
  return "<tool_call>{\"name\":\"" + name + "\",\"arguments\":" + arguments + "}</tool_call>";
}

class Responses : public ServerTest {
 protected:
  HttpAnswer respond(const std::string& input, const std::string& extra = "") {
    return post("/v1/responses", "{\"input\":" + input + (extra.empty() ? "" : "," + extra) + "}");
  }
  void says(std::vector<std::string> parts, FinishReason finish = FinishReason::stop) {
    engine_.script = [parts, finish](const Request&) { return Script{parts, {}, finish}; };
  }
  Json item(const std::string& items, const std::string& extra = "") {
    const Json json = respond(items, extra).json();
    return json["output"].empty() ? json : json["output"].back();
  }
};

TEST_F(Responses, WholeAnswers) {
  const Json answer =
      respond(
          "\"hi\"",
          R"("instructions":"S","metadata":{"a":"b"},"temperature":0.5,"user":"u","max_output_tokens":99)")
          .json();
  EXPECT_EQ(engine_.last_prompt(), "system: S\nuser: hi\nassistant:");
  EXPECT_EQ(answer["id"].get<std::string>().rfind("resp_", 0), 0u);
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["model"], "fake-1b");
  EXPECT_TRUE(answer["error"].is_null());
  EXPECT_TRUE(answer["incomplete_details"].is_null());
  EXPECT_EQ(answer["instructions"], "S");
  EXPECT_EQ(answer["metadata"]["a"], "b");
  EXPECT_EQ(answer["temperature"], 0.5);
  EXPECT_EQ(answer["max_output_tokens"], 99);
  EXPECT_EQ(engine_.last_request().max_tokens, 99);
  EXPECT_EQ(engine_.last_request().bound, TokenBound::shared);
  EXPECT_EQ(answer["tool_choice"], "auto");
  EXPECT_EQ(answer["truncation"], "disabled");
  EXPECT_EQ(answer["text"]["format"]["type"], "text");
  ASSERT_EQ(answer["output"].size(), 1u);
  const Json& message = answer["output"][0];
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["status"], "completed");
  EXPECT_EQ(message["content"].dump(),
            R"([{"type":"output_text","text":"Hello, world.","annotations":[],"logprobs":[]}])");
  EXPECT_EQ(answer["usage"]["input_tokens"].get<size_t>(), engine_.last_prompt().size());
  EXPECT_EQ(answer["usage"]["input_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(answer["usage"]["output_tokens"], 13);
}

TEST_F(Responses, ItemsBecomeTheTurnsOfAConversation) {
  respond(
      R"([{"role":"developer","content":"D1"},{"role":"developer","content":[{"type":"input_text","text":"D2"}]},
    {"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
    {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"no"}],
     "content":[{"type":"reasoning_text","text":"Hm."}]},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Wait.","annotations":[]}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"b\":\"x\"}"},
    {"type":"custom_tool_call","call_id":"c2","name":"patch","input":"+ line"},
    {"type":"web_search_call","id":"ws_1","status":"completed"},
    {"type":"function_call_output","call_id":"c1","output":"fine"},
    {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"done"},
     {"type":"input_image","image_url":"x"}]},
    {"role":"assistant","content":"One."},{"role":"assistant","content":"Two."},{"role":"user","content":"c"}])",
      R"("instructions":"S","reasoning":{"effort":"none"})");
  EXPECT_EQ(
      engine_.last_prompt(),
      "system: S\nsystem: D1\nsystem: D2\nuser: ab\nassistant: Wait.[reasoning_content=\"Hm.\"][tool_calls=["
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"b":"x"}}},)"
      R"({"id":"c2","type":"function","function":{"name":"patch","arguments":{"input":"+ line"}}}]])"
      "\ntool: fine[tool_call_id=\"c1\"]\ntool: done[image: not shown, this model reads text only]"
      "[tool_call_id=\"c2\"]\nassistant: One.\nassistant: Two.\nuser: c\nassistant:");
}

TEST_F(Responses, ToolsBecomeFunctions) {
  respond("\"hi\"", kTools);
  const std::string prompt = engine_.last_prompt();
  for (const char* part :
       {"\"name\":\"f\"", "\"name\":\"patch\"", "\"name\":\"local_shell\"", "\"name\":\"hub__pull\""})
    EXPECT_NE(prompt.find(part), std::string::npos) << part;
  EXPECT_EQ(prompt.find("web_search"), std::string::npos);
  const auto choose = [&](const std::string& choice) {
    respond("\"hi\"", std::string(kTools) + ",\"tool_choice\":" + choice);
    return engine_.last_prompt();
  };
  EXPECT_EQ(choose("\"none\""), prompt);  // so that cached states fit
  const std::string allowed =
      choose(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]})");
  EXPECT_NE(allowed.find("\"f\""), std::string::npos);
  EXPECT_EQ(allowed.find("patch"), std::string::npos);
  choose(R"({"type":"custom","name":"patch"})");
  EXPECT_NE(engine_.grammar().find("patch"), std::string::npos);
  EXPECT_EQ(respond("\"hi\"", kTools).json()["anabranch"]["left_out_tools"].dump(), R"(["web_search"])");
}

TEST_F(Responses, CallsHaveTheFormOfTheirTools) {
  says({call("f", R"({"b":"x"})")});
  Json called = item("\"hi\"", kTools);
  EXPECT_EQ(called["type"], "function_call");
  EXPECT_EQ(called["name"], "f");
  EXPECT_EQ(called["arguments"], R"({"b":"x"})");
  EXPECT_EQ(called["call_id"].get<std::string>().rfind("call_", 0), 0u);
  EXPECT_EQ(called["id"].get<std::string>().rfind("fc_", 0), 0u);
  says({call("patch", R"({"input":"+ \"line\"\n"})")});
  called = item("\"hi\"", kTools);
  EXPECT_EQ(called["type"], "custom_tool_call");
  EXPECT_EQ(called["name"], "patch");
  EXPECT_EQ(called["input"], "+ \"line\"\n");
  says({call("hub__pull", "{}")});
  called = item("\"hi\"", kTools);
  EXPECT_EQ(called["type"], "function_call");
  EXPECT_EQ(called["name"], "pull");
  EXPECT_EQ(called["namespace"], "hub");
  says({call("local_shell", R"({"command":["ls","-l"]})")});
  called = item("\"hi\"", kTools);
  EXPECT_EQ(called["type"], "local_shell_call");
  EXPECT_EQ(called["action"].dump(), R"({"type":"exec","command":["ls","-l"],"env":{}})");
}

TEST_F(Responses, ThoughtsComeBackSealedAndAreOpened) {
  says({"<think>A secret.</think>", "Done."});
  const Json answer =
      respond("\"hi\"",
              R"("reasoning":{"effort":"high"},"include":["reasoning.encrypted_content"],"store":false)")
          .json();
  ASSERT_EQ(answer["output"].size(), 2u);
  Json thought = answer["output"][0];
  EXPECT_EQ(thought["type"], "reasoning");
  EXPECT_EQ(thought["content"][0]["text"], "A secret.");
  const std::string sealed = thought["encrypted_content"];
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
  const auto goes_on = [&](const std::string& text) {
    thought["content"] = Json::array();
    thought["encrypted_content"] = text;
    const Json items = {{{"role", "user"}, {"content", "hi"}},
                        thought,
                        answer["output"][1],
                        {{"role", "user"}, {"content", "more"}}};
    EXPECT_EQ(respond(items.dump()).status, 200);
    return engine_.last_prompt();
  };
  EXPECT_NE(goes_on(sealed).find("assistant: Done.[reasoning_content=\"A secret.\"]"), std::string::npos);
  std::string forged = sealed;
  forged[20] = forged[20] == 'A' ? 'B' : 'A';
  for (const std::string& other : {forged, sealed + "AAAA", std::string("gAAA"), std::string("%%%%"),
                                   std::string(), sealed.substr(0, 36)})
    EXPECT_NE(goes_on(other).find("user: hi\nassistant: Done.\nuser: more"), std::string::npos) << other;
}

TEST_F(Responses, AnswersThatWereStoredGoOn) {
  says({"<think>Hm.</think>", "Hello.", call("f", R"({"b":"x"})")});
  const Json first = respond("\"hi\"", std::string(R"("instructions":"S",)") + kTools).json();
  const std::string id = first["id"];
  says({"Fine."});
  const std::string previous = "\"previous_response_id\":\"" + id + "\"";
  const Json second =
      respond(R"([{"type":"function_call_output","call_id":"c","output":"r"}])", previous).json();
  EXPECT_NE(engine_.last_prompt().find("user: hi\nassistant: Hello.[reasoning_content=\"Hm.\"][tool_calls=["),
            std::string::npos)
      << engine_.last_prompt();
  EXPECT_EQ(engine_.last_prompt().find("system"), std::string::npos);  // instructions are not inherited
  EXPECT_EQ(second["previous_response_id"], id);
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + id).json(), first);
  const Json items = ask(port_, "GET", "/v1/responses/" + id + "/input_items").json();
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "hi");
  EXPECT_EQ(items["first_id"], items["data"][0]["id"]);
  EXPECT_EQ(ask(port_, "DELETE", "/v1/responses/" + id).json()["deleted"], true);
  EXPECT_EQ(ask(port_, "DELETE", "/v1/responses/" + id).status, 404);
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + id).status, 404);
  const HttpAnswer gone = respond("\"more\"", previous);
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.error_code(), "previous_response_not_found");
  const std::string second_id = second["id"];
  EXPECT_EQ(respond("\"more\"", "\"previous_response_id\":\"" + second_id + "\"").status, 200);
  const std::string unkept = respond("\"hi\"", R"("store":false)").json()["id"];
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + unkept).status, 404);
}

// The events' data; their names say the same.
std::vector<Json> events_of(const std::string& text) {
  std::vector<Json> list;
  for (size_t at = 0; (at = text.find("event: ", at)) != std::string::npos;) {
    const size_t data = text.find("\ndata: ", at), end = text.find("\n\n", at);
    list.push_back(Json::parse(text.substr(data + 7, end - data - 7)));
    EXPECT_EQ(list.back()["type"], text.substr(at + 7, data - at - 7));
    EXPECT_EQ(list.back()["sequence_number"], list.size() - 1);
    at = end;
  }
  return list;
}

TEST_F(Responses, StreamsBuildWhatWholeAnswersAre) {
  says({"<think>H", "m.</think>", "I c", "all. ", call("f", R"({"b":"x"})"),
        call("patch", R"({"input":"p"})"), "End."});
  const Json whole = respond("\"hi\"", kTools).json();
  const auto events = events_of(respond("\"hi\"", std::string(kTools) + ",\"stream\":true").body);
  std::vector<Json> items;
  std::string kinds;
  for (const Json& event : events) {
    const std::string type = event["type"];
    kinds += type.substr(type.find('.') + 1) + " ";
    if (event.contains("output_index")) {
      EXPECT_EQ(event["output_index"], items.size() - (type == "response.output_item.added" ? 0 : 1)) << type;
    }
    if (type == "response.output_item.added") items.push_back(event["item"]);
    if (type == "response.output_item.done") {
      EXPECT_EQ(items.back()["id"], event["item"]["id"]);
      items.back() = event["item"];
    }
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], items.back()["id"]);
    }
  }
  EXPECT_EQ(
      kinds,
      "created in_progress "
      "output_item.added content_part.added reasoning_text.delta reasoning_text.delta reasoning_text.done "
      "content_part.done output_item.done "
      "output_item.added content_part.added output_text.delta output_text.delta output_text.done "
      "content_part.done output_item.done "
      "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
      "output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done "
      "output_item.added content_part.added output_text.delta output_text.done content_part.done "
      "output_item.done completed ");
  const Json last = events.back()["response"];
  EXPECT_EQ(Json(items), last["output"]);
  ASSERT_EQ(last["output"].size(), whole["output"].size());
  for (size_t i = 0; i < items.size(); ++i) {
    Json ours = items[i], theirs = whole["output"][i];
    for (const char* name : {"id", "call_id"}) ours.erase(name), theirs.erase(name);
    EXPECT_EQ(ours, theirs);
  }
  EXPECT_EQ(last["usage"], whole["usage"]);
}

TEST_F(Responses, AnswersThatAreCutAreIncomplete) {
  says({"Hello", ", wor"}, FinishReason::length);
  const Json answer = respond("\"hi\"").json();
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(answer["output"][0]["status"], "incomplete");
  EXPECT_EQ(events_of(respond("\"hi\"", R"("stream":true)").body).back()["type"], "response.incomplete");
  engine_.script = [](const Request&) { return Script{{"Hel"}, {}, FinishReason::error, "broken"}; };
  const auto events = events_of(respond("\"hi\"", R"("stream":true)").body);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["error"]["code"], "server_error");
  EXPECT_EQ(events[events.size() - 2]["type"], "error");
}

TEST_F(Responses, LongConversationsAreShortenedOnRequest) {
  std::string items = R"([{"role":"system","content":"S"})";
  for (int i = 0; i < 8; i++)
    items += fmt::format(R"(,{{"role":"user","content":"{}{}"}},{{"role":"assistant","content":"A{}"}})", i,
                         std::string(200, 'x'), i);
  items += R"(,{"role":"user","content":"last"}])";
  EXPECT_EQ(respond(items).error_code(), "context_length_exceeded");
  EXPECT_EQ(respond(items, R"("truncation":"auto")").status, 200);
  const std::string prompt = engine_.last_prompt();
  EXPECT_EQ(prompt.rfind("system: S\nuser: 4x", 0), 0u) << prompt;  // one turn more would be too many
  EXPECT_NE(prompt.find("user: last\n"), std::string::npos);
  const HttpAnswer hopeless = respond("\"" + std::string(3000, 'x') + "\"", R"("truncation":"auto")");
  EXPECT_EQ(hopeless.error_code(), "context_length_exceeded");
}

TEST_F(Responses, CountsAndLogprobs) {
  const Json count = post("/v1/responses/input_tokens", R"({"input":"hi","instructions":"S"})").json();
  EXPECT_EQ(count["object"], "response.input_tokens");
  EXPECT_EQ(count["input_tokens"], 29);
  says({"ab"});
  const std::string wish = R"("include":["message.output_text.logprobs"],"top_logprobs":2)";
  const Json part = respond("\"hi\"", wish).json()["output"][0]["content"][0];
  ASSERT_EQ(part["logprobs"].size(), 3u);  // the last is of the token that ends the turn
  EXPECT_EQ(part["logprobs"][0]["token"], "a");
  EXPECT_EQ(part["logprobs"][0]["top_logprobs"].size(), 2u);
  Json streamed = Json::array();
  for (const Json& event : events_of(respond("\"hi\"", wish + R"(,"stream":true)").body))
    if (event["type"] == "response.output_text.delta")
      for (const Json& one : event["logprobs"]) streamed.push_back(one);
  EXPECT_EQ(streamed, part["logprobs"]);
}

TEST_F(Responses, RefusesWhatIsNotBuiltAndWhatIsWrong) {
  const auto expect = [&](const std::string& input, const std::string& extra, const char* param) {
    const HttpAnswer answer = respond(input, extra);
    EXPECT_EQ(answer.status, 400) << input << extra;
    EXPECT_EQ(answer.error_param(), param) << answer.body;
  };
  expect("\"hi\"", R"("background":true)", "background");
  expect("\"hi\"", R"("conversation":7)", "conversation");
  expect("\"hi\"", R"("conversation":"conv_1","previous_response_id":"resp_1")", "conversation");
  expect("\"hi\"", R"("truncation":"some")", "truncation");
  expect("\"hi\"", R"("max_output_tokens":0)", "max_output_tokens");
  expect("\"hi\"", R"("tools":[{"type":"function"}])", "tools[0].name");
  expect("\"hi\"", R"("tools":[7])", "tools[0]");
  expect("\"hi\"", R"("tool_choice":{"type":"function","name":"g"})", "tool_choice");
  expect("\"hi\"", R"("tools":[{"type":"web_search"}],"tool_choice":"required")", "tool_choice");
  expect("[]", "", "input");
  expect("7", "", "input");
  expect("[7]", "", "input[0]");
  expect(R"([{"role":"robot","content":"x"}])", "", "input[0].role");
  expect(R"([{"role":"user"}])", "", "input[0].content");
  expect(R"([{"role":"user","content":[{"type":"input_audio","data":"x"}]}])", "", "input[0].content");
  expect(R"([{"type":"item_reference","id":"x"}])", "", "input[0].id");
  expect(R"([{"type":"item_reference"}])", "", "input[0].id");
  std::string many = "[";
  for (int i = 0; i <= 1024; i++)
    many += fmt::format(R"({}{{"type":"item_reference","id":"x{}"}})", i ? "," : "", i);
  expect(many + "]", "", "input");
  expect(R"([{"type":"function_call_output","output":"x"}])", "", "input[0].call_id");
}

}  // namespace
}  // namespace anabranch::server
