// Any bytes: a value or an error; a value survives being printed and parsed again.
#include <cstdint>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anabranch;
  Result<Json> value = parse_json({reinterpret_cast<const char*>(data), size});
  if (!value.ok()) return 0;
  std::string printed = value->dump();
  JsonLimits wide;
  wide.bytes = printed.size();
  Result<Json> again = parse_json(printed, wide);
  CHECK(again.ok() && again->dump() == printed, "{}", printed);
  return 0;
}
