#include "cli/peer_flags.h"

#include <algorithm>

namespace anabranch::cli {
namespace {

struct Alias {
  std::string_view theirs, ours;
  std::string_view command = "";  // the only one that has it; "": serve, chat and generate
};

constexpr Alias kAliases[] = {
    {"--ctx-size", "--context"},
    {"--max-model-len", "--context"},
    {"--max-kv-size", "--context"},
    {"-c", "--context"},
    {"--temperature", "--temp"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"--predict", "--max-tokens"},
    {"--n-predict", "--max-tokens"},
    {"--model-draft", "--draft"},
    {"--draft-model", "--draft"},
    {"-md", "--draft"},
    {"--spec-draft-n-max", "--spec-depth"},
    {"--num-draft-tokens", "--spec-depth"},
    {"--draft-max", "--spec-depth"},
    {"--system-prompt", "--system"},
    {"-sys", "--system"},
    {"-j", "--json-schema", "generate"},
    {"--reasoning", "--thinking"},
    {"--reasoning-budget", "--max-thinking-tokens"},
    {"--no-cache-prompt", "--no-cache"},
    {"--ubatch-size", "--prefill-chunk"},
    {"-ub", "--prefill-chunk"},
    {"--prefill-step-size", "--prefill-chunk"},
    {"--max-num-batched-tokens", "--prefill-chunk"},
    {"-np", "--parallel", "serve"},
    {"--max-num-seqs", "--parallel", "serve"},
    {"--decode-concurrency", "--parallel", "serve"},
    {"--alias", "--served-model-name", "serve"},
    {"--ssl-cert-file", "--tls-cert", "serve"},
    {"--ssl-certfile", "--tls-cert", "serve"},
    {"--ssl-key-file", "--tls-key", "serve"},
    {"--ssl-keyfile", "--tls-key", "serve"},
    {"--sleep-idle-seconds", "--unload-after", "serve"},
    {"--q-bits", "--bits", "convert"},
    {"--q-group-size", "--group", "convert"},
};

constexpr std::string_view kShared[] = {"serve", "chat", "generate"};

const Alias* find(std::string_view command, std::string_view flag) {
  const bool shared = std::ranges::find(kShared, command) != std::end(kShared);
  for (const Alias& alias : kAliases)
    if (alias.theirs == flag && (alias.command == command || (alias.command.empty() && shared)))
      return &alias;
  return nullptr;
}

struct Instead {
  std::string_view word, advice;
};

constexpr Instead kInstead[] = {
    {"-ngl",
     "a model runs on one device as a whole: --device cuda (docs/gpu.md); experts that do not fit stay in "
     "the "
     "machine's memory (--expert-memory)"},
    {"--n-gpu-layers", "a model runs on one device as a whole: --device cuda (docs/gpu.md)"},
    {"--gpu-layers", "a model runs on one device as a whole: --device cuda (docs/gpu.md)"},
    {"-hf", "--model takes names of the hub: --model ORG/NAME:QUANT (docs/models.md)"},
    {"--hf-repo", "--model takes names of the hub: --model ORG/NAME:QUANT (docs/models.md)"},
    {"--jinja", "chat templates are always used; leave it out"},
    {"-fa", "attention always computes block by block; leave it out"},
    {"--flash-attn", "attention always computes block by block; leave it out"},
    {"--cache-type-k", "keys and values have the device's type; --precise keeps them in fp32"},
    {"--cache-type-v", "keys and values have the device's type; --precise keeps them in fp32"},
    {"--trust-remote-code", "no code of a model is ever run; leave it out"},
    {"--gpu-memory-utilization",
     "--memory SIZE limits the states of running requests, --model-memory the weights"},
    {"--tensor-parallel-size", "a model runs on one device"},
};

}  // namespace

void use_our_names(std::vector<std::string>& words) {
  std::string command;
  for (std::string& word : words) {
    if (word == "--") return;
    if (command.empty() && !word.starts_with('-')) command = word;
    const size_t equals = word.find('=');
    if (const Alias* alias = find(command, std::string_view(word).substr(0, equals)))
      word = std::string(alias->ours) + (equals == word.npos ? "" : word.substr(equals));
  }
}

std::string our_name(const std::string& command, const std::string& name) {
  const Alias* alias = find(command, "--" + name);
  return alias ? std::string(alias->ours.substr(2)) : name;
}

std::string_view instead_of(std::string_view word) {
  for (const Instead& known : kInstead)
    if (known.word == word) return known.advice;
  return "";
}

}  // namespace anabranch::cli
