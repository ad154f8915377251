#include "server/web/web_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace anabranch::server {
namespace {

std::string header(const WebAnswer& answer, std::string_view name) {
  const auto found = std::ranges::find(answer.headers, name, [](const auto& header) { return header.first; });
  return found == answer.headers.end() ? "" : found->second;
}

TEST(WebFiles, ThePageIsPartOfTheProgram) {
  const WebFile* page = find_web_file("index.html");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(page->raw.starts_with("<!doctype html>"));
  EXPECT_TRUE(page->raw.ends_with("</html>\n"));
  EXPECT_TRUE(page->gzip.starts_with("\x1f\x8b"));
  EXPECT_LT(page->gzip.size(), page->raw.size());
  EXPECT_EQ(find_web_file("main.js")->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(find_web_file("base.css")->content_type, "text/css; charset=utf-8");
  EXPECT_TRUE(find_web_file("vendor/purify.js"));
  EXPECT_EQ(find_web_file("vendor/purify.LICENSE")->content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(find_web_file("vendor/fonts/KaTeX_Main-Regular.woff2")->content_type, "font/woff2");
}

TEST(WebFiles, NothingElseIs) {
  for (const char* path :
       {"", "/index.html", "../api/docs.html", "vendor", "vendor/", "web_files.cc", "deps.cmake"})
    EXPECT_FALSE(find_web_file(path)) << path;
}

TEST(WebFiles, AnswersAreCompressedForThoseWhoAcceptIt) {
  const WebFile& file = *find_web_file("main.js");
  for (const char* accepted : {"gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "x-gzip"}) {
    const WebAnswer answer = answer_with(file, accepted, "");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, file.gzip) << accepted;
    EXPECT_EQ(header(answer, "Content-Encoding"), "gzip");
  }
  for (const char* refused : {"", "identity", "br", "gzip;q=0", "gzip; q=0.000"}) {
    const WebAnswer answer = answer_with(file, refused, "");
    EXPECT_EQ(answer.body, file.raw) << refused;
    EXPECT_EQ(header(answer, "Content-Encoding"), "");
  }
}

TEST(WebFiles, AnUnchangedFileIsNotSentAgain) {
  const WebFile& file = *find_web_file("main.js");
  const std::string plain = header(answer_with(file, "", ""), "ETag");
  const std::string packed = header(answer_with(file, "gzip", ""), "ETag");
  EXPECT_NE(plain, packed);
  EXPECT_NE(plain, header(answer_with(*find_web_file("chat.js"), "", ""), "ETag"));
  for (const std::string& known : {packed, "W/" + packed, "\"other\", " + packed, std::string("*")}) {
    const WebAnswer answer = answer_with(file, "gzip", known);
    EXPECT_EQ(answer.status, 304) << known;
    EXPECT_TRUE(answer.body.empty());
    EXPECT_EQ(header(answer, "ETag"), packed);
  }
  EXPECT_EQ(answer_with(file, "gzip", plain).status, 200);
  EXPECT_EQ(answer_with(file, "", packed).status, 200);
}

TEST(WebFiles, EachAnswerCarriesThePolicy) {
  for (const WebAnswer& answer : {answer_with(*find_web_file("index.html"), "", ""),
                                  answer_with(*find_web_file("main.js"), "gzip", "*")}) {
    const std::string policy = header(answer, "Content-Security-Policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'; "));
    EXPECT_EQ(policy.find("unsafe"), policy.npos);
    EXPECT_EQ(header(answer, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(header(answer, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(header(answer, "Cache-Control"), "no-cache");
    EXPECT_NE(header(answer, "Vary").find("Accept-Encoding"), std::string::npos);
  }
}

TEST(WebFiles, BrowsersGetThePageAndProgramsTheText) {
  EXPECT_TRUE(wants_page("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
  EXPECT_FALSE(wants_page("*/*"));
  EXPECT_FALSE(wants_page(""));
  EXPECT_FALSE(wants_page("application/json, text/html;q=0"));
}

// What a browser loads before the first message: everything but the libraries for colours and formulas.
TEST(WebFiles, TheFirstLoadIsSmall) {
  size_t total = 0;
  for (const char* path : {"index.html",
                           "base.css",
                           "chat.css",
                           "turns.css",
                           "prose.css",
                           "theme.js",
                           "main.js",
                           "api.js",
                           "activity.js",
                           "answer_run.js",
                           "bodies.js",
                           "chat.js",
                           "composer.js",
                           "consent.js",
                           "conversation.js",
                           "dialogs.js",
                           "dom.js",
                           "enrich.js",
                           "files.js",
                           "format.js",
                           "item_view.js",
                           "markdown.js",
                           "plots.js",
                           "server_store.js",
                           "settings.js",
                           "settings_panel.js",
                           "shortcuts.js",
                           "sidebar.js",
                           "streamed_text.js",
                           "tab_store.js",
                           "theme_switch.js",
                           "transcript.js",
                           "troubles.js",
                           "turn_view.js",
                           "icon.svg",
                           "vendor/marked.js",
                           "vendor/purify.js",
                           "completion_run.js",
                           "markdown_syntax.js",
                           "outside_text.js",
                           "pdf_text.js"}) {
    ASSERT_TRUE(find_web_file(path)) << path;
    total += find_web_file(path)->gzip.size();
  }
  EXPECT_LT(total, 100'000U);
}

}  // namespace
}  // namespace anabranch::server
