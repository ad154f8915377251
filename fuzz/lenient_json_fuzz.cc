// Any bytes: what is read is JSON; JSON is read with its value; and the scan finds the end of what is read.
#include <cstdint>

#include "output/lenient_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anabranch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = lenient_json(text);
  const auto strict = parse_json(text);
  if (strict.ok() && strict->is_structured() && size < (1u << 20))
    CHECK(read && parse_json(*read).value() == *strict, "{}", text);
  const auto typed = [](const std::string&, std::string_view value, bool) -> std::optional<std::string> {
    return json_string(value);
  };
  const auto marked = lenient_json(text, {"<|\"|>", typed});
  for (const auto& one : {read, marked}) CHECK(!one || parse_json(*one).ok(), "{}", text);
  size_t at = text.find_first_of("{[");
  if (!read || at == text.npos) return 0;
  CHECK(LenientScan().advance(text, at) == Scan::complete, "{}", text);
  CHECK(text.find_first_not_of(" \t\r\n", at) == text.npos, "{}", text);
  return 0;
}
