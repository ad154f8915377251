// Images in the requests of every API: where they stand in the messages, and what is refused.
#include <gtest/gtest.h>

#include "base/base64.h"
#include "server/api/anthropic/request.h"
#include "server/api/ollama/request.h"
#include "server/api/openai/request.h"
#include "server/api/responses/compaction.h"
#include "server/api/responses/conversation_items.h"
#include "server/api/responses/request.h"
#include "server/api/shorten.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

constexpr const char* kA = "data:image/png;base64,QUE=";  // "AA"
constexpr const char* kB = "data:image/jpeg;base64,QkI=";

RequestDefaults defaults() {
  RequestDefaults defaults{SamplingParams{}, {}, 300};
  defaults.images = true;
  return defaults;
}

std::string image_url(const std::string& url, const std::string& detail = "") {
  return R"({"type":"image_url","image_url":{"url":")" + url + "\"" +
         (detail.empty() ? "" : R"(,"detail":")" + detail + "\"") + "}}";
}

template <class Parsed>
ApiError error_of(const ApiResult<Parsed>& parsed) {
  if (!parsed) return parsed.error();
  ADD_FAILURE() << "taken";
  return {};
}

std::string text_of(const std::vector<ImageInput>& images) {
  std::string text;
  for (const ImageInput& image : images)
    text += fmt::format("{}{}@{} ", image.bytes,
                        image.most_pixels ? fmt::format("<={}", *image.most_pixels) : "", image.field);
  return text;
}

// A chat with this content of its only message.
ApiResult<ChatRequest> chat(const std::string& content, const RequestDefaults& with = defaults(),
                            const std::string& role = "user") {
  return parse_chat_request(R"({"messages":[{"role":")" + role + R"(","content":)" + content + "}]}", with);
}

TEST(Images, ChatCompletions) {
  const auto request = chat("[" + image_url(kA, "low") + R"(,{"type":"text","text":"é"},
      {"type":"text","text":"x"},)" +
                            image_url(kB, "high") + R"(,{"type":"image_url","image_url":")" + kA + "\"}]")
                           .value();
  EXPECT_EQ(
      request.messages.dump(),
      R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"éx"},{"type":"image"},{"type":"image"}]}])");
  EXPECT_EQ(text_of(request.images),
            "AA<=262144@messages[0].content[0] BB@messages[0].content[3] AA@messages[0].content[4] ");
  EXPECT_EQ(chat(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])").value().messages[0]["content"],
            "ab")
      << "without images a text, as ever";
}

TEST(Images, ChatCompletionsRefuse) {
  const auto refused = [](const std::string& content, const std::string& field, const std::string& part) {
    const ApiError error = error_of(chat(content));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, field) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  };
  const auto refused_url = [&](const std::string& url, const std::string& part) {
    refused(R"([{"type":"text","text":"a"},)" + image_url(url) + "]", "messages[0].content[1]", part);
  };
  refused_url("", "data URL");
  refused_url("image.png", "data URL");
  refused_url("file:///etc/passwd", "data URL");
  refused_url("data:text/html;base64,QUE=", "image/");
  refused_url("data:;base64,QUE=", "image/");
  refused_url("data:image/png,AA", "base64");
  refused_url("data:image/png;base64", "base64");
  refused_url("data:image/png;base64,", "empty");
  refused_url("data:image/png;base64,QUE", "multiple of 4");
  refused_url("data:image/png;base64,QU\\nE", "offset 2");
  refused_url("data:image/png;base64,QU-_", "offset 2");
  refused_url("data:image/" + std::string(5000, 'x') + ";base64,QUE=", "base64");
  refused_url("https://example.com/a.png", "--allow-image-urls");
  refused_url("HTTP://example.com/a.png", "--allow-image-urls");
  refused("[" + image_url(kA, "medium") + "]", "messages[0].content[0]", "detail");
  refused(R"([{"type":"image_url"}])", "messages[0].content[0].image_url", "must be");
  refused(R"([{"type":"image_url","image_url":{}}])", "messages[0].content[0].image_url", "must be");
  refused(R"([{"type":"image_url","image_url":5}])", "messages[0].content[0].image_url", "must be");
  refused(R"([{"type":"image_url","image_url":{"url":["a"]}}])", "messages[0].content[0].image_url",
          "must be");
  EXPECT_EQ(error_of(chat("[" + image_url(kA) + "]", defaults(), "system")).param,
            "messages[0].content[0].type");
  EXPECT_TRUE(chat("[" + image_url(kA) + "]", defaults(), "assistant").ok()) << "another server's answer";
}

