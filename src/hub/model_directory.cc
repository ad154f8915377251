#include "hub/model_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/python_json.h"
#include "hub/weight_map.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = 8u << 20;

ReadFile reader_of(const std::string& directory) {
  return [directory](const std::string& path) { return read_file(directory + "/" + path, kMaxIndexBytes); };
}

// Adds up the sizes of these files, and finds the newest one.
void measure(StoredModel& model, const std::string& directory, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    struct stat st {};
    if (::stat((directory + "/" + file).c_str(), &st) != 0) continue;
    model.bytes += static_cast<uint64_t>(st.st_size);
    model.modified_ns = std::max(model.modified_ns, int64_t{st.st_mtime} * 1'000'000'000);
  }
}

// "safetensors 4 bit" and the like, from config.json.
std::string safetensors_format(const std::string& directory) {
  const std::string format = "safetensors";
  const auto text = read_file(directory + "/config.json", kMaxConfigBytes);
  const auto config = text ? parse_python_json(*text) : Result<Json>(text.error());
  if (!config || !config->is_object()) return format;
  const auto quantization = config->find("quantization");
  if (quantization != config->end() && quantization->is_object()) {
    const auto bits = quantization->find("bits");
    if (bits != quantization->end() && bits->is_number_integer())
      return fmt::format("{} {} bit", format, bits->get<int64_t>());
  }
  for (const char* key : {"dtype", "torch_dtype"})
    if (const std::string type = string_at(*config, key); !type.empty()) return format + " " + type;
  return format;
}

}  // namespace

std::vector<std::string> files_below(const std::string& directory) {
  constexpr size_t kMost = 20'000;
  std::vector<std::string> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(directory, code), end; !code && it != end && files.size() < kMost;
       it.increment(code)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) files.push_back(it->path().lexically_relative(directory).string());
  }
  std::ranges::sort(files);
  return files;
}

Result<std::string> find_in_directory(const std::string& directory, const ModelName& name, Purpose purpose) {
  TRY(const auto choice, choose_files(files_below(directory), name, purpose, reader_of(directory)));
  return choice.main.empty() ? directory : directory + "/" + choice.main;
}

std::vector<StoredModel> models_in(const std::string& directory, const ModelName& name) {
  const auto files = files_below(directory);
  const auto ggufs = gguf_models(files);
  std::vector<StoredModel> models;
  const auto add = [&](ModelName own, const std::string& format) -> StoredModel& {
    StoredModel& model = models.emplace_back();
    model.name = own.text();
    model.format = format;
    auto path = find_in_directory(directory, own, Purpose::model);
    model.path = path ? *path : directory;
    if (!path) model.problem = path.error().message;
    return model;
  };
  for (const GgufModel& gguf : ggufs) {
    const ModelName own = name_of_gguf(gguf, ggufs, name);
    StoredModel& model = add(own, gguf.quant.empty() ? "GGUF" : "GGUF " + gguf.quant);
    const auto choice = choose_files(files, own, Purpose::model, reader_of(directory));
    measure(model, directory, choice ? choice->files : gguf.files);
  }
  const auto is_weights = [](const std::string& file) { return file.ends_with(".safetensors"); };
  if (std::ranges::any_of(files, is_weights)) {
    std::vector<std::string> others;
    std::ranges::copy_if(files, std::back_inserter(others),
                         [](const auto& f) { return !f.ends_with(".gguf"); });
    measure(add(name, safetensors_format(directory)), directory, others);
  }
  return models;
}

}  // namespace anabranch::hub
