// Traces: what a client's header means, spans as OTLP's JSON, and their way to a collector.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "raw_http_server.h"
#include "server/api/request_span.h"
#include "server/otlp/endpoint.h"
#include "server/otlp/span_exporter.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpan = "00f067aa0ba902b7";

std::string header(const std::string& flags = "01", const std::string& trace = kTrace,
                   const std::string& span = kSpan, const std::string& version = "00") {
  return version + "-" + trace + "-" + span + "-" + flags;
}

TEST(TraceParent, NamesTheSpanThatARequestBelongsTo) {
  const auto parent = parse_trace_parent(header());
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id, kTrace);
  EXPECT_EQ(parent->span_id, kSpan);
  EXPECT_TRUE(parent->sampled);
  // Only the lowest bit of the flags means that the client records the trace.
  for (const auto& [flags, sampled] :
       {std::pair("00", false), {"02", false}, {"0a", false}, {"0b", true}, {"03", true}, {"f1", true}})
    EXPECT_EQ(parse_trace_parent(header(flags))->sampled, sampled) << flags;
  EXPECT_TRUE(parse_trace_parent(header("01", kTrace, kSpan, "cc"))) << "a later version";
  EXPECT_TRUE(parse_trace_parent(header("01", kTrace, kSpan, "cc") + "-more")) << "with fields of its own";
}

TEST(TraceParent, IsIgnoredUnlessItIsValid) {
  const std::string zeros(32, '0');
  for (const std::string& text : {
           std::string(),
           std::string("00"),
           header("0"),
           header("011"),
           header("0g"),
           header() + "-more",  // version 00 has no further fields
           header() + " ",
           header("01", kTrace, kSpan, "ff"),
           header("01", kTrace, kSpan, "0G"),
           header("01", kTrace, kSpan, "cc") + "more",
           header("01", zeros),
           header("01", kTrace, zeros.substr(16)),
           header("01", "4BF92F3577B34DA6A3CE929D0E0E4736"),
           header("01", kTrace, "00F067AA0BA902B7"),
           header("01", "4bf92f3577b34da6a3ce929d0e0e473"),
           header("01", kTrace, "00f067aa0ba902b7a"),
           std::string("00_") + header().substr(3),
       })
    EXPECT_FALSE(parse_trace_parent(text)) << text;
}

// A chat of 2.5 s that ended at 1,000 s after 1970, and at 50 s of the monotonic clock.
struct Ended {
  RequestName name{"POST", "/v1/chat/completions?key=secret", "req_1", ""};
  AnswerNote note;
  int status = 200;
  bool cut_off = false;
  std::optional<TraceParent> parent;

  Ended() {
    note.id = "chatcmpl-1";
    note.model = "real-7b";
    note.asked_model = "asked";
    note.prompt_tokens = 12;
    note.cached_tokens = 5;
    note.completion_tokens = 3;
    note.max_tokens = 64;
    note.temperature = 0.7f;
    note.top_p = 1.0f;
    note.submitted = 47.75;
    note.started = 48;
    note.first_tokens = 49.5;
    note.finish = {"stop", "length"};
  }
  std::optional<Span> span() const {
    return request_span({name, name.target.substr(0, name.target.find('?')), "203.0.113.1", "alice", status,
                         2.5, cut_off, &note, parent},
                        {1'000'000'000'000, 50});
  }
  Json attribute(const char* key) const { return span()->attributes.value(key, Json()); }
};