TEST(Images, AreLimited) {
  std::string many;
  for (size_t i = 0; i < kMaxImages; ++i) many += (i > 0 ? "," : "") + image_url(kA);
  EXPECT_EQ(chat("[" + many + "]").value().images.size(), kMaxImages);
  ApiError error = error_of(chat("[" + many + "," + image_url(kA) + "]"));
  EXPECT_EQ(error.code, "limit_exceeded");
  EXPECT_EQ(error.param, "messages[0].content[64]");
  const auto of_size = [](size_t bytes) {
    return "data:image/png;base64," + to_base64(std::string(bytes, 'x'));
  };
  EXPECT_EQ(chat("[" + image_url(of_size(kMaxImageBytes)) + "]").value().images[0].bytes.size(),
            kMaxImageBytes);
  error = error_of(chat("[" + image_url(of_size(kMaxImageBytes + 1)) + "]"));
  EXPECT_EQ(error.code, "limit_exceeded");
  EXPECT_NE(error.message.find("20 MiB"), std::string::npos) << error.message;
  const std::string large = image_url(of_size(kMaxImageBytes));
  std::string all = large;
  for (size_t i = 1; i <= kMaxAllImageBytes / kMaxImageBytes; ++i) all += "," + large;
  EXPECT_NE(error_of(chat("[" + all + "]")).message.find("128 MiB together"), std::string::npos);
}

TEST(Images, ResultsOfToolsHoldThemForModelsThatReadThem) {
  const std::string body = R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":
      [{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":
      [{"type":"text","text":"See "},)" +
                           image_url(kA) + "]}]}";
  const auto request = parse_chat_request(body, defaults()).value();
  EXPECT_EQ(request.messages[2]["content"].dump(), R"([{"type":"text","text":"See "},{"type":"image"}])");
  EXPECT_EQ(text_of(request.images), "AA@messages[2].content[1] ");
  const auto blind = parse_chat_request(body, {SamplingParams{}, {}, 300}).value();
  EXPECT_EQ(blind.messages[2]["content"], "See [image: not shown, this model reads text only]");
  EXPECT_TRUE(blind.images.empty());
}

TEST(Images, WebAddressesAreFetchedWhereThatIsAllowed) {
  RequestDefaults fetching = defaults();
  std::vector<std::string> asked;
  fetching.fetch_image = [&](const std::string& url, size_t bytes) -> Result<std::string> {
    asked.push_back(fmt::format("{} {}", url, bytes));
    if (url.ends_with("gone")) return make_error(ErrorKind::io, "404");
    return std::string("AA");
  };
  const auto request =
      chat("[" + image_url("https://h/a") + "," + image_url("http://h/b") + "]", fetching).value();
  EXPECT_EQ(text_of(request.images), "AA@messages[0].content[0] AA@messages[0].content[1] ");
  EXPECT_EQ(asked, (std::vector<std::string>{"https://h/a 20971520", "http://h/b 20971518"}))
      << "one budget for all images of a request";
  const ApiError error = error_of(chat("[" + image_url("https://h/gone") + "]", fetching));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "messages[0].content[0]");
  EXPECT_NE(error.message.find("404"), std::string::npos) << error.message;
}

ApiResult<ChatRequest> messages(const std::string& content) {
  return parse_messages_request(R"({"max_tokens":5,"messages":[{"role":"user","content":)" + content + "}]}",
                                defaults(), false);
}

TEST(Images, Anthropic) {
  constexpr const char* kImage =
      R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUE="}})";
  const auto request =
      messages(
          R"([{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"See"},)" +
          std::string(kImage) + R"(,{"type":"text","text":"it"}]},{"type":"text","text":"1:"},)" + kImage +
          R"(,{"type":"text","text":"2:"},{"type":"text","text":"3"},{"type":"image","source":{"type":"url","url":")" +
          kB + R"("}}])")
          .value();
  EXPECT_EQ(
      request.messages.dump(),
      R"([{"role":"tool","content":[{"type":"text","text":"See"},{"type":"image"},{"type":"text","text":"it"}],)"
      R"("tool_call_id":"1"},{"role":"user","content":[{"type":"text","text":"1:"},{"type":"image"},)"
      R"({"type":"text","text":"2:\n3"},{"type":"image"}]}])");
  EXPECT_EQ(text_of(request.images),
            "AA@messages[0].content[0].content[1] AA@messages[0].content[2] BB@messages[0].content[5] ");
  const auto refused = [](const std::string& source, const std::string& field) {
    EXPECT_EQ(error_of(messages(R"([{"type":"image","source":)" + source + "}]")).param, field) << source;
  };
  refused(R"({"type":"base64","media_type":"image/png","data":"QUE"})", "messages[0].content[0]");
  refused(R"({"type":"base64","media_type":"text/html","data":"QUE="})", "messages[0].content[0]");
  refused(R"({"type":"base64","media_type":"image/png,x;base64","data":"QUE="})", "messages[0].content[0]");
  refused(R"({"type":"base64","data":"QUE="})", "messages[0].content[0].source.media_type");
  refused(R"({"type":"base64","media_type":"image/png"})", "messages[0].content[0].source.data");
  refused(R"({"type":"url","url":"https://a/b.png"})", "messages[0].content[0]");
  refused(R"({"type":"file","file_id":"file_1"})", "messages[0].content[0].source.type");
  refused("5", "messages[0].content[0].source");
  refused("null", "messages[0].content[0].source");
}

