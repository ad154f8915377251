// What a server of tools sends: messages, results, names; and the configuration file.
#include <cstdlib>
#include <string_view>

#include "base/event_stream.h"
#include "mcp/config.h"
#include "mcp/content.h"
#include "mcp/line_reader.h"
#include "mcp/message.h"
#include "mcp/text.h"
#include "mcp/toolbox.h"

using namespace anabranch;

namespace {

void must(bool good) {
  if (!good) std::abort();
}

void check_text(std::string_view text) {
  const std::string shown = mcp::printable(text);
  must(mcp::printable(shown) == shown);
  for (const char c : shown) must(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
  must(mcp::one_line(text, 20).size() <= 23);
  must(mcp::without_controls(shown) == shown);
}

void check_message(const mcp::Message& message) {
  const mcp::Limits limits;
  if (message.kind == mcp::Message::Kind::request) {
    const auto answer = mcp::parse_messages(mcp::answer_to(message), limits);
    must(answer.ok() && answer->front().id == message.id);
  }
  if (message.kind != mcp::Message::Kind::result) return;
  const auto output = mcp::read_call_result(message.body, 64);
  must(output.text.size() < 64 + 100);
  mcp::read_contents(message.body.value("contents", Json::array()), 64);
  mcp::Toolbox box;
  for (const auto& [name, value] : message.body.items())
    box.add({"server", name, "", "", value.is_object() ? value : Json::object(), Json::object()});
  for (const Json& function : box.functions()) {
    const std::string name = function["function"]["name"];
    must(name.size() <= 64 && box.find(name) != nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  mcp::Limits limits;
  limits.message_bytes = 1 << 16;
  mcp::LineReader lines(1 << 12);
  const auto take = [&](std::string_view line) {
    if (const auto messages = mcp::parse_messages(line, limits))
      for (const mcp::Message& message : *messages) check_message(message);
    return true;
  };
  lines.push(text, take);
  EventStream([&](const std::string& event) { take(event); }, 1 << 12).push(text);
  check_text(text);
  (void)mcp::parse_config(text, "file", [](const std::string& name) -> std::optional<std::string> {
    return name.size() % 2 ? std::optional<std::string>(name) : std::nullopt;
  });
  return 0;
}