TEST(RequestSpan, IsWrittenAsOtlpHasIt) {
  Ended ended;
  ended.parent = parse_trace_parent(header());
  Span span = *ended.span();
  span.id = "0123456789abcdef";
  const std::string expected =
      R"({"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"0123456789abcdef",)"
      R"("parentSpanId":"00f067aa0ba902b7","name":"chat asked","kind":2,)"
      R"("startTimeUnixNano":"997500000000","endTimeUnixNano":"1000000000000","attributes":[)"
      R"({"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},)"
      R"({"key":"gen_ai.provider.name","value":{"stringValue":"anabranch"}},)"
      R"({"key":"gen_ai.request.model","value":{"stringValue":"asked"}},)"
      R"({"key":"gen_ai.request.max_tokens","value":{"intValue":"64"}},)"
      R"({"key":"gen_ai.request.temperature","value":{"doubleValue":0.7}},)"
      R"({"key":"gen_ai.request.top_p","value":{"doubleValue":1.0}},)"
      R"({"key":"gen_ai.response.model","value":{"stringValue":"real-7b"}},)"
      R"({"key":"gen_ai.response.id","value":{"stringValue":"chatcmpl-1"}},)"
      R"({"key":"gen_ai.response.finish_reasons","value":{"arrayValue":{"values":[)"
      R"({"stringValue":"stop"},{"stringValue":"length"}]}}},)"
      R"({"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}},)"
      R"({"key":"gen_ai.usage.output_tokens","value":{"intValue":"3"}},)"
      R"({"key":"gen_ai.usage.cache_read.input_tokens","value":{"intValue":"5"}},)"
      R"({"key":"anabranch.cached_tokens","value":{"intValue":"5"}},)"
      R"({"key":"http.request.method","value":{"stringValue":"POST"}},)"
      R"({"key":"http.route","value":{"stringValue":"/v1/chat/completions"}},)"
      R"({"key":"url.path","value":{"stringValue":"/v1/chat/completions"}},)"
      R"({"key":"http.response.status_code","value":{"intValue":"200"}},)"
      R"({"key":"anabranch.request_id","value":{"stringValue":"req_1"}}],)"
      R"("events":[{"timeUnixNano":"997750000000","name":"anabranch.submitted"},)"
      R"({"timeUnixNano":"998000000000","name":"anabranch.started"},)"
      R"({"timeUnixNano":"999500000000","name":"anabranch.first_tokens"}]})";
  EXPECT_EQ(span_json(span), expected);
  EXPECT_EQ(spans_body("1.2", {"{}", R"({"a":1})"}),
            R"({"resourceSpans":[{"resource":{"attributes":[)"
            R"({"key":"service.name","value":{"stringValue":"anabranch"}},)"
            R"({"key":"service.version","value":{"stringValue":"1.2"}}]},"scopeSpans":[)"
            R"({"scope":{"name":"anabranch","version":"1.2"},"spans":[{},{"a":1}]}]}]})");
}

TEST(RequestSpan, TellsHowARequestFailed) {
  Ended ended;
  EXPECT_EQ(ended.attribute("error.type"), Json());
  EXPECT_FALSE(ended.span()->failed);
  ended.cut_off = true;
  EXPECT_EQ(ended.attribute("error.type"), "cancelled");
  EXPECT_FALSE(ended.span()->failed) << "the client left";
  ended.status = 0;
  EXPECT_EQ(ended.attribute("http.response.status_code"), Json());
  ended.cut_off = false;
  ended.status = 200;
  ended.note.error = "engine_error";
  EXPECT_EQ(ended.attribute("error.type"), "engine_error");
  EXPECT_TRUE(ended.span()->failed) << "a stream that had begun";
  ended.status = 404;
  EXPECT_FALSE(ended.span()->failed) << "the request was wrong";
  ended.note.error.clear();
  EXPECT_EQ(ended.attribute("error.type"), "404");
  ended.status = 500;
  EXPECT_EQ(ended.attribute("error.type"), "500");
  EXPECT_TRUE(ended.span()->failed);
}

TEST(RequestSpan, LeavesOutWhatIsNotKnown) {
  Ended ended;
  ended.note = {};
  ended.note.asked_model = "asked";
  ended.status = 400;
  const Span span = *ended.span();
  EXPECT_EQ(span.name, "chat asked");
  for (const char* key : {"gen_ai.response.model", "gen_ai.response.id", "gen_ai.usage.input_tokens",
                          "gen_ai.request.max_tokens", "gen_ai.request.temperature"})
    EXPECT_FALSE(span.attributes.contains(key)) << key;
  EXPECT_TRUE(span.events.empty());
  EXPECT_EQ(span_json(span).find("parentSpanId"), std::string::npos);
  ended.note.asked_model.clear();
  EXPECT_EQ(ended.span()->name, "chat");
  ended.note.model = "real-7b";
  EXPECT_EQ(ended.span()->name, "chat real-7b");
}