ChatRequest ollama(const std::string& body, bool generate) {
  auto parsed = parse_ollama_request(body, generate, defaults());
  if (!parsed) {
    ADD_FAILURE() << parsed.error().message;
    return {};
  }
  return std::get<ChatRequest>(parsed->asks);
}

TEST(Images, Ollama) {
  ChatRequest request = ollama(
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"a","images":["QUE=","QkI="]}]})",
      false);
  EXPECT_EQ(request.messages.dump(),
            R"([{"role":"system","content":"S"},)"
            R"({"role":"user","content":[{"type":"image"},{"type":"image"},{"type":"text","text":"a"}]}])");
  EXPECT_EQ(text_of(request.images), "AA@messages[1].images[0] BB@messages[1].images[1] ");
  request = ollama(R"({"prompt":"a","system":"S","images":["QUE="]})", true);
  EXPECT_EQ(request.messages[1]["content"].dump(), R"([{"type":"image"},{"type":"text","text":"a"}])");
  EXPECT_EQ(text_of(request.images), "AA@images[0] ");
  EXPECT_EQ(
      ollama(R"({"messages":[{"role":"assistant","content":"a","images":[]},{"role":"user","content":"b"}]})",
             false)
          .messages[0]["content"],
      "a");
  const auto refused = [](const std::string& body, bool generate, const std::string& field) {
    EXPECT_EQ(error_of(parse_ollama_request(body, generate, defaults())).param, field) << body;
  };
  refused(R"({"messages":[{"role":"user","content":"a","images":["QUE"]}]})", false, "messages[0].images[0]");
  refused(R"({"messages":[{"role":"user","content":"a","images":["QUE=",5]}]})", false,
          "messages[0].images[1]");
  refused(R"({"messages":[{"role":"user","content":"a","images":"QUE="}]})", false, "messages[0].images");
  EXPECT_EQ(
      ollama(
          R"({"messages":[{"role":"assistant","content":"a","images":["QUE="]},{"role":"user","content":"b"}]})",
          false)
          .messages[0]["content"],
      "[image: not shown, this model reads text only]\na");
  refused(R"({"messages":[{"role":"system","content":"a","images":["QUE="]}]})", false, "messages[0].images");
  refused(R"({"prompt":"a","images":["!!!!"]})", true, "images[0]");
  refused(R"({"prompt":"a","images":["QUE="],"raw":true})", true, "images");
}

