#include "checkpoint/file_bytes.h"

namespace anabranch {

Result<FileBytes> map_file(const std::string& path, Extent extent) {
  TRY(auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  return FileBytes{path, bytes, file, file, extent};
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); i++) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace anabranch
