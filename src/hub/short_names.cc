#include "hub/short_names.h"

#include <fmt/core.h>

#include "base/lower_case.h"
#include "hub/address.h"

namespace anabranch::hub {
namespace {

struct ShortName {
  std::string_view name, size;  // the first size listed for a name is its default
  std::string_view repository;
};

constexpr ShortName kNames[] = {{"llama3.2", "3b", "unsloth/Llama-3.2-3B-Instruct-GGUF"},
                                {"llama3.2", "1b", "unsloth/Llama-3.2-1B-Instruct-GGUF"},
                                {"llama3.1", "8b", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF"},
                                {"llama3.1", "70b", "bartowski/Meta-Llama-3.1-70B-Instruct-GGUF"},
                                {"llama3.3", "70b", "unsloth/Llama-3.3-70B-Instruct-GGUF"},
                                {"llama3", "8b", "bartowski/Meta-Llama-3-8B-Instruct-GGUF"},
                                {"qwen3.5", "9b", "unsloth/Qwen3.5-9B-GGUF"},
                                {"qwen3.5", "0.8b", "unsloth/Qwen3.5-0.8B-GGUF"},
                                {"qwen3.5", "2b", "unsloth/Qwen3.5-2B-GGUF"},
                                {"qwen3.5", "4b", "unsloth/Qwen3.5-4B-GGUF"},
                                {"qwen3.5", "27b", "unsloth/Qwen3.5-27B-GGUF"},
                                {"qwen3.6", "35b", "unsloth/Qwen3.6-35B-A3B-GGUF"},
                                {"qwen3.6", "27b", "unsloth/Qwen3.6-27B-GGUF"},
                                {"qwen3", "8b", "Qwen/Qwen3-8B-GGUF"},
                                {"qwen3", "0.6b", "Qwen/Qwen3-0.6B-GGUF"},
                                {"qwen3", "1.7b", "Qwen/Qwen3-1.7B-GGUF"},
                                {"qwen3", "4b", "Qwen/Qwen3-4B-GGUF"},
                                {"qwen3", "14b", "Qwen/Qwen3-14B-GGUF"},
                                {"qwen3", "30b", "Qwen/Qwen3-30B-A3B-GGUF"},
                                {"qwen3", "32b", "Qwen/Qwen3-32B-GGUF"},
                                {"qwen3-coder", "30b", "unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF"},
                                {"qwen2.5", "7b", "Qwen/Qwen2.5-7B-Instruct-GGUF"},
                                {"qwen2.5", "0.5b", "Qwen/Qwen2.5-0.5B-Instruct-GGUF"},
                                {"qwen2.5", "1.5b", "Qwen/Qwen2.5-1.5B-Instruct-GGUF"},
                                {"qwen2.5", "3b", "Qwen/Qwen2.5-3B-Instruct-GGUF"},
                                {"qwen2.5", "14b", "Qwen/Qwen2.5-14B-Instruct-GGUF"},
                                {"qwen2.5-coder", "7b", "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF"},
                                {"qwen2.5-coder", "0.5b", "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"},
                                {"qwen2.5-coder", "1.5b", "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"},
                                {"qwen2.5-coder", "3b", "Qwen/Qwen2.5-Coder-3B-Instruct-GGUF"},
                                {"qwen2.5-coder", "14b", "Qwen/Qwen2.5-Coder-14B-Instruct-GGUF"},
                                {"qwen2.5-coder", "32b", "Qwen/Qwen2.5-Coder-32B-Instruct-GGUF"},
                                {"gemma3", "4b", "unsloth/gemma-3-4b-it-GGUF"},
                                {"gemma3", "270m", "unsloth/gemma-3-270m-it-GGUF"},
                                {"gemma3", "1b", "unsloth/gemma-3-1b-it-GGUF"},
                                {"gemma3", "12b", "unsloth/gemma-3-12b-it-GGUF"},
                                {"gemma3", "27b", "unsloth/gemma-3-27b-it-GGUF"},
                                {"gemma2", "9b", "bartowski/gemma-2-9b-it-GGUF"},
                                {"gemma2", "2b", "bartowski/gemma-2-2b-it-GGUF"},
                                {"gemma2", "27b", "bartowski/gemma-2-27b-it-GGUF"},
                                {"mistral", "7b", "bartowski/Mistral-7B-Instruct-v0.3-GGUF"},
                                {"mistral-nemo", "12b", "bartowski/Mistral-Nemo-Instruct-2407-GGUF"},
                                {"mistral-small", "24b", "unsloth/Mistral-Small-3.2-24B-Instruct-2506-GGUF"},
                                {"mixtral", "8x7b", "TheBloke/Mixtral-8x7B-Instruct-v0.1-GGUF"},
                                {"smollm2", "1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF"},
                                {"smollm2", "135m", "unsloth/SmolLM2-135M-Instruct-GGUF"},
                                {"deepseek-r1", "8b", "unsloth/DeepSeek-R1-0528-Qwen3-8B-GGUF"},
                                {"deepseek-r1", "1.5b", "unsloth/DeepSeek-R1-Distill-Qwen-1.5B-GGUF"},
                                {"deepseek-r1", "7b", "unsloth/DeepSeek-R1-Distill-Qwen-7B-GGUF"},
                                {"deepseek-r1", "14b", "unsloth/DeepSeek-R1-Distill-Qwen-14B-GGUF"},
                                {"deepseek-r1", "32b", "unsloth/DeepSeek-R1-Distill-Qwen-32B-GGUF"},
                                {"smollm2", "360m", "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF"}};

// Families of models that cannot run here.
constexpr std::string_view kOthers[] = {"phi",  "gpt-oss",  "llama4",  "deepseek-v", "command-r", "glm",
                                        "kimi", "nemotron", "granite", "qwen3-vl",   "minimax",   "olmo",
                                        "lfm",  "falcon",   "gemma3n", "starcoder",  "llava"};

}  // namespace

std::string where_is(std::string_view short_name) {
  const std::string text = lower_case(short_name);
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  // A tag such as "7b-instruct-q4_K_M" begins with the size.
  std::string size = colon == text.npos ? "" : text.substr(colon + 1);
  size = size.substr(0, size.find('-'));
  if (size == "latest") size.clear();
  for (const ShortName& one : kNames)
    if (one.name == name && (size.empty() || one.size == size))
      return fmt::format("on the hub it is {}", one.repository);
  for (const std::string_view family : kOthers)
    if (name.starts_with(family)) return "models of this family do not run here yet";
  return "";
}

}  // namespace anabranch::hub
