// Repositories that usually have the same model in a format that can be run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch::hub {

// A repository's name without the words for how its weights are stored: "Qwen3-8B" from "Qwen3-8B-AWQ" or
// "Qwen3-8B-exl2-4.0bpw". At least the first character remains.
std::string model_without_format(std::string_view name);

// Names of repositories that usually have the same model as `repo` in a format that can be run, the likeliest
// first, at most `most`. base_model: the repository that `repo` was made from; "": unknown.
std::vector<std::string> sister_repositories(const std::string& repo, const std::string& base_model,
                                             size_t most);

}  // namespace anabranch::hub
