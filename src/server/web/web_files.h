// The web page: files of this folder that are embedded in the program (deps.cmake), both uncompressed and
// compressed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anabranch::server {

// The page loads nothing from elsewhere, runs no script but its own files, and cannot be shown inside another
// page. Markup reaches the page through DOMPurify only, and the only worker is the one for PDF files (Trusted
// Types).
constexpr std::string_view kWebPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify pdf-worker";

struct WebFile {
  std::string_view path;  // below src/server/web
  std::string_view content_type;
  std::string_view raw, gzip;
  std::string_view etag;  // in quotes; of the raw bytes
};

// path: such as "main.js" or "vendor/marked.js". Null: there is no such file.
const WebFile* find_web_file(std::string_view path);

// The answer to a request for a file. Empty header values mean that the request has no such header.
struct WebAnswer {
  int status = 200;  // or 304
  std::string_view body;
  std::vector<std::pair<std::string, std::string>> headers;  // without Content-Type and Content-Length
};
WebAnswer answer_with(const WebFile& file, std::string_view accept_encoding, std::string_view if_none_match);

// Whether a header "Accept" asks for a page, as browsers do and programs do not.
bool wants_page(std::string_view accept);

}  // namespace anabranch::server
