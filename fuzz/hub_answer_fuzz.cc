// What the hub answers: a repository, a list of models, an index of weights; and names of models.
#include <cstdlib>
#include <string_view>

#include "hub/model_name.h"
#include "hub/repository.h"
#include "hub/weight_map.h"

using namespace anabranch::hub;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto repository = parse_repository(text))
    for (const RepoFile& file : repository->files)
      if (!is_safe_path(file.path) || (file.oid.size() != 40 && file.oid.size() != 64)) std::abort();
  for (const auto& name : parse_model_list(text, 10))
    if (!parse_model_name(name)) std::abort();
  if (const auto map = parse_weight_map(text))
    for (const auto& file : map->files)
      if (!is_safe_path(file)) std::abort();
  if (const auto name = parse_model_name(text)) {
    const auto again = parse_model_name(name->text());
    if (!again || again->repo != name->repo || again->revision != name->revision) std::abort();
    if (!name->file.empty() && !is_safe_path(name->file)) std::abort();
  }
  return 0;
}
