// Names of models on the hub, as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anabranch::hub {

struct ModelName {
  std::string repo;               // "org/name"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string quant;              // of a GGUF repository, such as "Q4_K_M"; "": chosen
  std::string file;               // one file of the repository, such as "Q4/model.gguf"; "": chosen

  // The shortest way to write it.
  std::string text() const;
};

// What parse_model_name takes, for messages.
constexpr const char* kNameForms =
    "ORG/NAME, ORG/NAME:QUANT, ORG/NAME/FILE.gguf, each with @REVISION if wanted";

// ORG/NAME, ORG/NAME:QUANT, ORG/NAME:FILE or ORG/NAME/FILE, where FILE ends in .gguf or .safetensors.
// "@REVISION" may follow NAME or stand at the end; "hf.co/" or "https://huggingface.co/" may stand before,
// and then the addresses of the hub's pages are taken as well. The tag "latest" means nothing. None: the text
// has another form (a path, say; advice_on() of hub/address.h says what to do).
std::optional<ModelName> parse_model_name(std::string_view text);

// Whether the text is a commit's full name: 40 hexadecimal digits.
bool is_commit(std::string_view text);

// Whether a path from outside stays within the directory that it is added to: relative, without "." and "..",
// empty parts, backslashes and control characters, and not too long.
bool is_safe_path(std::string_view path);

}  // namespace anabranch::hub
