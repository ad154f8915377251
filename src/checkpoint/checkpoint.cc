#include "checkpoint/checkpoint.h"

#include <filesystem>

#include "checkpoint/gguf_model.h"
#include "checkpoint/safetensors_model.h"
#include "checkpoint/store.h"

namespace anabranch {

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path) {
  const std::filesystem::path where(path);
  std::error_code code;
  const auto status = std::filesystem::status(where, code);
  if (!std::filesystem::exists(status))
    return make_error(ErrorKind::not_found, "there is no model at {}: neither a directory nor a file", path);
  if (std::filesystem::is_directory(status)) {
    TRY(auto parts, open_safetensors_directory(path));
    return make_store(std::move(parts));
  }
  if (where.extension() == ".safetensors") {
    TRY(auto parts, open_safetensors_file(path));
    return make_store(std::move(parts));
  }
  if (where.extension() == ".gguf") {
    TRY(auto parts, open_gguf(path));
    return make_store(std::move(parts));
  }
  return make_error(ErrorKind::unsupported, "{} is neither a directory, a .safetensors nor a .gguf file",
                    path);
}

}  // namespace anabranch
