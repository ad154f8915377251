#include "cli/print.h"

namespace anabranch::cli {

void say_bytes(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void say_lines(std::FILE* stream, std::string_view text) {
  say_bytes(stream, escape_hidden(text));
}

void say_json(std::FILE* stream, const Json& json, int indent) {
  say_bytes(stream, escape_json(dump_json(json, indent)) + "\n");
}

}  // namespace anabranch::cli
