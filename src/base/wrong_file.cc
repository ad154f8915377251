#include "base/wrong_file.h"

#include <algorithm>

#include "base/lower_case.h"

namespace anabranch {
namespace {

constexpr size_t kLooked = 256;

// "<!DOCTYPE html>" or "<html>", in upper or lower case and after white space.
bool is_web_page(std::string_view text) {
  const std::string low = lower_case(text.substr(0, kLooked));
  const size_t at = low.find_first_not_of(" \t\r\n");
  return at != low.npos && (low.compare(at, 9, "<!doctype") == 0 || low.compare(at, 5, "<html") == 0);
}

}  // namespace

std::string what_it_is_instead(std::string_view text) {
  if (text.empty()) return "; it is empty: download it again";
  if (text.starts_with("version https://git-lfs"))
    return "; it is a Git LFS pointer instead of the file: run `git lfs pull` in its folder, or download the "
           "model with `anabranch pull ORG/NAME`";
  if (is_web_page(text))
    return "; it is a web page: download the file itself (on the hub, behind \"download\" instead of the "
           "file's page), or use `anabranch pull ORG/NAME`";
  if (text.starts_with("GGUF")) return "; it is a GGUF file: give it a name that ends with .gguf";
  if (text.starts_with("PK\3\4") || text.starts_with("\x80\x02"))
    return "; it is a PyTorch or ZIP file: only safetensors and GGUF are read. Many models have both; else "
           "save it as safetensors with Python's transformers (save_pretrained())";
  if (text.starts_with("lmgg") || text.starts_with("tjgg") || text.starts_with("fmgg"))
    return "; it is a GGML file, the forerunner of GGUF: download the model as GGUF";
  return "";
}

std::string what_it_is_instead(std::span<const std::byte> bytes) {
  return what_it_is_instead(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kLooked)));
}

}  // namespace anabranch
