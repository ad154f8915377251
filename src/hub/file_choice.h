// Which files of a repository a model consists of. The same rules choose from the hub's list and from a
// snapshot in the store, so a stored model is complete when they find everything there.
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
  model,     // everything that running it takes
  mtp_head,  // what `convert --mtp-from` reads: config.json and the weights that hold mtp.*
};

struct FileChoice {
  std::vector<std::string> files;  // what has to be there
  std::string main;     // the file that stands for the model (GGUF, or a named one); "": the directory does
  std::string index{};  // the text of kIndexFile, if it decided
  std::vector<std::string> telling{};  // of `files`, as in WeightMap; empty without an index
};

// The text of a file of the repository.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// A GGUF model to be run comes with a vision tower where there is one, in its folder or at the top: in 16
// bits if possible, then in 8, and in 32 only if there is no other. `paths`: all files, sorted. `read` is
// called for model.safetensors.index.json at most. Errors: not_found (no such file or quantisation; parts are
// missing; the nearest names are given), invalid (the named file is a vision tower), unsupported (neither
// safetensors nor GGUF, no config.json or tokenizer, a drafter), and what `read` fails with.
Result<FileChoice> choose_files(const std::vector<std::string>& paths, const ModelName& name, Purpose purpose,
                                const ReadFile& read);

// The quantisation that the name of a GGUF file tells, in capitals ("Q4_K_M", "UD-Q4_K_XL", "I1-Q4_K_M",
// "BF16"); "": none.
std::string quant_of(std::string_view path);

// Whether the path is that of a GGUF file with a vision tower: "mmproj" is in its name (in capitals or not).
bool is_vision_tower(std::string_view path);
// Whether it is that of a GGUF file that drafts tokens for another model: "mtp-*.gguf" and its like, or in a
// folder MTP.
bool is_drafter(std::string_view path);

// A GGUF model of a repository: one file, or all parts of a split one, in order.
struct GgufModel {
  std::string quant;
  std::vector<std::string> files;
};
// Without vision towers, drafters and importance matrices. Of incomplete sets of parts, what is there.
std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths);
// The name of one of a repository's GGUF models: with its quantisation, or with its file where that is not
// enough. `repo`: repository and revision.
ModelName name_of_gguf(const GgufModel& model, const std::vector<GgufModel>& all, const ModelName& repo);
// The names of all models of a repository, the best choice first: those of its GGUF files, and before them
// its safetensors files if it has any.
std::vector<ModelName> names_of_models(const std::vector<std::string>& paths, const ModelName& repo);

// Files beside the weights that are needed to know how these are to be read: config.json and those of
// quantisations.
bool is_config(std::string_view path);

}  // namespace anabranch::hub