TEST(RequestSpan, IsOnlyMadeForAnswersOfRecordedTraces) {
  Ended ended;
  ended.parent = parse_trace_parent(header("00"));
  EXPECT_FALSE(ended.span()) << "the client does not record it";
  ended.parent.reset();
  for (const auto& [method, target, name] :
       std::initializer_list<std::array<const char*, 3>>{{"POST", "/v1/messages", "chat"},
                                                         {"POST", "/api/chat", "chat"},
                                                         {"POST", "/v1/responses/", "chat"},
                                                         {"POST", "/v1/completions", "text_completion"},
                                                         {"POST", "/v1/embeddings", "embeddings"},
                                                         {"POST", "/v1/rerank", "rerank"},
                                                         {"GET", "/v1/chat/completions", ""},
                                                         {"POST", "/v1/messages/count_tokens", ""},
                                                         {"POST", "/tokenize", ""},
                                                         {"GET", "/health", ""},
                                                         {"POST", "/nothing", ""},
                                                         {"", "", ""}}) {
    ended.name.method = method;
    ended.name.target = target;
    const auto span = ended.span();
    EXPECT_EQ(span ? span->attributes["gen_ai.operation.name"].get<std::string>() : "", name) << target;
  }
}

TEST(OtlpEndpoint, IsTheCollectorsAddressAndHeaders) {
  for (const char* url :
       {"http://collector:4318", "http://collector:4318/", "http://collector:4318/v1/traces"})
    EXPECT_EQ(otlp_endpoint(url, "")->url, "http://collector:4318/v1/traces");
  EXPECT_EQ(otlp_endpoint("https://u:p@c/otlp", "")->url, "https://u:p@c/otlp/v1/traces");
  const auto headers =
      otlp_endpoint("http://c", " api-key = a%20b%2Cc ,,x=,Authorization=Basic%20dTpw=,")->headers;
  const std::map<std::string, std::string> expected = {
      {"api-key", "a b,c"}, {"x", ""}, {"Authorization", "Basic dTpw="}};
  EXPECT_EQ(headers, expected);
}

TEST(OtlpEndpoint, RefusesOthersWithoutTellingSecrets) {
  for (const char* url : {"collector:4318", "localhost", "grpc://u:secret@c", "file:///secret", "http://",
                          "http://c?key=secret", "http://c#secret", "http://u:secret@c:x"})
    EXPECT_EQ(otlp_endpoint(url, "").error().message.find("secret"), std::string::npos) << url;
  for (const char* headers : {"secret", "=secret", "a b=secret", "a=secret%0d%0ax: y", "a=1,secret"}) {
    const auto endpoint = otlp_endpoint("http://c", headers);
    ASSERT_FALSE(endpoint) << headers;
    EXPECT_EQ(endpoint.error().message.find("secret"), std::string::npos) << headers;
  }
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(condition());
}

SpanExporter::Limits quick() {
  return {.waiting = 6, .batch = 4, .delay_s = 0.02, .request_s = 30, .last_words_s = 0.3};
}

// The spans of a collector's request.
Json spans_of(const RawHttpServer::Request& request) {
  return Json::parse(request.body)["resourceSpans"][0]["scopeSpans"][0]["spans"];
}

TEST(SpanExporter, SendsBatchesWithIdsOfTheirOwn) {
  RawHttpServer collector([](const auto&, const auto& send) { send(http_answer("{}")); });
  SpanExporter exporter(*otlp_endpoint(collector.url(), "api-key=k1"), "1.2", quick());
  for (int i = 0; i < 6; ++i) exporter.add({.name = "chat"});
  wait_until([&] { return exporter.counts().sent == 6; });
  exporter.add({.trace_id = kTrace, .parent_id = kSpan, .name = "chat"});
  wait_until([&] { return exporter.counts().sent == 7; });
  EXPECT_EQ(exporter.counts().dropped, 0u);
  std::set<std::string> traces, ids;
  for (const auto& request : collector.requests()) {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v1/traces");
    EXPECT_EQ(request.field("Content-Type"), "application/json");
    EXPECT_EQ(request.field("api-key"), "k1");
    EXPECT_LE(spans_of(request).size(), 4u);
    for (const Json& span : spans_of(request)) {
      traces.insert(span["traceId"].get<std::string>());
      ids.insert(span["spanId"].get<std::string>());
    }
  }
  EXPECT_EQ(traces.size(), 7u);
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_TRUE(traces.contains(kTrace));
  for (const std::string& trace : traces) EXPECT_TRUE(parse_trace_parent(header("01", trace, *ids.begin())));
}

