#include "checkpoint/safetensors_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/python_json.h"
#include "base/wrong_file.h"
#include "checkpoint/experts.h"
#include "checkpoint/mistral_native.h"
#include "checkpoint/names.h"
#include "checkpoint/quantization.h"
#include "checkpoint/raw_tensors.h"
#include "checkpoint/safetensors.h"

namespace anabranch {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxConfig = 8u << 20;
constexpr size_t kMaxIndex = 256u << 20;
constexpr size_t kMaxFiles = 4096;

struct ParsedFile {
  FileBytes file;
  SafetensorsFile content;
};

// [C, 1, k] is Hugging Face's layout of a depthwise convolution, [C, k, 1] MLX's. None: the file shows
// neither.
std::optional<NormConvention> norm_evidence(const SafetensorsFile& file) {
  for (const auto& tensor : file.tensors) {
    const auto& shape = tensor.shape;
    if (!tensor.name.ends_with("conv1d.weight") || shape.size() != 3 || (shape[1] == 1) == (shape[2] == 1))
      continue;
    return shape[1] == 1 ? NormConvention::offset : NormConvention::plain;
  }
  if (file.format == "mlx") return NormConvention::plain;
  if (!file.format.empty()) return NormConvention::offset;
  return std::nullopt;
}

const SafetensorsTensor* find_tensor(const SafetensorsFile& file, std::string_view name) {
  const auto at = std::ranges::lower_bound(file.tensors, name, {}, &SafetensorsTensor::name);
  return at != file.tensors.end() && at->name == name ? &*at : nullptr;
}

// Names in a stand-alone MTP file, which lack the "mtp." that they have inside a model.
constexpr const char* kBareMtp[] = {"pre_fc_norm_hidden.weight", "pre_fc_norm_embedding.weight"};
bool is_bare_mtp(const SafetensorsFile& file) {
  return find_tensor(file, kBareMtp[0]) && find_tensor(file, kBareMtp[1]);
}

// The convention for files that do not show their own: that of the first file that does; nullopt if none
// does.
std::optional<NormConvention> convention_of_all(const std::vector<ParsedFile>& files) {
  for (const auto& file : files)
    if (const auto norms = norm_evidence(file.content)) return *norms;
  return std::nullopt;
}

Result<void> add_raw(const ParsedFile& file, NormConvention norms, RawTensors& raw) {
  for (const auto& tensor : file.content.tensors) {
    const auto [at, fresh] = raw.try_emplace(tensor.name, RawTensor{&tensor, &file.file, norms});
    if (!fresh)
      return make_error(
          ErrorKind::invalid,
          "tensor \"{}\" is both in {} and in {}: remove the file that does not belong to the model",
          shown(tensor.name), at->second.file->path, file.file.path);
  }
  return {};
}

Result<Json> read_config(const fs::path& path) {
  auto read = read_file(path.string(), kMaxConfig);
  if (!read.ok() && read.error().kind == ErrorKind::not_found)
    return make_error(
        ErrorKind::not_found,
        "there is no {}: a model's directory needs it; copy that of the original model there, or "
        "download the model as a whole (`anabranch pull ORG/NAME`)",
        path.string());
  TRY(const std::string text, std::move(read));
  auto config = parse_python_json(text);
  if (!config.ok())
    return make_error(config.error().kind, "{}: {}{}", path.string(), config.error().message,
                      what_it_is_instead(text));
  if (!config->is_object()) return make_error(ErrorKind::invalid, "{} is not a JSON object", path.string());
  return config;
}

// An adapter changes the weights of a model, so it must not be ignored.
Error adapter_found(const fs::path& adapter, bool beside_weights) {
  std::string base;
  if (const auto config = read_config(adapter.parent_path() / "adapter_config.json"); config.ok())
    base = string_at(*config, "base_model_name_or_path");
  const std::string merge =
      fmt::format("merge it into {} with Python's peft (merge_and_unload(), then save_pretrained())",
                  base.empty() ? "its model" : shown(base));
  return make_error(ErrorKind::unsupported, "{} is an adapter (LoRA) {}: {}, or {}", adapter.string(),
                    beside_weights ? "beside a model's weights" : "without a model", merge,
                    beside_weights ? "move it to another directory and give that with --lora"
                                   : "give it with --lora to the model");
}

bool is_adapter(const std::string& name) {
  return name.starts_with("adapter") && (name.ends_with(".safetensors") || name.ends_with(".bin"));
}

// The files of a directory's model, sorted: those of the index, and any further ones.
Result<std::vector<fs::path>> list_files(const fs::path& directory) {
  std::vector<fs::path> files, native;  // native: the same weights in Mistral's own layout
  std::optional<fs::path> adapter;
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    const fs::path& path = it->path();
    const std::string name = path.filename().string();
    if (is_adapter(name)) adapter = path;
    if (path.extension() != ".safetensors" || name.starts_with(".") || is_adapter(name)) continue;
    auto& own = is_consolidated(name) ? native : files;
    if (own.size() == kMaxFiles)
      return make_error(ErrorKind::exhausted, "{} holds more than {} .safetensors files", directory.string(),
                        kMaxFiles);
    own.push_back(path);
  }
  if (code) return make_error(ErrorKind::io, "cannot list {}: {}", directory.string(), code.message());
  if (adapter) return adapter_found(*adapter, !files.empty() || !native.empty());
  if (files.empty()) std::swap(files, native);
  if (files.empty())
    return make_error(ErrorKind::not_found,
                      "{} holds no .safetensors file: give a model's directory, a .gguf file, or ORG/NAME of "
                      "the hub",
                      directory.string());
  for (const auto& path : native) log_info("{} is left aside", path.string());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_native(const std::vector<fs::path>& paths) {
  return is_consolidated(paths.front().filename().string());
}

std::string index_path(const fs::path& directory) {
  return (directory / "model.safetensors.index.json").string();
}

// (tensor, file) pairs; empty if there is no index.
Result<std::vector<std::pair<std::string, std::string>>> read_index(const fs::path& directory) {
  const std::string path = index_path(directory);
  auto text = read_file(path, kMaxIndex);
  if (!text.ok() && text.error().kind == ErrorKind::not_found)
    return std::vector<std::pair<std::string, std::string>>();
  if (!text.ok()) return text.error();
  return parse_safetensors_index(*text, path);
}

// Every file and tensor that the index names must be there.
Result<void> check_index(const fs::path& directory, const std::vector<ParsedFile>& files) {
  const std::string path = index_path(directory);
  TRY(const auto index, read_index(directory));
  std::map<std::string, const SafetensorsFile*> by_name;
  for (const auto& file : files) by_name[fs::path(file.file.path).filename().string()] = &file.content;
  for (const auto& [tensor, name] : index) {
    const auto file = by_name.find(name);
    if (file == by_name.end())
      return make_error(ErrorKind::not_found,
                        "{} puts tensor \"{}\" into {}, which is not there: is the download complete?", path,
                        shown(tensor), shown(name));
    if (!find_tensor(*file->second, tensor))
      return make_error(ErrorKind::invalid, "{} puts tensor \"{}\" into {}, which lacks it", path,
                        shown(tensor), shown(name));
  }
  return {};
}

// The part of a name that the tensors of one matrix share.
std::string_view matrix_name(std::string_view tensor) {
  const size_t weight = tensor.find(".weight.");
  return tensor.substr(0, weight != tensor.npos ? weight : tensor.rfind('.'));
}

// Leaves out matrices if some of their tensors are in files that do not exist.
Result<void> leave_out_torn(const fs::path& directory, std::vector<ParsedFile>& files) {
  TRY(const auto index, read_index(directory));
  std::set<std::string> there;
  for (const auto& file : files) there.insert(fs::path(file.file.path).filename().string());
  std::set<std::string_view> torn;
  for (const auto& [tensor, file] : index)
    if (!there.contains(file)) torn.insert(matrix_name(tensor));
  for (auto& file : files)
    std::erase_if(file.content.tensors,
                  [&](const auto& tensor) { return torn.contains(matrix_name(tensor.name)); });
  return {};
}

Result<std::vector<ParsedFile>> parse_files(std::vector<FileBytes> files) {
  std::vector<ParsedFile> out;
  for (auto& file : files) {
    TRY(auto content, parse_safetensors(file.bytes, file.path));
    out.push_back({std::move(file), std::move(content)});
  }
  return out;
}

void complete_mtp_names(SafetensorsFile& file) {
  if (is_bare_mtp(file))
    for (auto& tensor : file.tensors) tensor.name = "mtp." + tensor.name;
}

// The quantisation in config.json. If it cannot be read but all tensors are plain, there is none: a
// conversion left it in config.json.
Result<std::optional<QuantizationConfig>> quantization_of(const Json& config, const std::string& config_path,
                                                          const RawTensors& raw) {
  auto quantization = parse_quantization(config, config_path);
  const bool plain = std::ranges::all_of(
      raw, [](const auto& one) { return dense_kind(one.second.tensor->dtype).has_value(); });
  if (quantization.ok() || !plain || quantization.error().kind != ErrorKind::unsupported) return quantization;
  log_info("{}: its quantisation is not that of the weights, which are plain", config_path);
  return std::optional<QuantizationConfig>();
}

// INT64_MAX: the config does not say.
int64_t layers_of(const Json& config) {
  const auto text = config.find("text_config");
  const Json& holder = text != config.end() && text->is_object() ? *text : config;
  const auto layers = holder.find("num_hidden_layers");
  return layers != holder.end() && layers->is_number_integer() ? layers->get<int64_t>() : INT64_MAX;
}

struct ParsedEntries {
  std::vector<Entry> text, vision;
};
Result<ParsedEntries> read_parsed(const Json& config, const std::string& config_path,
                                  std::vector<ParsedFile> files) {
  RawTensors raw;
  const NormConvention norms = convention_of_all(files).value_or(NormConvention::offset);
  // MLX's conversions of some keep w, unlike those of hybrid models.
  const bool offset = keeps_offset_norms(string_at(config, "model_type"));
  for (auto& file : files) {
    complete_mtp_names(file.content);
    const NormConvention own = norm_evidence(file.content).value_or(norms);
    TRY_VOID(add_raw(file, offset ? NormConvention::offset : own, raw));
  }
  TRY(const auto quantization, quantization_of(config, config_path, raw));
  TRY(auto entries, join_tensors(raw, quantization, config_path, fold_name, layers_of(config)));
  TRY(auto vision, join_tensors(raw, quantization, config_path, vision_name));
  return ParsedEntries{stack_experts(std::move(entries)), std::move(vision)};
}

// config.json with ModelOpt's file beside it, if there is one.
Result<Json> read_quantized_config(const fs::path& directory, const Json& config) {
  const std::string path = (directory / kModelOptFile).string();
  const auto text = read_file(path, kMaxConfig);
  if (!text.ok() && text.error().kind == ErrorKind::not_found) return config;
  if (!text.ok()) return text.error();
  return with_model_opt_config(config, *text, path);
}

// Tensors for images or sound, which are left out.
size_t count_left_out(const std::vector<ParsedFile>& files) {
  size_t count = 0;
  for (const auto& file : files)
    for (const auto& tensor : file.content.tensors) count += !fold_name(tensor.name);
  return count;
}

Result<StoreParts> open_files(const std::string& path, const fs::path& directory,
                              const std::vector<fs::path>& paths, bool with_index, Extent extent) {
  const bool native = is_native(paths);
  const fs::path config_path = directory / (native ? kMistralParams : "config.json");
  TRY(Json config, read_config(config_path));
  if (native) {
    TRY(config, mistral_config(config, config_path.string()));
  }
  std::vector<FileBytes> files;
  std::vector<std::shared_ptr<const MappedFile>> maps;
  for (const auto& p : paths) {
    TRY(auto file, map_file(p.string(), extent));
    maps.push_back(file.map);
    files.push_back(std::move(file));
  }
  TRY(auto parsed, parse_files(std::move(files)));
  if (with_index && !native)
    TRY_VOID(extent == Extent::some_headers ? leave_out_torn(directory, parsed)
                                            : check_index(directory, parsed));
  size_t left_out = count_left_out(parsed);
  if (native)
    for (auto& file : parsed) left_out += take_mistral_names(file.content);
  if (left_out > 0)
    log_info("{}: {} tensors for images or sound stand beside the text model", config_path.string(),
             left_out);
  TRY(const Json quantized, read_quantized_config(directory, config));
  TRY(auto entries, read_parsed(quantized, config_path.string(), std::move(parsed)));
  if (native) TRY_VOID(order_mistral_rows(config, entries.text));
  auto vision = std::make_shared<StoreParts>(
      StoreParts{path, directory.string(), config, Json(), std::move(entries.vision), 0, maps});
  StoreParts out{path,     directory.string(), std::move(config), Json(), std::move(entries.text),
                 left_out, std::move(maps)};
  out.vision = std::move(vision);
  return out;
}

// The files that contain the head: those that the index names, otherwise all files that are not in the index.
Result<std::vector<fs::path>> list_mtp_files(const fs::path& directory) {
  TRY(const auto index, read_index(directory));
  const bool bare = std::ranges::any_of(index, [](const auto& e) { return e.first == kBareMtp[0]; });
  std::map<std::string, std::string> named;  // file -> one of the head's tensors
  std::set<std::string> known;
  for (const auto& [tensor, file] : index) {
    known.insert(file);
    if (bare || is_mtp_name(tensor)) named.emplace(file, tensor);
  }
  std::vector<fs::path> files;
  for (const auto& [file, tensor] : named) {
    files.push_back(directory / file);
    std::error_code code;
    if (!fs::exists(files.back(), code))
      return make_error(ErrorKind::not_found,
                        "{} puts tensor \"{}\" into {}, which is not there: download that file too (no "
                        "others than those of the prediction head are needed)",
                        index_path(directory), shown(tensor), shown(file));
  }
  if (!named.empty()) return files;
  TRY(files, list_files(directory));
  std::erase_if(files, [&](const fs::path& path) { return known.contains(path.filename().string()); });
  return files;
}

Result<std::vector<ParsedFile>> map_and_parse(const std::vector<fs::path>& paths) {
  std::vector<FileBytes> files;
  for (const auto& path : paths) {
    TRY(auto file, map_file(path.string()));
    files.push_back(std::move(file));
  }
  return parse_files(std::move(files));
}

// The norm convention of the other files of a model's directory. They may be damaged, so nothing else is
// read.
NormConvention convention_of_siblings(const fs::path& directory) {
  const auto files = list_files(directory);
  if (!files.ok()) return NormConvention::offset;
  for (const auto& path : *files)
    if (const auto parsed = map_and_parse({path}); parsed.ok())
      if (const auto norms = convention_of_all(*parsed)) return *norms;
  return NormConvention::offset;
}

Result<std::vector<Entry>> read_mtp(const std::vector<fs::path>& paths, const fs::path& directory) {
  TRY(auto files, map_and_parse(paths));
  const fs::path config_path = directory / "config.json";
  std::error_code code;
  const bool in_model = fs::exists(config_path, code);
  auto norms = convention_of_all(files);
  if (!norms) norms = in_model ? convention_of_siblings(directory) : NormConvention::offset;
  RawTensors raw;
  bool quantised = false;
  for (auto& file : files) {
    const auto own = norm_evidence(file.content).value_or(*norms);
    complete_mtp_names(file.content);
    std::erase_if(file.content.tensors, [](const auto& tensor) { return !is_mtp_name(tensor.name); });
    for (const auto& tensor : file.content.tensors) quantised |= !dense_kind(tensor.dtype);
    TRY_VOID(add_raw(file, own, raw));
  }
  std::optional<QuantizationConfig> quantization;  // not read if the head is plain
  if (quantised && in_model) {
    TRY(const Json config, read_config(config_path));
    TRY(const Json full, read_quantized_config(directory, config));
    TRY(quantization, parse_quantization(full, config_path.string()));
  }
  TRY(auto entries, join_tensors(raw, quantization, config_path.string(), fold_name));
  return stack_experts(std::move(entries));
}

fs::path directory_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

Result<std::vector<Entry>> open_safetensors_mtp(const std::string& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) return read_mtp({fs::path(path)}, directory_of(path));
  TRY(const auto files, list_mtp_files(path));
  return read_mtp(files, path);
}

Result<bool> holds_only_mtp(const std::string& path) {
  TRY(auto files, map_and_parse({fs::path(path)}));
  auto& content = files.front().content;
  complete_mtp_names(content);
  return !content.tensors.empty() &&
         std::ranges::all_of(content.tensors, [](const auto& tensor) { return is_mtp_name(tensor.name); });
}

Result<std::vector<Entry>> read_safetensors(const Json& config, const std::string& config_path,
                                            std::vector<FileBytes> files) {
  TRY(auto parsed, parse_files(std::move(files)));
  TRY(auto entries, read_parsed(config, config_path, std::move(parsed)));
  return std::move(entries.text);
}

Result<StoreParts> open_safetensors_directory(const std::string& path, Extent extent) {
  TRY(const auto files, list_files(path));
  return open_files(path, path, files, true, extent);
}

Result<StoreParts> open_safetensors_file(const std::string& path, Extent extent) {
  return open_files(path, directory_of(path), {fs::path(path)}, false, extent);
}

}  // namespace anabranch
