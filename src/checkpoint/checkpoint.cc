#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <vector>

#include "base/mapped_file.h"
#include "base/nearest.h"
#include "base/wrong_file.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/safetensors_model.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

namespace fs = std::filesystem;

// The names in a directory, as far as it can be read.
std::vector<std::string> names_in(const fs::path& directory) {
  constexpr size_t kMost = 10'000;
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end && names.size() < kMost;
       it.increment(code))
    names.push_back(it->path().filename().string());
  return names;
}

std::string near_name(fs::path path) {
  if (!path.has_filename()) path = path.parent_path();  // "dir/"
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto found = nearest(path.filename().string(), names_in(parent));
  return found ? "; did you mean " + (path.parent_path() / *found).string() + "?" : "";
}

// Fails if a directory contains model files only of kinds that cannot be read.
Result<void> check_formats(const fs::path& directory) {
  std::string gguf, other;
  for (const std::string& name : names_in(directory)) {
    const auto extension = fs::path(name).extension();
    if (extension == ".safetensors" || name.starts_with("adapter_model.")) return {};
    if (extension == ".gguf") gguf = name;
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt" ||
        extension == ".onnx")
      other = name;
  }
  if (!gguf.empty())
    return make_error(ErrorKind::unsupported,
                      "{} holds no .safetensors file, but {}: give the file itself, {}", directory.string(),
                      gguf, (directory / gguf).string());
  if (!other.empty())
    return make_error(
        ErrorKind::unsupported,
        "{} holds no .safetensors file, but {}: only safetensors and GGUF are read. Many models have "
        "both; else convert it with Python's transformers: "
        "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW_DIR), and copy the tokenizer's files",
        directory.string(), other);
  return {};
}

// A hint for a file with another ending; "" if nothing is known about it.
std::string what_instead(const fs::path& path) {
  if (path.extension() == ".onnx")
    return "; it is an ONNX file: download the same model as safetensors or GGUF";
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return "";
  const auto file = MappedFile::open(path.string());
  return file ? what_it_is_instead((*file)->bytes()) : "; " + file.error().message;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path, Extent extent) {
  const std::filesystem::path where(path);
  std::error_code code;
  const auto status = std::filesystem::status(where, code);
  if (path.empty())
    return make_error(ErrorKind::invalid,
                      "the model's name is empty: give a directory, a .gguf file, or ORG/NAME of the hub");
  if (!std::filesystem::exists(status))
    return make_error(ErrorKind::not_found, "there is no model at {}: neither a directory nor a file{}", path,
                      near_name(where));
  if (std::filesystem::is_directory(status)) {
    TRY_VOID(check_formats(where));
    TRY(auto parts, open_safetensors_directory(path, extent));
    return make_store(std::move(parts));
  }
  if (where.extension() == ".safetensors") {
    TRY(auto parts, open_safetensors_file(path, extent));
    return make_store(std::move(parts));
  }
  if (where.extension() == ".gguf") {
    TRY(auto parts, open_gguf(path, extent));
    return make_store(std::move(parts));
  }
  return make_error(ErrorKind::unsupported, "{} is neither a directory, a .safetensors nor a .gguf file{}",
                    path, what_instead(where));
}

}  // namespace anabranch
