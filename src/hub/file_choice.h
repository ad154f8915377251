// Which files of a repository a model consists of. The same rules choose from the hub's list and from a
// snapshot in the store, so a stored model is complete when they find everything there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/model_name.h"

namespace anabranch::hub {

enum class Purpose {
  model,     // everything that running it takes
  mtp_head,  // what `convert --mtp-from` reads: config.json and the weights that hold mtp.*
};

struct FileChoice {
  std::vector<std::string> files;  // what has to be there
  std::string main;  // the file that stands for the model (GGUF, or a named one); "": the directory does
};

// The text of a file of the repository.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// A GGUF model to be run comes with a vision tower where there is one, in its folder or at the top: in 16
// bits if possible, then in 8, and in 32 only if there is no other. `paths`: all files, sorted. `read` is
// called for model.safetensors.index.json at most. Errors: not_found (no such file or quantisation; parts are
// missing; the nearest names are given), invalid (the named file is a vision tower), unsupported (neither
// safetensors nor GGUF), and what `read` fails with.
Result<FileChoice> choose_files(const std::vector<std::string>& paths, const ModelName& name, Purpose purpose,
                                const ReadFile& read);

// The quantisation that the name of a GGUF file tells, in capitals ("Q4_K_M", "UD-Q4_K_XL", "BF16"); "":
// none.
std::string quant_of(std::string_view path);

// Whether the path is that of a GGUF file with a vision tower, "mmproj*.gguf" (in capitals or not).
bool is_vision_tower(std::string_view path);

// A GGUF model of a repository: one file, or all parts of a split one, in order.
struct GgufModel {
  std::string quant;
  std::vector<std::string> files;
};
// Without projectors of images and importance matrices. Of incomplete sets of parts, what is there.
std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths);

}  // namespace anabranch::hub
