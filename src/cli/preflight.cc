#include "cli/preflight.h"

#include <span>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"
#include "cli/reports.h"
#include "models/model.h"
#include "ops/open.h"

namespace anabranch::cli {
namespace {

// The device for which models are checked: the CPU can run every model that any device can run.
const Device& cpu() {
  static const Device* const device = ops::open_device({.name = "cpu", .threads = 1}).value().release();
  return *device;
}

uint64_t header_bytes(const std::string& path, std::string_view first) {
  const auto bytes = std::as_bytes(std::span(first));
  return path.ends_with(".gguf") ? gguf_header_bytes(bytes) : safetensors_header_bytes(bytes);
}

std::vector<Error> errors_of(const std::string& path) {
  const auto checkpoint = Checkpoint::open(path, Extent::some_headers);
  if (!checkpoint) return {checkpoint.error()};
  return file_errors(**checkpoint, cpu());
}

}  // namespace

const hub::Inspector& inspector() {
  static const hub::Inspector inspector{header_bytes, errors_of};
  return inspector;
}

std::string why_it_cannot_run(const std::string& path) {
  const auto checkpoint = Checkpoint::open(path, Extent::headers);
  if (!checkpoint) return checkpoint.error().message;
  const auto spec = read_model_spec(**checkpoint, cpu());
  if (!spec) return spec.error().message;
  const auto types = (*checkpoint)->check_types(spec->names_of_mtp());
  return types ? "" : types.error().message;
}

}  // namespace anabranch::cli
