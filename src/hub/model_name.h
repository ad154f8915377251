// Names of models on the hub, as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anabranch::hub {

struct ModelName {
  std::string repo;               // "org/name"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string quant;              // in a GGUF repository, such as "Q4_K_M"; "": chosen automatically
  std::string file;  // one file of the repository, such as "Q4/model.gguf"; "": chosen automatically

  // The shortest text for this name.
  std::string text() const;
};

// The formats that parse_model_name() accepts, for messages.
constexpr const char* kNameForms =
    "ORG/NAME, ORG/NAME:QUANT, ORG/NAME/FILE.gguf, each with @REVISION if wanted";

// Accepts ORG/NAME, ORG/NAME:QUANT, ORG/NAME:FILE or ORG/NAME/FILE, where FILE ends in .gguf or .safetensors.
// "@REVISION" may follow NAME or stand at the end. After "hf.co/" or "https://huggingface.co/" the addresses
// of the hub's pages are accepted as well. The tag "latest" is ignored. None: the text has another format (a
// path, say; advice_on() of hub/address.h says what to do).
std::optional<ModelName> parse_model_name(std::string_view text);

// Whether the text is a full commit id: 40 hexadecimal digits.
bool is_commit(std::string_view text);

// Whether a path from outside stays within the directory that it is added to: relative, without "." and "..",
// empty parts, backslashes and control characters, and not too long.
bool is_safe_path(std::string_view path);

}  // namespace anabranch::hub