class ResponseImages : public ::testing::Test {
 protected:
  ResponseImages() {
    auto stores = SessionStores::open({});
    EXPECT_TRUE(stores.ok());
    context_ = std::make_unique<ResponseContext>(std::move(*stores), nullptr, "");
  }
  ApiResult<ResponsesRequest> read(const std::string& input, const std::string& extra = "") {
    return parse_responses_request("{\"input\":" + input + (extra.empty() ? "" : "," + extra) + "}",
                                   defaults(), *context_, "", [] { return false; });
  }
  static std::string image(const std::string& url, const std::string& extra = "") {
    return R"({"type":"input_image","image_url":")" + url + "\"" + extra + "}";
  }
  std::unique_ptr<ResponseContext> context_;
};

TEST_F(ResponseImages, StandInTheirPlaces) {
  const auto request =
      read(
          R"([{"role":"user","content":[{"type":"input_text","text":"a"},)" +
          image(kA, R"(,"detail":"low")") +
          R"(,{"type":"input_text","text":"b"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"type":"function_call","call_id":"d","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"d","output":[)" +
          image(kB) + R"(]},
      {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"},)" +
          image(kA) + "]}]")
          .value();
  EXPECT_EQ(request.chat.messages[0]["content"].dump(),
            R"([{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}])");
  EXPECT_EQ(request.chat.messages[2]["content"].dump(), R"([{"type":"text","text":"r"},{"type":"image"}])");
  EXPECT_EQ(request.chat.messages[3]["content"].dump(), R"([{"type":"image"}])");
  EXPECT_EQ(text_of(request.chat.images),
            "AA<=262144@input[0].content[1] AA@input[4].output[1] BB@input[3].output[0] ")
      << "in the order of the messages, where results stand as their calls do";
}

TEST_F(ResponseImages, ComeBackWithTheConversation) {
  auto first = read(R"([{"role":"user","content":[{"type":"input_text","text":"a"},)" +
                    image(kA, R"(,"detail":"low")") + "]}]")
                   .value();
  ASSERT_TRUE(first.keeper->begin(first.added).ok());
  ASSERT_TRUE(first.keeper->add({{{{"role", "assistant"}, {"content", "It is."}}}}).ok());
  ASSERT_TRUE(first.keeper->put_response("resp_1", {{"id", "resp_1"}}, first.input_items).ok());
  const auto next = read(R"([{"role":"user","content":[)" + image(kB) + "]}]",
                         R"("previous_response_id":"resp_1","instructions":"S")")
                        .value();
  EXPECT_EQ(next.chat.messages[1], first.chat.messages[0]);
  EXPECT_EQ(next.chat.messages[3]["content"].dump(), R"([{"type":"image"}])");
  EXPECT_EQ(text_of(next.chat.images), "AA<=262144@previous_response_id BB@input[0].content[0] ");
  EXPECT_EQ(next.added.size(), 1u);
  EXPECT_FALSE(next.added[0].message["images"][0].contains("field"));
  const auto kept = context_->stores->usual().find_response("", "resp_1");
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->input_items[0]["content"][1]["image_url"], kA);
}

TEST_F(ResponseImages, Refuse) {
  const auto refused = [&](const std::string& part, const std::string& field) {
    EXPECT_EQ(error_of(read(R"([{"role":"user","content":[)" + part + "]}]")).param, field) << part;
  };
  refused(R"({"type":"input_image","file_id":"file_1"})", "input[0].content[0].file_id");
  refused(R"({"type":"input_image"})", "input[0].content[0].image_url");
  refused(image("https://example.com/a.png"), "input[0].content[0]");
  refused(image("data:image/png;base64,QUE"), "input[0].content[0]");
  refused(image(kA, R"(,"detail":"huge")"), "input[0].content[0]");
  EXPECT_EQ(error_of(read(R"([{"role":"system","content":[)" + image(kA) + "]}]")).param, "input[0].content");
}

