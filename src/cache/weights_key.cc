#include "cache/weights_key.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/mapped_file.h"

namespace anabranch {

Result<Fingerprint> weights_key(const std::string& model_path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(model_path, error)) {
    for (const auto& entry : fs::directory_iterator(model_path, error))
      if (entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json")
        files.push_back(entry.path());
  } else {
    files.push_back(model_path);
  }
  if (error) return make_error(ErrorKind::io, "{}: {}", model_path, error.message());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& path : files) {
    TRY(const auto file, MappedFile::open(path.string()));
    const auto hash = XXH3_128bits(file->bytes().data(), file->bytes().size());
    text += fmt::format("{} {} {:016x}{:016x}\n", path.filename().string(), file->bytes().size(), hash.high64,
                        hash.low64);
  }
  return fingerprint_of(text);
}

}  // namespace anabranch