TEST(SpanExporter, SendsWhatWaitsAtItsEnd) {
  RawHttpServer collector([](const auto&, const auto& send) { send(http_answer("{}")); });
  auto limits = quick();
  limits.delay_s = 1000;
  limits.last_words_s = 30;
  { SpanExporter(*otlp_endpoint(collector.url(), ""), "1.2", limits).add({.name = "chat"}); }
  ASSERT_EQ(collector.requests().size(), 1u);
  EXPECT_EQ(spans_of(collector.requests()[0])[0]["name"], "chat");
}

TEST(SpanExporter, CountsWhatACollectorRefuses) {
  RawHttpServer collector([](const auto&, const auto& send) { send(http_answer("", "", "503 Busy")); });
  SpanExporter exporter(*otlp_endpoint(collector.url(), ""), "1.2", quick());
  exporter.add({});
  wait_until([&] { return exporter.counts().dropped == 1; });
  EXPECT_EQ(exporter.counts().sent, 0u);
}

TEST(SpanExporter, TellsOfACollectorWithoutTheSecretsOfItsAddress) {
  std::atomic<bool> busy{true};
  RawHttpServer collector([&](const auto&, const auto& send) {
    send(busy ? http_answer("", "", "503 Busy") : http_answer("{}"));
  });
  std::string url = collector.url();
  url.insert(url.find("://") + 3, "user:passes@");
  set_log_level(LogLevel::info);
  ::testing::internal::CaptureStderr();
  {
    SpanExporter exporter(*otlp_endpoint(url + "/hidden", ""), "1.2", quick());
    exporter.add({});
    wait_until([&] { return exporter.counts().dropped == 1; });
    busy = false;
    exporter.add({});
    wait_until([&] { return exporter.counts().sent == 1; });
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::warning);
  EXPECT_NE(log.find("traces cannot be sent to " + collector.url()), log.npos) << log;
  EXPECT_NE(log.find("traces are sent to " + collector.url() + " again"), log.npos) << log;
  for (const char* secret : {"user", "passes", "hidden"}) EXPECT_EQ(log.find(secret), log.npos) << log;
}

TEST(SpanExporter, NeitherWaitsForNorKeepsEverythingForASilentCollector) {
  std::atomic<bool> left{false};
  RawHttpServer collector([&](const auto&, const auto&) {
    while (!left) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  double begun = 0;
  {
    SpanExporter exporter(*otlp_endpoint(collector.url(), ""), "1.2", quick());
    for (int i = 0; i < 4; ++i) exporter.add({});
    wait_until([&] { return collector.requests().size() == 1; });
    begun = now_seconds();
    for (int i = 0; i < 10; ++i) exporter.add({});
    EXPECT_LT(now_seconds() - begun, quick().request_s / 2);
    EXPECT_EQ(exporter.counts().dropped, 4u) << "four are under way and six wait";
    begun = now_seconds();
  }
  EXPECT_LT(now_seconds() - begun, quick().request_s / 2) << "not as long as a request may take";
  left = true;
}

class Traces : public ServerTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.otlp = *otlp_endpoint(collector_.url(), "");
    start(options);
  }
  // The spans that came, once there are so many.
  std::vector<Json> spans(size_t count) {
    std::vector<Json> found;
    wait_until([&] {
      found.clear();
      for (const auto& request : collector_.requests())
        for (const Json& span : spans_of(request)) found.push_back(span);
      return found.size() >= count;
    });
    return found;
  }

  RawHttpServer collector_{[](const auto&, const auto& send) { send(http_answer("{}")); }};
};

