// speculation.json beside a model: what is read is written so that it reads the same.
#include <cstdlib>

#include "models/calibration.h"

using namespace anabranch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = parse_calibration({reinterpret_cast<const char*>(data), size});
  if (!read.ok()) return 0;
  (void)check_calibration(*read, 28);
  const std::string text = calibration_text(*read);
  const auto again = parse_calibration(text);
  if (!again.ok() || again->draft_vocab != read->draft_vocab || again->skip_layers != read->skip_layers)
    std::abort();
  return 0;
}
