// Requests from bytes: whatever portions they come in, the same requests and the same faults.
#include <gtest/gtest.h>

#include "server/http/parser.h"

namespace anabranch::server {
namespace {

using State = RequestParser::State;

struct Parsed {
  State state = State::head;
  std::string what;  // method, target, headers and body; or the fault
  size_t used = 0;

  bool operator==(const Parsed& other) const {
    return state == other.state && what == other.what && used == other.used;
  }
};

Parsed parse(std::string_view text, size_t step) {
  RequestParser parser(2000, 100);
  Parsed result;
  while (parser.state() == State::head || parser.state() == State::body) {
    const State before = parser.state();
    const size_t n = parser.take(text.substr(result.used, step));
    result.used += n;
    if (n == 0 && parser.state() == before && result.used == text.size()) break;
  }
  result.state = parser.state();
  if (parser.state() == State::failed) {
    result.what = fmt::format("{} {}", parser.fault().status, parser.fault().message);
    result.used = 0;  // how far it had to look depends on the portions
    return result;
  }
  const HttpRequest& request = parser.request();
  result.what = request.method + " " + request.target;
  for (const auto& [name, value] : request.headers) result.what += fmt::format(" {}={}", name, value);
  result.what += " [" + request.body + "]" + (parser.keep_alive() ? "" : " close");
  return result;
}

// As parsed whole and by the byte, if both agree.
Parsed parse(std::string_view text) {
  const Parsed whole = parse(text, text.size() + 1);
  for (const size_t step : {1u, 2u, 3u, 7u}) EXPECT_EQ(parse(text, step), whole) << text << " by " << step;
  return whole;
}

TEST(RequestParser, TakesWhatARequestIs) {
  const auto done = [](std::string_view request, std::string_view what) {
    const Parsed parsed = parse(std::string(request) + "GET /next");
    EXPECT_EQ(parsed.state, State::done) << request << parsed.what;
    EXPECT_EQ(parsed.what, what);
    EXPECT_EQ(parsed.used, request.size()) << request;
  };
  done("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / host=a []");
  done("\r\nGET / HTTP/1.1\r\nHost:a\r\n\r\n", "GET / host=a []");
  done("\r\nP / HTTP/1.1\r\nHost:a\r\nContent-Length: 1\r\n\r\na", "P / host=a content-length=1 [a]");
  done("GET / HTTP/1.0\r\n\r\n", "GET / [] close");
  done("GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", "GET / connection=x, Keep-Alive []");
  done("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", "GET / host=a connection=Close [] close");
  done("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc",
       "PUT /x host=a content-length=003 [abc]");
  done("A / HTTP/1.1\r\nHost: a\r\nX: \t a\tb\xff \r\nX:\r\n\r\n", "A / host=a x=a\tb\xff x= []");
  done(
      "P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n2\r\nab\r\n01;x=\"y\"\r\nc\r\n0 ;z\r\nT: "
      "u\r\n\r\n",
      "P / host=a transfer-encoding=CHUNKED [abc]");
}

TEST(RequestParser, LimitsWhatItTakes) {
  const std::string head = "P / HTTP/1.1\r\nHost: a\r\n",
                    chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  const auto status = [](const std::string& text) { return parse(text).what.substr(0, 3); };
  EXPECT_EQ(status(head + "X: " + std::string(2000, 'x')), "431");
  EXPECT_EQ(status(head + "Content-Length: 101\r\n\r\n"), "413");
  EXPECT_EQ(status(head + "Content-Length: 99999999999999999999999999\r\n\r\n"), "413");
  EXPECT_EQ(status(chunked + "65\r\n"), "413");
  EXPECT_EQ(status(chunked + "32\r\n" + std::string(50, 'x') + "\r\n33\r\n"), "413");
  EXPECT_EQ(status(chunked + "ffffffffffffffff\r\n"), "413");
  EXPECT_EQ(status(chunked + "10000000000000000\r\n"), "400");
  EXPECT_EQ(status(chunked + "1;" + std::string(600, 'x')), "400");
  EXPECT_EQ(status(chunked + "0\r\nT: " + std::string(2000, 'x')), "431");
  EXPECT_EQ(parse(chunked + "64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n").state, State::done);
}

// Where proxies and servers could disagree about the end of a request, there is none.
TEST(RequestParser, ARequestHasOneLength) {
  const std::string head = "P / HTTP/1.1\r\nHost: a\r\n", length = "Content-Length: 1\r\n",
                    chunked = "Transfer-Encoding: chunked\r\n";
  const auto status = [](const std::string& text) { return parse(text + "\r\na").what.substr(0, 3); };
  EXPECT_EQ(parse(head + length + "\r\na").state, State::done);
  EXPECT_EQ(status(head + length + length), "400") << "even if both say the same";
  EXPECT_EQ(status(head + length + "Content-Length: 2\r\n"), "400");
  EXPECT_EQ(status(head + length + chunked), "400");
  EXPECT_EQ(status(head + chunked + length), "400");
  EXPECT_EQ(status(head + chunked + chunked), "400");
  EXPECT_EQ(status(head + "Transfer-Encoding: gzip, chunked\r\n"), "400");
  for (const char* bad : {"1, 1", "+1", "-1", "0x1", "1 1", ""})
    EXPECT_EQ(status(head + "Content-Length: " + bad + "\r\n"), "400") << bad;
  EXPECT_EQ(status("P / HTTP/1.0\r\n" + chunked), "400");
  EXPECT_EQ(status(head + "Host: b\r\n"), "400");
}

TEST(RequestParser, ManySmallPartsHaveTheLimitsOfLargeOnes) {
  const std::string head = "P / HTTP/1.1\r\nHost: a\r\n",
                    chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  std::string chunks, trailers, fields;
  for (int i = 0; i < 100; ++i) chunks += "1\r\nx\r\n";
  for (int i = 0; i < 700; ++i) trailers += "T:\r\n";
  for (int i = 0; i < 700; ++i) fields += "F:\r\n";
  const Parsed whole = parse(chunked + chunks + "0\r\n\r\n");
  EXPECT_EQ(whole.state, State::done);
  EXPECT_NE(whole.what.find("[" + std::string(100, 'x') + "]"), std::string::npos);
  EXPECT_EQ(parse(chunked + chunks + "1\r\n").what.substr(0, 3), "413");
  EXPECT_EQ(parse(chunked + "0\r\n" + trailers).what.substr(0, 3), "431");
  EXPECT_EQ(parse(head + fields).what.substr(0, 3), "431");
}

TEST(RequestParser, AnEmptyLineDoesNotBeginARequest) {
  RequestParser parser(2000, 100);
  EXPECT_EQ(parser.skip_empty_line(""), 0u);
  EXPECT_EQ(parser.skip_empty_line("\r"), 1u);
  EXPECT_EQ(parser.skip_empty_line("\nGET"), 1u);
  EXPECT_EQ(parser.skip_empty_line("\r\nGET"), 0u);  // one only
  EXPECT_EQ(parser.state(), State::head);
}

TEST(RequestParser, SeesFaultsAtOnce) {
  for (const char* bad :
       {"\x16\x03\x01", "\n", " GET", "\rG", "\r\n\r\n", "\r\n\n", "GET / HTTP/1.1\n", "{"}) {
    RequestParser parser(2000, 100);
    parser.take(bad);
    EXPECT_EQ(parser.state(), State::failed) << bad;
  }
}

}  // namespace
}  // namespace anabranch::server
