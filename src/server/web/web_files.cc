#include "server/web/web_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/lower_case.h"
#include "base/white_space.h"
#include "server/web/web_table.h"

namespace anabranch::server {
namespace {

// FNV-1a: the tag only has to change when the file does.
std::string tag_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("\"{:016x}\"", hash);
}

std::string_view type_of(std::string_view path) {
  const std::string_view end = path.substr(path.rfind('.') + 1);
  if (end == "html") return "text/html; charset=utf-8";
  if (end == "js") return "text/javascript; charset=utf-8";
  if (end == "css") return "text/css; charset=utf-8";
  if (end == "svg") return "image/svg+xml";
  if (end == "woff2") return "font/woff2";
  return "text/plain; charset=utf-8";  // licences
}

const std::vector<WebFile>& files() {
  static const std::vector<std::string> tags = [] {
    std::vector<std::string> tags;
    for (const EmbeddedFile& file : embedded_files()) tags.push_back(tag_of(file.raw));
    return tags;
  }();
  static const std::vector<WebFile> files = [] {
    std::vector<WebFile> files;
    for (const EmbeddedFile& file : embedded_files())
      files.push_back({file.path, type_of(file.path), file.raw, file.gzip, tags[files.size()]});
    return files;
  }();
  return files;
}

// Calls visit(element, parameters) for each element of a header's list: "gzip;q=0.5, br" has "gzip" with
// "q=0.5", and "br".
template <typename Visit>
void for_each_element(std::string_view list, Visit visit) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view one = list.substr(0, end);
    const size_t semicolon = std::min(one.find(';'), one.size());
    visit(trimmed(one.substr(0, semicolon)), one.substr(std::min(semicolon + 1, one.size())));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

// Whether the parameters have a weight of 0, which means that the client refuses the element.
bool refused(std::string_view parameters) {
  std::string text = lower_case(parameters);
  std::erase(text, ' ');
  const size_t at = text.find("q=0");
  return at != text.npos && text.find_first_of("123456789", at + 3) == text.npos;
}

bool accepts_gzip(std::string_view accept_encoding) {
  bool accepted = false;
  for_each_element(lower_case(accept_encoding), [&](std::string_view coding, std::string_view parameters) {
    if (coding == "gzip" || coding == "x-gzip") accepted = !refused(parameters);
  });
  return accepted;
}

bool matches(std::string_view if_none_match, std::string_view etag) {
  bool found = false;
  for_each_element(if_none_match, [&](std::string_view tag, std::string_view) {
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    found = found || tag == etag || tag == "*";
  });
  return found;
}

}  // namespace

const WebFile* find_web_file(std::string_view path) {
  const auto found = std::ranges::find(files(), path, &WebFile::path);
  return found == files().end() ? nullptr : &*found;
}

WebAnswer answer_with(const WebFile& file, std::string_view accept_encoding, std::string_view if_none_match) {
  const bool gzip = accepts_gzip(accept_encoding);
  std::string etag(file.etag);
  if (gzip) etag.insert(etag.size() - 1, "-gzip");  // other bytes need another tag
  WebAnswer answer;
  answer.headers = {{"Content-Security-Policy", std::string(kWebPolicy)},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cross-Origin-Resource-Policy", "same-origin"},
                    {"Cache-Control", "no-cache"},  // the browser asks each time, and mostly gets 304
                    {"Vary", "Accept, Accept-Encoding"},
                    {"ETag", etag}};
  if (matches(if_none_match, etag)) {
    answer.status = 304;
    return answer;
  }
  if (gzip) answer.headers.emplace_back("Content-Encoding", "gzip");
  answer.body = gzip ? file.gzip : file.raw;
  return answer;
}

bool wants_page(std::string_view accept) {
  bool wanted = false;
  for_each_element(lower_case(accept), [&](std::string_view type, std::string_view parameters) {
    if (type == "text/html") wanted = !refused(parameters);
  });
  return wanted;
}

}  // namespace anabranch::server
