#include "hub/model_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/nearest.h"
#include "base/part_name.h"
#include "hub/weight_map.h"

namespace anabranch::hub {
namespace {

// Quantisations by preference, for a name without one: the first of these that the repository has is chosen.
// Q4_K_M has good quality at a quarter of the size.
constexpr const char* kUsualQuants[] = {"Q4_K_M", "UD-Q4_K_XL", "Q4_K_S", "Q4_0", "Q4_1",   "Q5_K_M",
                                        "Q5_K_S", "Q5_0",       "Q6_K",   "Q8_0", "Q3_K_M", "Q3_K_L",
                                        "Q3_K_S", "Q2_K",       "BF16",   "F16",  "F32"};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c -= 'a' - 'A';
  return out;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string_view folder_of(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);
}

bool is_at_top(std::string_view path) {
  return path.find('/') == path.npos;
}

bool contains(const std::vector<std::string>& paths, std::string_view path) {
  return std::ranges::find(paths, path) != paths.end();
}

// Whether the last word before the quantisation is `word`, with its mark: "M.I1-", but not "PHI1-".
bool is_last_word(std::string_view name, std::string_view word) {
  if (!name.ends_with(word)) return false;
  return name.size() == word.size() || name[name.size() - word.size() - 1] == '-' ||
         name[name.size() - word.size() - 1] == '.';
}

// "Q4_K_M", "IQ3_XXS", "TQ1_0", "BF16", "F16", "MXFP4", ... in capitals.
bool is_quant_word(std::string_view word) {
  if (word == "BF16" || word == "F16" || word == "F32" || word == "FP16") return true;
  for (const std::string_view start : {"IQ", "TQ", "Q", "MXFP", "NVFP"})
    if (word.starts_with(start) && word.size() > start.size() && word[start.size()] >= '1' &&
        word[start.size()] <= '9')
      return true;
  return false;
}

Error unknown_file(const ModelName& name, const std::vector<std::string>& paths) {
  std::vector<std::string> weights;
  for (const auto& path : paths)
    if (path.ends_with(".gguf") || path.ends_with(".safetensors")) weights.push_back(path);
  return make_error(ErrorKind::not_found, "{} has no file {}{}", name.repo, name.file,
                    did_you_mean(name.file, weights));
}

std::string quants_text(const std::vector<GgufModel>& models) {
  std::vector<std::string> names;
  for (const auto& model : models) names.push_back(model.quant.empty() ? model.files.front() : model.quant);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<ModelFiles> choice_of(const ModelName& name, const GgufModel& model) {
  const auto part = parse_part_name(model.files.front());
  if (part && model.files.size() != static_cast<size_t>(part->count))
    return make_error(ErrorKind::not_found, "of {} only {} of {} parts are there: {}", name.repo,
                      model.files.size(), part->count, fmt::join(model.files, ", "));
  return ModelFiles{model.files, model.files.front()};
}

// The rank of a vision tower; lower is better. 16 bits are the usual precision of towers: 8 bits see less,
// and 32 bits take twice the space without a gain.
int tower_rank(std::string_view path) {
  const std::string quant = quant_of(path);
  if (quant == "F16" || quant == "FP16") return 0;
  if (quant == "BF16") return 1;
  if (quant == "Q8_0") return 2;
  return quant == "F32" ? 4 : 3;
}

// The model's name within a file's name: without quantisation, part, "mmproj" and the marks between them.
std::string stem_of(std::string_view path) {
  const auto part = parse_part_name(std::string(path));
  std::string name = upper(file_name(part ? std::string_view(part->stem) : path));
  for (const std::string& word : {std::string(".GGUF"), std::string("MMPROJ"), upper(quant_of(path))})
    if (const size_t at = word.empty() ? name.npos : name.rfind(word); at != name.npos)
      name.erase(at, word.size());
  std::erase_if(name, [](char c) { return c == '-' || c == '.' || c == '_'; });
  return name;
}

// The vision tower for a GGUF model: from the model's folder, otherwise from the top folder. If several
// models share a folder, the tower with the model's name.
std::optional<std::string> choose_tower(const std::vector<std::string>& paths, const std::string& model) {
  const std::string stem = stem_of(model);
  const auto rank = [&](const std::string& path) {
    return std::pair(stem_of(path) != stem, tower_rank(path));
  };
  for (const std::string_view folder : {folder_of(model), std::string_view()}) {
    const std::string* best = nullptr;
    for (const std::string& path : paths)
      if (is_vision_tower(path) && folder_of(path) == folder && (!best || rank(path) < rank(*best)))
        best = &path;
    if (best) return *best;
  }
  return std::nullopt;
}

// Adds the vision tower to `choice`, if that is a GGUF model to be run.
ModelFiles with_tower(ModelFiles choice, const std::vector<std::string>& paths, Purpose purpose) {
  if (purpose != Purpose::model) return choice;
  if (auto tower = choose_tower(paths, choice.main)) choice.files.push_back(std::move(*tower));
  return choice;
}

// Prefixes of quantisations: Unsloth's mixes, and those that mradermacher made with an importance matrix.
constexpr const char* kQuantForms[] = {"", "UD-", "i1-"};

// All models with this quantisation. The prefix may be omitted if there is no model without a prefix.
std::vector<GgufModel> with_quant(const std::vector<GgufModel>& models, std::string_view quant) {
  const std::string wanted = upper(quant);
  std::vector<GgufModel> found;
  for (const char* start : kQuantForms) {
    const std::string form = upper(start) + wanted;
    std::ranges::copy_if(models, std::back_inserter(found),
                         [&](const auto& m) { return upper(m.quant) == form; });
    if (!found.empty()) break;
  }
  return found;
}

Result<ModelFiles> choose_gguf(const std::vector<GgufModel>& models, const ModelName& name) {
  if (name.quant.empty() && models.size() == 1) return choice_of(name, models.front());
  std::vector<GgufModel> found;
  if (!name.quant.empty()) {
    found = with_quant(models, name.quant);
    if (found.empty())
      return make_error(ErrorKind::not_found, "{} has no {}; it has {}", name.repo, name.quant,
                        quants_text(models));
  } else {
    for (const char* quant : kUsualQuants)
      if (found = with_quant(models, quant); !found.empty()) break;
    if (found.empty()) found = models;
  }
  if (found.size() == 1) return choice_of(name, found.front());
  std::vector<std::string> files;
  for (const auto& model : found) files.push_back(model.files.front());
  return make_error(ErrorKind::not_found, "{} has several such models; name the file, as in {}/{}: {}",
                    name.repo, name.repo, files.front(), fmt::join(files, ", "));
}

// A file chosen by name. A part of a split model brings the other parts.
Result<ModelFiles> choose_named(const std::vector<std::string>& paths, const ModelName& name) {
  if (!contains(paths, name.file)) return unknown_file(name, paths);
  if (is_vision_tower(name.file))
    return make_error(ErrorKind::invalid,
                      "{} of {} is the vision tower of a model and no model itself: name the model, and its "
                      "tower comes with it",
                      name.file, name.repo);
  if (is_drafter(name.file))
    return make_error(ErrorKind::unsupported,
                      "{} of {} drafts tokens for a model and is no model itself: name the model", name.file,
                      name.repo);
  for (const auto& model : gguf_models(paths))
    if (contains(model.files, name.file)) return choice_of(name, model);
  return ModelFiles{{name.file}, name.file};
}

// All small files beside the weights that the model or its tokenizer may need. Files that only other tools
// use are included, because they share the store.
bool is_side_file(std::string_view path) {
  return is_at_top(path) && (path.ends_with(".json") || path.ends_with(".jinja") ||
                             path.starts_with("tokenizer.model") || path == "tiktoken.model" ||
                             path.ends_with(".tiktoken") || path == "merges.txt" || path == "vocab.txt");
}

// Whether the file has weights of the model. Excludes the same weights under another project's names, and
// adapters, which are changes to other weights.
bool is_weights(std::string_view path) {
  return is_at_top(path) && path.ends_with(".safetensors") && !path.starts_with("consolidated") &&
         !path.starts_with("adapter");
}

// The files of is_weights(); if there are none, those with Mistral's own names.
std::vector<std::string> safetensors_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::ranges::copy_if(paths, std::back_inserter(files), is_weights);
  if (!files.empty()) return files;
  std::ranges::copy_if(paths, std::back_inserter(files), [](const std::string& path) {
    return is_at_top(path) && path.starts_with("consolidated") && path.ends_with(".safetensors");
  });
  return files;
}

// Whether it is the usual file for the weights of an adapter (LoRA).
bool is_adapter(std::string_view path) {
  return file_name(path).starts_with("adapter_model.");
}

// Fails if the repository has an adapter (LoRA) beside its weights: without it the model is a different one,
// so it is never ignored.
Result<void> check_adapters(const std::vector<std::string>& paths, const ModelName& name,
                            const std::string& weights) {
  const auto adapter =
      std::ranges::find_if(paths, [](const auto& path) { return is_at_top(path) && is_adapter(path); });
  if (adapter == paths.end()) return {};
  return make_error(
      ErrorKind::unsupported,
      "{} has an adapter ({}) beside its weights, and a model is read without one: {}/{} names the weights, "
      "and --lora gives them the adapter",
      name.repo, *adapter, name.repo, weights);
}

bool is_mtp_file(std::string_view path) {
  return is_weights(path) && upper(path).find("MTP") != path.npos;
}

// The weight files: those of the index and any file for the MTP head; without an index, all.
Result<ModelFiles> weight_files(const std::vector<std::string>& paths, const ModelName& name, Purpose purpose,
                                const ReadFile& read) {
  ModelFiles choice;
  auto& files = choice.files;
  const bool head = purpose == Purpose::mtp_head;
  std::ranges::copy_if(paths, std::back_inserter(files), is_mtp_file);
  if (contains(paths, kIndexFile)) {
    TRY(choice.index, read(kIndexFile));
    auto map = parse_weight_map(choice.index);
    if (!map) return make_error(map.error().kind, "{} of {}: {}", kIndexFile, name.repo, map.error().message);
    const auto& named = head ? map->mtp_files : map->files;
    for (const auto& file : named)
      if (!contains(paths, file))
        return make_error(ErrorKind::not_found, "{} lacks {}, which its {} names", name.repo, file,
                          kIndexFile);
    for (const auto& file : named)
      if (!contains(files, file)) files.push_back(file);
    choice.telling = std::move(map->telling);
  } else if (!head || files.empty()) {
    files = safetensors_of(paths);
  }
  if (files.empty())
    return make_error(ErrorKind::not_found, "{} has no {}", name.repo,
                      head ? "prediction head: no tensors mtp.* are in its index" : "weights");
  return choice;
}

// Weight files in formats that are not supported.
constexpr std::pair<std::string_view, const char*> kOtherFormats[] = {
    {".bin", "PyTorch"},         {".pt", "PyTorch"},      {".pth", "PyTorch"},     {".ckpt", "PyTorch"},
    {".onnx", "ONNX"},           {".npz", "NumPy"},       {".h5", "TensorFlow"},   {".msgpack", "Flax"},
    {".tflite", "LiteRT"},       {".litertlm", "LiteRT"}, {".task", "LiteRT"},     {".nemo", "NeMo"},
    {".engine", "TensorRT"},     {".plan", "TensorRT"},   {".mlmodel", "Core ML"}, {".ggml", "GGML"},
    {".llamafile", "llamafile"}, {".enc", "encrypted"},
};

Error no_weights(const std::vector<std::string>& paths, const ModelName& name) {
  for (const auto& path : paths)
    if (is_adapter(path))
      return make_error(ErrorKind::unsupported,
                        "{} holds only an adapter ({}), which changes another model's weights: adapters "
                        "are not supported, only a model that they are merged into",
                        name.repo, path);
  for (const auto& [end, format] : kOtherFormats)
    for (const auto& path : paths)
      if (path.ends_with(end))
        return make_error(
            ErrorKind::unsupported,
            "{} holds neither safetensors nor GGUF files, but {}, which cannot be read ({}): look for "
            "another repository of the model",
            name.repo, path, format);
  return make_error(ErrorKind::unsupported,
                    "{} is no language model: it holds neither safetensors nor GGUF files", name.repo);
}

bool has_tokenizer(const std::vector<std::string>& paths) {
  const auto is_whole = [](const std::string& path) {  // Mistral has tokenizer.model.v3 and the like
    return path == "tokenizer.json" || path == "tekken.json" || path == "tiktoken.model" ||
           path == "hy.tiktoken" || path.starts_with("tokenizer.model");
  };
  return std::ranges::any_of(paths, is_whole) ||
         (contains(paths, "vocab.json") && contains(paths, "merges.txt"));
}

// Checks the files without which a safetensors model cannot run.
Result<void> check_side_files(const std::vector<std::string>& paths, const ModelName& name, Purpose purpose) {
  const auto lacks = [&](const char* file) {
    return make_error(
        ErrorKind::unsupported,
        "{} has no {}, without which it cannot be used: look for another repository of the model", name.repo,
        file);
  };
  if (!contains(paths, "config.json") && !contains(paths, "params.json")) return lacks("config.json");
  if (purpose == Purpose::model && !has_tokenizer(paths)) return lacks("tokenizer.json");
  return {};
}

}  // namespace

