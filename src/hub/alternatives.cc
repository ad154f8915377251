#include "hub/alternatives.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/lower_case.h"
#include "hub/address.h"

namespace anabranch::hub {
namespace {

// Words at the end of a name that describe how weights are stored. After a "*" any text may follow.
constexpr std::string_view kFormats[] = {
    "gguf",        "awq",     "gptq*",      "exl2*",      "exl3*",     "hqq*",  "aqlm*",   "quark*",
    "torchao*",    "bitnet*", "fp8*",       "fp4*",       "nvfp4",     "mxfp*", "int4*",   "int8*",
    "w4a*",        "w8a*",    "bnb",        "nf4",        "marlin",    "mlx",   "onnx*",   "lora",
    "dwq",         "qat",     "autoround*", "quantized*", "dynamic",   "4bit*", "8bit*",   "2bit*",
    "3bit*",       "5bit*",   "6bit*",      "4bpw*",      "sym",       "asym",  "adapter", "openvino",
    "safetensors", "bf16",    "fp16",       "f16",        "h6",        "h8",    "128g",    "g128",
    "imatrix",     "i1",      "unsloth",    "qlora",      "executorch"};

// "4.0bpw", "4bit", "6_5bpw", "2.25bpw_h6": a number of bits.
bool is_bits(std::string_view word) {
  const size_t digits = std::min(word.find_first_not_of("0123456789._"), word.size());
  return digits > 0 && (word.substr(digits).starts_with("bpw") || word.substr(digits).starts_with("bit"));
}

bool is_format(const std::string& word) {
  if (is_bits(word)) return true;
  return std::ranges::any_of(kFormats, [&](std::string_view format) {
    if (!format.ends_with('*')) return word == format;
    return word.starts_with(format.substr(0, format.size() - 1));
  });
}

}  // namespace

std::string model_without_format(std::string_view name) {
  // "4-bit" consists of two words.
  while (true) {
    const size_t mark = name.find_last_of("-_");
    if (mark == name.npos || mark == 0) break;
    const std::string word = lower_case(name.substr(mark + 1));
    const bool bits_apart = word == "bit" || word == "bits" || word == "bpw";
    const size_t before = bits_apart ? name.find_last_of("-_", mark - 1) : name.npos;
    const bool number =
        before != name.npos && before > 0 && std::isdigit(static_cast<unsigned char>(name[before + 1]));
    if (number)
      name = name.substr(0, before);
    else if (is_format(word))
      name = name.substr(0, mark);
    else
      break;
  }
  return std::string(name);
}

std::vector<std::string> sister_repositories(const std::string& repo, const std::string& base_model,
                                             size_t most) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (names.size() < most && name != repo && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  };
  const auto split = [](const std::string& name) {
    const size_t slash = name.find('/');
    return std::pair(name.substr(0, slash), model_without_format(std::string_view(name).substr(slash + 1)));
  };
  const auto [org, model] = split(repo);
  const auto [base_org, base] = split(base_model.empty() ? org + "/" + model : base_model);
  add(org + "/" + model + "-GGUF");
  add(base_org + "/" + base + "-GGUF");
  add("unsloth/" + base + "-GGUF");
  add("bartowski/" + base + "-GGUF");
  add("bartowski/" + base_org + "_" + base + "-GGUF");
  add("ggml-org/" + base + "-GGUF");
  add("mlx-community/" + base + "-4bit");
  add(base_org + "/" + base);
  add(org + "/" + model);
  return names;
}

}  // namespace anabranch::hub
