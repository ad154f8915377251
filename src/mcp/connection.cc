#include "mcp/connection.h"

#include "base/clock.h"
#include "mcp/text.h"

namespace anabranch::mcp {

Patience::Patience(double s, Cancelled c) : seconds(s), until(now_seconds() + s), cancelled(std::move(c)) {}

bool Patience::over() const {
  return now_seconds() >= until || (cancelled && cancelled());
}

void Changes::take(const std::string& method) {
  if (method == "notifications/tools/list_changed") tools++;
  if (method == "notifications/resources/list_changed") resources++;
  if (method == "notifications/prompts/list_changed") prompts++;
}

Error cancelled_error(const std::string& server, const std::string& method) {
  return make_error(ErrorKind::busy, "MCP server '{}': {} was cancelled", server, method);
}

Error late_error(const std::string& server, const std::string& method, double seconds) {
  return make_error(ErrorKind::exhausted, "MCP server '{}' did not answer {} within {:g} s", server, method,
                    seconds);
}

Error server_error(const std::string& server, const std::string& method, int code, const std::string& text) {
  return make_error(ErrorKind::invalid, "MCP server '{}' refused {} (error {}): {}", server, method, code,
                    text.empty() ? "no message" : one_line(text, 500));
}

}  // namespace anabranch::mcp