std::string quant_of(std::string_view path) {
  std::string name = upper(file_name(path));
  if (const auto part = parse_part_name(std::string(path))) name = upper(file_name(part->stem));
  if (name.ends_with(".GGUF")) name.resize(name.size() - 5);
  // The last word that looks like a quantisation. Words end at "-" and "."; a "_" belongs to a word unless
  // the part before it makes it no quantisation.
  for (size_t end = name.size(); end > 0;) {
    const size_t mark = name.find_last_of("-.", end - 1);
    const size_t from = mark == name.npos ? 0 : mark + 1;
    std::string_view word = std::string_view(name).substr(from, end - from);
    while (!word.empty()) {
      if (is_quant_word(word)) {
        const auto before = std::string_view(name).substr(0, from);
        for (const std::string_view form : kQuantForms)
          if (!form.empty() && is_last_word(before, upper(form)))
            return std::string(form) + std::string(word);
        return std::string(word);
      }
      const size_t under = word.find('_');
      if (under == word.npos) break;
      word.remove_prefix(under + 1);
    }
    if (mark == name.npos || mark == 0) break;
    end = mark;
  }
  return "";
}

bool is_vision_tower(std::string_view path) {
  return path.ends_with(".gguf") && upper(file_name(path)).find("MMPROJ") != std::string::npos;
}