// Those of the turns that "truncation": "auto" leaves out go with them.
TEST_F(ResponseImages, AreCounted) {
  const auto request = read(R"([{"role":"user","content":[)" + image(kA) +
                            "]},{\"role\":\"user\",\"content\":[" + image(kB) + "]}]")
                           .value();
  EXPECT_EQ(count_images(request.chat.messages), 2u);
  EXPECT_EQ(count_images(from_turn(request.chat.messages, 1)), 1u);
}

std::string user_with(size_t count, const std::string& url) {
  std::string parts;
  for (size_t i = 0; i < count; ++i)
    parts += (i > 0 ? "," : "") + (R"({"type":"input_image","image_url":")" + url + "\"}");
  return R"({"role":"user","content":[)" + parts + "]}";
}

// Turns with so many images each: the input of a request.
std::string turns_of(const std::vector<std::pair<size_t, std::string>>& turns) {
  std::string items = R"({"role":"system","content":"S"})";
  for (const auto& [count, url] : turns)
    items += "," + user_with(count, url) + R"(,{"role":"assistant","content":"A"})";
  return "[" + items + R"(,{"role":"user","content":"last"}])";
}

TEST_F(ResponseImages, OldTurnsAreLeftOutForTheirLimit) {
  const std::string input = turns_of({{10, kA}, {30, kA}, {34, kB}}), shorten = R"("truncation":"auto")";
  const ApiError error = error_of(read(input));
  EXPECT_EQ(error.code, "limit_exceeded");
  EXPECT_EQ(error.param, "input[5].content[24]");  // the 65th
  const auto request = read(input, shorten).value();
  EXPECT_EQ(request.chat.images.size(), 64u);
  EXPECT_EQ(count_images(request.chat.messages), 64u);
  EXPECT_EQ(request.chat.messages[0]["content"], "S");
  EXPECT_EQ(request.chat.messages[1]["content"].size(), 30u);
  EXPECT_EQ(request.added.size(), 8u) << "the conversation keeps all turns";
  EXPECT_EQ(request.added[1].message["images"].size(), 10u);
  // One image more, and another turn goes.
  EXPECT_EQ(read(turns_of({{10, kA}, {31, kA}, {34, kB}}), shorten).value().chat.images.size(), 34u);
  // Nothing is left out that keeps the limit.
  EXPECT_EQ(read(turns_of({{30, kA}, {34, kB}}), shorten).value().chat.messages.size(), 6u);
}

TEST_F(ResponseImages, TurnsThatAreLeftOutStayInACompaction) {
  NewSession session;
  for (const char* text : {"one", "two"}) {
    Json images = Json::array();
    for (int i = 0; i < 40; ++i) images.push_back({{"at", 0}, {"url", kA}});
    session.messages.push_back({{{"role", "user"}, {"content", text}, {"images", images}}});
    session.messages.push_back({{{"role", "assistant"}, {"content", "A"}}});
  }
  const std::string id = context_->stores->usual().create(session)->id;
  auto request =
      read(R"("three")", R"("truncation":"auto","store":false,"conversation":")" + id + "\"").value();
  EXPECT_EQ(request.chat.images.size(), 40u);
  const Json items = take_user_messages(request);
  ASSERT_EQ(items.size(), 3u) << items.dump();
  for (const auto& [at, text] : {std::pair(0, "one"), std::pair(1, "two"), std::pair(2, "three")})
    EXPECT_EQ(items[at]["content"][0]["text"], text);
}

