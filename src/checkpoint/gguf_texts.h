// Arrays of texts among the metadata of a GGUF file. A vocabulary has half a million of them, so they are not
// copied from the file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

using GgufTexts = std::map<std::string, std::vector<std::string_view>, std::less<>>;  // by key

}  // namespace anabranch