bool is_drafter(std::string_view path) {
  if (!path.ends_with(".gguf")) return false;
  const std::string name = upper(file_name(path)), folder = upper(folder_of(path));
  for (const std::string_view start : {"MTP-", "MTP_", "EAGLE3-", "DFLASH-", "DSPARK-"})
    if (name.starts_with(start)) return true;
  return folder == "MTP/" || folder.ends_with("/MTP/");
}

std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths) {
  std::map<std::string, std::vector<std::string>> by_stem;
  for (const auto& path : paths) {
    if (!path.ends_with(".gguf")) continue;
    if (is_vision_tower(path) || is_drafter(path) || upper(file_name(path)).find("IMATRIX") != path.npos)
      continue;
    const auto part = parse_part_name(path);
    by_stem[part ? fmt::format("{}-of-{}", part->stem, part->count) : path].push_back(path);
  }
  std::vector<GgufModel> models;
  for (auto& [stem, files] : by_stem) {
    std::ranges::sort(files);
    models.push_back({quant_of(files.front()), files});
  }
  return models;
}

ModelName name_of_gguf(const GgufModel& model, const std::vector<GgufModel>& all, const ModelName& repo) {
  ModelName name{.repo = repo.repo, .revision = repo.revision};
  if (model.quant.empty() || std::ranges::count(all, model.quant, &GgufModel::quant) > 1)
    name.file = model.files.front();
  else
    name.quant = model.quant;
  return name;
}