TEST_F(ResponseImages, StayLimitedWhereTurnsAreLeftOut) {
  const std::string shorten = R"("truncation":"auto")";
  EXPECT_EQ(error_of(read("[" + user_with(65, kA) + "]", shorten)).code, "limit_exceeded");
  EXPECT_EQ(error_of(read("[" + user_with(1, kA) + "," + user_with(65, kA) + "]", shorten)).code,
            "limit_exceeded");
  std::vector<std::pair<size_t, std::string>> many(kMaxImagesToShorten / 64, {64, kA});
  EXPECT_EQ(read(turns_of(many), shorten).value().chat.images.size(), 64u);
  many.emplace_back(1, kA);
  EXPECT_EQ(error_of(read(turns_of(many), shorten)).code, "limit_exceeded");
  // What leaves is kept by the conversation, so it must be right.
  const ApiError broken = error_of(read(turns_of({{1, "data:image/png;base64,Q"}, {64, kA}}), shorten));
  EXPECT_EQ(broken.param, "input[1].content[0]");
  EXPECT_EQ(error_of(read(turns_of({{65, kA}, {64, kA}}), shorten)).code, "limit_exceeded") << "one message";
  const std::string large =
      "data:image/png;base64," + to_base64(std::string(kMaxAllImageBytes / 8, 'x'));  // 16 MiB
  EXPECT_EQ(read(turns_of({{1, large}, {8, large}}), shorten).value().chat.images.size(), 8u);
}

// Images that a summary has replaced do not count against the limit of a prompt.
TEST_F(ResponseImages, BeforeASummaryDoNotCount) {
  const auto after = [&](const char* kind, const std::string& owner, size_t more) {
    const std::string item =
        R"({"type":"compaction","encrypted_content":")" + context_->sealer.seal("x", kind, owner) + "\"}";
    return read("[" + user_with(40, kA) + "," + user_with(40, kA) + "," + item + "," + user_with(more, kB) +
                "]");
  };
  const auto request = after("whole compaction", "", 64).value();
  EXPECT_EQ(request.chat.images.size(), 64u);
  EXPECT_EQ(request.chat.images[0].bytes, "BB");
  EXPECT_EQ(request.added.size(), 4u);
  EXPECT_EQ(error_of(after("whole compaction", "", 65)).code, "limit_exceeded");
  EXPECT_EQ(error_of(after("compaction", "", 1)).code, "limit_exceeded") << "that one replaces nothing";
  EXPECT_EQ(error_of(after("whole compaction", "bob", 1)).code, "limit_exceeded");
}

// "role: text" for each message, with byte 1 for an image.
class SeeingTemplate final : public ChatTemplate {
 public:
  Result<std::vector<PromptPiece>> render(const Json& messages, const Json&,
                                          const TemplateOptions&) const override {
    std::vector<PromptPiece> pieces;
    for (const Json& message : messages) {
      pieces.push_back({message["role"].get<std::string>() + ": ", true});
      const Json& content = message["content"];
      if (content.is_string()) pieces.push_back({content.get<std::string>(), false});
      for (const Json& part : content.is_array() ? content : Json::array())
        pieces.push_back(part["type"] == "image" ? PromptPiece{"\x01", true}
                                                 : PromptPiece{part["text"].get<std::string>(), false});
    }
    return pieces;
  }
  bool mentions(std::string_view) const override { return false; }
};

