// Chooses the files of a repository that make up a model. The same rules apply to the hub's list and to a
// snapshot in the store, so a stored model is complete if the snapshot has all chosen files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/model_name.h"

namespace anabranch::hub {

// The list of a repository's tensors and their files.
constexpr const char* kIndexFile = "model.safetensors.index.json";

enum class Purpose {
  model,     // everything needed to run it
  mtp_head,  // what `convert --mtp-from` reads: config.json and the weights with mtp.*
};

struct ModelFiles {
  std::vector<std::string> files;  // required files
  std::string main;     // the file that stands for the model (GGUF, or a named one); "": the directory
  std::string index{};  // the text of kIndexFile, if the choice depends on it
  std::vector<std::string> telling{};  // subset of `files`, see WeightMap; empty without an index
};

// Returns the text of a file of the repository.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// A GGUF model to be run comes with a vision tower if there is one, in its folder or at the top: in 16 bits
// if possible, then in 8, and in 32 only if there is no other. `paths`: all files, sorted. `read` is called
// at most for model.safetensors.index.json. Errors: not_found (no such file or quantisation; parts are
// missing; the nearest names are given), invalid (the named file is a vision tower), unsupported (neither
// safetensors nor GGUF, no config.json or tokenizer, a drafter), and errors of `read`.
Result<ModelFiles> choose_files(const std::vector<std::string>& paths, const ModelName& name, Purpose purpose,
                                const ReadFile& read);

// The quantisation in the name of a GGUF file, in capitals ("Q4_K_M", "UD-Q4_K_XL", "I1-Q4_K_M", "BF16"); "":
// none.
std::string quant_of(std::string_view path);

// Whether the path is a GGUF file with a vision tower: its name contains "mmproj" (ignoring case).
bool is_vision_tower(std::string_view path);
// Whether the path is a GGUF file that drafts tokens for another model: "mtp-*.gguf" and similar names, or in
// a folder MTP.
bool is_drafter(std::string_view path);

// A GGUF model of a repository: one file, or all parts of a split one, in order.
struct GgufModel {
  std::string quant;
  std::vector<std::string> files;
};
// All GGUF models, without vision towers, drafters and importance matrices. Of an incomplete set of parts,
// the existing parts.
std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths);
// The name of one of a repository's GGUF models: with its quantisation, or with its file if the quantisation
// is ambiguous. `repo`: repository and revision.
ModelName name_of_gguf(const GgufModel& model, const std::vector<GgufModel>& all, const ModelName& repo);
// The names of all models of a repository, the best choice first: its safetensors model, if any, and then its
// GGUF files.
std::vector<ModelName> names_of_models(const std::vector<std::string>& paths, const ModelName& repo);

// Files beside the weights that describe how to read them: config.json and those of quantisations.
bool is_config(std::string_view path);

}  // namespace anabranch::hub