std::vector<ModelName> names_of_models(const std::vector<std::string>& paths, const ModelName& repo) {
  std::vector<ModelName> names;
  if (!safetensors_of(paths).empty()) names.push_back({.repo = repo.repo, .revision = repo.revision});
  const auto models = gguf_models(paths);
  std::vector<std::string> seen;
  const auto add = [&](const GgufModel& model) {
    if (contains(seen, model.files.front())) return;
    seen.push_back(model.files.front());
    names.push_back(name_of_gguf(model, models, repo));
  };
  for (const char* quant : kUsualQuants)
    for (const GgufModel& model : with_quant(models, quant)) add(model);
  for (const GgufModel& model : models) add(model);
  return names;
}

bool is_config(std::string_view path) {
  constexpr std::string_view kNames[] = {
      "config.json",       "hf_quant_config.json",     "quantize_config.json",
      "quant_config.json", "quantization_config.json", "params.json"};
  return std::ranges::find(kNames, path) != std::end(kNames);
}

Result<ModelFiles> choose_files(const std::vector<std::string>& paths, const ModelName& name, Purpose purpose,
                                const ReadFile& read) {
  ModelFiles choice;
  const auto models = gguf_models(paths);
  const bool safetensors = !safetensors_of(paths).empty();
  if (!name.file.empty()) {
    TRY(choice, choose_named(paths, name));
    if (name.file.ends_with(".gguf")) return with_tower(std::move(choice), paths, purpose);
  } else if (!name.quant.empty() && models.empty()) {
    return make_error(ErrorKind::not_found, "{} has no GGUF files, so no {}: leave :{} out", name.repo,
                      name.quant, name.quant);
  } else if (!models.empty() && (!name.quant.empty() || !safetensors)) {
    TRY(choice, choose_gguf(models, name));
    return with_tower(std::move(choice), paths, purpose);
  } else if (!safetensors) {
    return no_weights(paths, name);
  } else {
    TRY(choice, weight_files(paths, name, purpose, read));
    if (purpose == Purpose::model) TRY_VOID(check_adapters(paths, name, choice.files.front()));
  }
  TRY_VOID(check_side_files(paths, name, purpose));
  for (const auto& path : paths) {
    const bool wanted =
        purpose == Purpose::model ? is_side_file(path) : path == "config.json" || path == kIndexFile;
    if (wanted && !contains(choice.files, path)) choice.files.push_back(path);
  }
  return choice;
}

}  // namespace anabranch::hub