// Those that came before go with their messages.
TEST_F(ResponseImages, OfTheLastMessageStayBesideASummary) {
  FakeEngine engine;
  engine.become(std::make_shared<SeeingTemplate>(), {});
  engine.images.emplace(ImageFormat{.written = "\x01", .in_prompt = "\x01", .pad = 1});
  const auto compacted = [&](const std::string& input) {
    Preparer preparer(engine, {});
    const PlannedCompaction planned{.asking = {},
                                    .whole = make_error(ErrorKind::exhausted, "too long"),
                                    .chat = read(input).value().chat};
    return compact(planned, "S", preparer, context_->sealer, "", [] { return false; });
  };
  const std::string pixel =
      "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"
      "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const std::string talk = "[" + user_with(2, pixel) + R"(,{"role":"assistant","content":"A"},)" +
                           R"({"role":"user","content":[{"type":"input_text","text":"What is this?"},)" +
                           image(pixel) + "]}]";
  const auto seen = compacted(talk);
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  ASSERT_EQ(seen->chat.images.size(), 1u);
  EXPECT_EQ(seen->chat.images[0].field, "input[2].content[1]");
  EXPECT_EQ(count_images(seen->chat.messages), 1u);
  EXPECT_EQ(seen->prepared.images.size(), 1u);
  EXPECT_NE(dump_json(seen->chat.messages).find("What is this?"), std::string::npos);
  // If the prompt has no room for them, the summary is alone.
  engine.set_context(90);
  const auto alone = compacted(talk);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(count_images(alone->chat.messages), 0u);
  EXPECT_TRUE(alone->chat.images.empty());
}

TEST_F(ResponseImages, OldTurnsOfTheConversationAreLeftOutForTheirLimit) {
  auto first = read(turns_of({{40, kA}})).value();
  ASSERT_TRUE(first.keeper->begin(first.added).ok());
  ASSERT_TRUE(first.keeper->put_response("resp_1", {{"id", "resp_1"}}, first.input_items).ok());
  const std::string next = R"([{"role":"user","content":[)" + image(kB) + "]}]",
                    at = R"("previous_response_id":"resp_1")";
  EXPECT_EQ(read(next, at + R"(,"truncation":"auto")").value().chat.images.size(), 41u);
  const std::string more = turns_of({{30, kB}});
  EXPECT_EQ(error_of(read(more, at)).code, "limit_exceeded");
  const auto request = read(more, at + R"(,"truncation":"auto")").value();
  EXPECT_EQ(request.chat.images.size(), 30u);
  EXPECT_EQ(request.chat.images[0].bytes, "BB");
}

TEST_F(ResponseImages, AConversationOfMoreTextThanMemoryAllowsIsNotRead) {
  const std::string half = Json(std::string(17u << 20, 'x')).dump();
  std::string at;
  for (const char* id : {"resp_1", "resp_2"}) {
    auto turn = read(half, at).value();
    ASSERT_TRUE(turn.keeper->begin(turn.added).ok());
    ASSERT_TRUE(turn.keeper->put_response(id, {{"id", id}}, turn.input_items).ok());
    at = fmt::format(R"("previous_response_id":"{}")", id);
  }
  const ApiError error = error_of(read(R"("and now?")", at));
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(error.message.find("32 MiB of text"), std::string::npos) << error.message;
  EXPECT_EQ(read(R"("and now?")", R"("previous_response_id":"resp_1")").value().chat.messages.size(), 2u);
}

TEST_F(ResponseImages, FetchAtMostAPromptsImages) {
  size_t fetched = 0;
  RequestDefaults with = defaults();
  with.fetch_image = [&](const std::string&, size_t) {
    fetched++;
    return Result<std::string>("AA");
  };
  const std::string body = "{\"truncation\":\"auto\",\"input\":" +
                           turns_of({{40, "https://example.com/a.png"}, {40, "https://example.com/a.png"}}) +
                           "}";
  const auto request = parse_responses_request(body, with, *context_, "", [] { return false; });
  EXPECT_EQ(error_of(request).code, "limit_exceeded");
  EXPECT_EQ(fetched, kMaxImages);
}

class ImageRoutes : public ServerTest {};

// The fake model reads text only.
TEST_F(ImageRoutes, ModelsWithoutImagesSaySoInEveryApi) {
  const auto message_of = [](const HttpAnswer& answer) {
    const Json error = answer.json()["error"];
    return error.is_string() ? error.get<std::string>() : error["message"].get<std::string>();
  };
  const std::string content = "[" + image_url(kA) + "]";
  const std::string chat = R"({"messages":[{"role":"user","content":)" + content + "}]}";
  const std::string response = R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":")" +
                               std::string(kA) + R"("}]}]})";
  const std::string message =
      R"({"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":
      {"type":"base64","media_type":"image/png","data":"QUE="}}]}]})";
  const std::pair<const char*, std::string> cases[] = {
      {"/v1/chat/completions", chat},
      {"/apply-template", chat},
      {"/v1/responses", response},
      {"/v1/responses/input_tokens", response},
      {"/v1/messages", message},
      {"/v1/messages/count_tokens", message},
      {"/api/chat", R"({"messages":[{"role":"user","content":"a","images":["QUE="]}]})"},
      {"/api/generate", R"({"prompt":"a","images":["QUE="]})"}};
  for (const auto& [path, body] : cases) {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_NE(message_of(answer).find("This model cannot read images"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(post("/v1/chat/completions", chat).json()["error"]["param"], "messages[0].content[0]");
}

TEST_F(ImageRoutes, ModelsSayWhatTheyTake) {
  const auto inputs = [&] {
    return ask(port_, "GET", "/v1/models/fake-1b").json()["architecture"]["input_modalities"].dump();
  };
  EXPECT_EQ(inputs(), R"(["text"])");
  engine_.mutable_info().images = true;
  start({});
  EXPECT_EQ(inputs(), R"(["text","image"])");
  EXPECT_EQ(ask(port_, "GET", "/v1/models").json()["data"][0]["architecture"]["input_modalities"].size(), 2u);
  EXPECT_EQ(ask(port_, "GET", "/props").json()["modalities"].dump(), R"({"vision":true,"audio":false})");
  const Json shown = post("/api/show", R"({"model":"fake-1b"})").json()["capabilities"];
  EXPECT_EQ(shown.back(), "vision") << shown.dump();
}

// Conversations keep images for whatever model answers.
TEST_F(ImageRoutes, ConversationsKeepThem) {
  ServerOptions options;
  options.sessions.keep_responses = true;
  start(options);
  const std::string items = R"([{"role":"user","content":[{"type":"input_text","text":"a"},
      {"type":"input_image","image_url":")" +
                            std::string(kA) + R"(","detail":"low"},{"type":"input_text","text":"b"}]},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":")" +
                            kB + R"("}]}])";
  const std::string id = post("/v1/conversations", R"({"items":)" + items + "}").json()["id"];
  const Json kept = ask(port_, "GET", "/v1/conversations/" + id + "/items?order=asc").json()["data"];
  EXPECT_EQ(
      kept[0]["content"].dump(),
      R"([{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,QUE=",)"
      R"("detail":"low"},{"type":"input_text","text":"b"}])");
  EXPECT_EQ(kept[2]["output"].dump(),
            R"([{"type":"input_image","image_url":"data:image/jpeg;base64,QkI=","detail":"auto"}])");
  const Json session = ask(port_, "GET", "/v1/sessions/" + id).json();
  EXPECT_EQ(session["messages"][0]["content"], "ab");
  EXPECT_EQ(session["messages"][0]["images"].dump(),
            R"([{"at":1,"url":"data:image/png;base64,QUE=","detail":"low"}])");
  const std::string text = ask(port_, "GET", "/v1/sessions/" + id + "/export").body;
  const std::string copy = post("/v1/sessions/import", Json{{"jsonl", text}}.dump()).json()["data"][0]["id"];
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + copy).json()["messages"][2]["images"],
            session["messages"][2]["images"]);
  for (const char* wrong : {"no data URL", "data:image/png;base64,QUE", "https://example.com/a.png"})
    EXPECT_EQ(post("/v1/conversations",
                   R"({"items":[{"role":"user","content":[{"type":"input_image","image_url":")" +
                       std::string(wrong) + "\"}]}]}")
                  .status,
              400);
  for (const char* images :
       {R"("x")", R"([])", R"([5])", R"([{"url":"data:image/png;base64,QUE="}])",
        R"([{"at":2,"url":"data:image/png;base64,QUE="}])", R"([{"at":0,"url":"http://a"}])"})
    EXPECT_EQ(post("/v1/sessions/" + id + "/messages",
                   std::string(R"({"messages":[{"role":"user","content":"a","images":)") + images + "}]}")
                  .status,
              400)
        << images;
}

}  // namespace
}  // namespace anabranch::server
