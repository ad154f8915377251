// Reads and writes texts of HTTP: addresses and dates.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace anabranch::net {

// "https://host" of an address in lower case, with ":port" unless it is the protocol's default; "": not an
// address.
std::string origin_of(const std::string& url);

// The same, always with ":port".
std::string origin_with_port(const std::string& url);

// "a%20b" -> "a b". Escapes that are not valid stay as they are.
std::string percent_decoded(const std::string& text);

// A date in any of HTTP's formats, such as "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<std::time_t> parse_http_date(const std::string& text);

}  // namespace anabranch::net