Json attribute(const Json& span, const std::string& key) {
  for (const Json& each : span["attributes"])
    if (each["key"] == key) return each["value"];
  return {};
}

TEST_F(Traces, TellOfAnswersAndTheirErrors) {
  const std::string chat =
      R"({"model":"fake-1b","messages":[{"role":"user","content":"hidden words"}],"temperature":0.5})";
  const auto post_chat = [&](const std::string& body, const std::string& headers) {
    return ask(port_, "POST", "/v1/chat/completions", body, headers).status;
  };
  const auto first = ask(port_, "POST", "/v1/chat/completions", chat,
                         "traceparent: " + header() + "\r\nx-request-id: mine\r\n");
  ASSERT_EQ(first.status, 200);
  EXPECT_EQ(post_chat(chat, "traceparent: " + header("00") + "\r\n"), 200);  // not recorded
  EXPECT_EQ(post_chat(chat, "traceparent: " + header() + "\r\ntraceparent: " + header() + "\r\n"), 200);
  EXPECT_EQ(post_chat(R"({"model":"fake-1b","messages":[],"max_tokens":"hidden"})", ""), 400);
  EXPECT_EQ(ask(port_, "GET", "/health").status, 200);
  const auto found = spans(3);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]["traceId"], kTrace);
  EXPECT_EQ(found[0]["parentSpanId"], kSpan);
  EXPECT_EQ(found[0]["name"], "chat fake-1b");
  EXPECT_EQ(attribute(found[0], "anabranch.request_id")["stringValue"], "mine");
  EXPECT_EQ(attribute(found[0], "gen_ai.request.temperature")["doubleValue"], 0.5);
  const int tokens = first.json()["usage"]["completion_tokens"];
  EXPECT_EQ(attribute(found[0], "gen_ai.usage.output_tokens")["intValue"], std::to_string(tokens));
  EXPECT_EQ(attribute(found[0], "anabranch.cached_tokens")["intValue"], "3");
  EXPECT_EQ(found[0]["events"].size(), 3u);
  EXPECT_EQ(attribute(found[0], "gen_ai.response.finish_reasons")["arrayValue"]["values"][0]["stringValue"],
            "stop");
  EXPECT_NE(found[1]["traceId"], kTrace) << "two headers are not valid";
  EXPECT_FALSE(found[1].contains("parentSpanId"));
  EXPECT_EQ(attribute(found[2], "http.response.status_code")["intValue"], "400");
  EXPECT_EQ(attribute(found[2], "gen_ai.request.model")["stringValue"], "fake-1b");
  EXPECT_EQ(attribute(found[2], "gen_ai.response.model"), Json());
  for (const auto& request : collector_.requests()) {
    EXPECT_EQ(request.body.find("hidden"), std::string::npos);
    EXPECT_EQ(request.body.find("world"), std::string::npos);  // of the answer
  }
}

TEST_F(Traces, TellOfStreamsThatBreakOff) {
  engine_.script = [](const Request&) {
    return Script{{"a", "b"}, std::chrono::milliseconds(1), FinishReason::error, "hidden"};
  };
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","stream":true})").status, 200);
  const auto found = spans(1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["name"], "text_completion fake-1b");
  EXPECT_EQ(attribute(found[0], "error.type")["stringValue"], "engine_error");
  EXPECT_EQ(attribute(found[0], "http.response.status_code")["intValue"], "200");
  EXPECT_EQ(attribute(found[0], "gen_ai.response.finish_reasons"), Json());
  EXPECT_EQ(found[0]["status"]["code"], 2);
  EXPECT_EQ(collector_.requests()[0].body.find("hidden"), std::string::npos);
}

TEST_F(Traces, TellOfEmbeddings) {
  post("/v1/embeddings", R"({"model":"asked","input":"hidden words"})");
  const auto found = spans(1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["name"], "embeddings asked");
  EXPECT_EQ(attribute(found[0], "gen_ai.response.id"), Json());
  EXPECT_EQ(collector_.requests()[0].body.find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace anabranch::server
