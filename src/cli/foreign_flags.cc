#include "cli/foreign_flags.h"

#include <algorithm>
#include <cstddef>

namespace anabranch::cli {
namespace {

struct Alias {
  std::string_view theirs, ours;
  std::string_view command = "";  // the only command with this flag; "": serve, chat and generate
};

constexpr Alias kAliases[] = {
    {"--ctx-size", "--context"},
    {"--max-model-len", "--context"},
    {"--max-kv-size", "--context"},
    {"-c", "--context"},
    {"-hf", "--model"},
    {"-hfr", "--model"},
    {"--hf-repo", "--model"},
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
    {"-jf", "--json-schema", "generate"},
    {"--json-schema-file", "--json-schema", "generate"},
    {"--grammar-file", "--grammar", "generate"},
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
    {"--lora-modules", "--lora", "serve"},
    {"--adapter-path", "--lora", "chat"},
    {"--adapter-path", "--lora", "generate"},
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

bool belongs_to(const Alias& alias, std::string_view command) {
  if (!alias.command.empty()) return alias.command == command;
  return std::ranges::find(kShared, command) != std::end(kShared);
}

const Alias* find(std::string_view command, std::string_view flag) {
  for (const Alias& alias : kAliases)
    if (alias.theirs == flag && belongs_to(alias, command)) return &alias;
  return nullptr;
}

struct Instead {
  std::string_view word, advice;
};

constexpr Instead kInstead[] = {
    {"-ngl",
     "a model runs on one device as a whole: --device cuda (docs/gpu.md); experts that do not fit stay in "
     "the machine's memory (--expert-memory)"},
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
     "--memory SIZE limits the memory of running requests, --model-memory that of the weights"},
    {"--tensor-parallel-size", "--devices 0,1 splits a model among GPUs (docs/gpu.md)"},
    {"-tp", "--devices 0,1 splits a model among GPUs (docs/gpu.md)"},
    {"--tensor-split", "--devices 0,1 splits a model among GPUs (docs/gpu.md)"},
    {"-ts", "--devices 0,1 splits a model among GPUs (docs/gpu.md)"},
    {"--split-mode", "--devices 0,1 splits a model among GPUs (docs/gpu.md)"},
    {"-sm", "--devices 0,1 splits a model among GPUs (docs/gpu.md)"},
    {"--main-gpu", "--devices 1 chooses a GPU (docs/gpu.md)"},
    {"-mg", "--devices 1 chooses a GPU (docs/gpu.md)"},
    {"--cpu", "cpu is the default; --device chooses another"},
    {"--gpu", "--device cuda computes on an NVIDIA GPU (docs/gpu.md)"},
    {"--hf-file", "--model takes files of the hub: --model ORG/NAME/FILE.gguf (docs/models.md)"},
    {"-hff", "--model takes files of the hub: --model ORG/NAME/FILE.gguf (docs/models.md)"},
    {"--hf-path", "the source is the first word: anabranch convert SOURCE OUTPUT"},
    {"--mlx-path", "the output is the second word: anabranch convert SOURCE OUTPUT"},
    {"--quantize", "convert quantises unless --bits is 0; leave it out"},
    {"--dtype", "weights have the type of their files; --precise computes in fp32"},
    {"--quantization", "the model's files say how it is quantised; leave it out"},
    {"--enable-lora", "leave it out; --lora NAME=PATH loads an adapter (docs/adapters.md)"},
    {"--max-loras", "leave it out; requests with different adapters run side by side (docs/adapters.md)"},
    {"--max-lora-rank", "leave it out; all ranks up to 1024 are loaded (docs/adapters.md)"},
    {"--lora-scaled", "--lora loads an adapter; \"lora\" in a request scales it (docs/adapters.md)"},
    {"--lora-init-without-apply", "leave it out; requests choose their adapters (docs/adapters.md)"},
    {"--adapter-path",
     "--lora NAME=PATH loads an adapter, which requests name as their model (docs/adapters.md)"},
    {"--mmproj", "an mmproj file beside the model's is found; leave it out (docs/models.md)"},
    {"--enable-auto-tool-choice", "tool calls are always read; leave it out"},
    {"--tool-call-parser", "the model's chat template says how it calls tools; leave it out"},
    {"--reasoning-parser", "the model's chat template says how it thinks; leave it out"},
    {"--reasoning-format", "thoughts are always apart from the answer; --thinking off turns them off"},
    {"--chat-template", "--chat-template-file FILE reads a template from a file"},
    {"--no-mmap", "leave it out; --mlock keeps weights in memory"},
    {"--batch-size", "--prefill-chunk N is the number of tokens of a prompt in one pass"},
    {"-b", "--prefill-chunk N is the number of tokens of a prompt in one pass"},
    {"-cb", "requests always run side by side; --parallel N limits how many"},
    {"--cont-batching", "requests always run side by side; --parallel N limits how many"},
    {"--metrics", "GET /metrics always answers; leave it out"},
    {"--slots", "leave it out; `anabranch status` shows what runs"},
    {"--embedding", "--pooling {cls,last,mean} makes embeddings where the model's files do not say how"},
    {"--embeddings", "--pooling {cls,last,mean} makes embeddings where the model's files do not say how"},
    {"create", "a model's settings stand below [model.NAME] in anabranch.toml (docs/configuration.md)"},
    {"cp", "a [model.NAME] in anabranch.toml gives a model another name (docs/configuration.md)"},
    {"push", "models are only downloaded; upload them with `hf upload`"},
    {"login", "HF_TOKEN in the environment, or `hf auth login`, gives access to models of the hub"},
    {"signin", "HF_TOKEN in the environment, or `hf auth login`, gives access to models of the hub"},
    {"install", "`anabranch pull ORG/NAME` downloads a model"},
    {"get", "`anabranch pull ORG/NAME` downloads a model"},
    {"models", "`anabranch ls` lists the models of this machine"},
    {"load", "`anabranch serve` loads models, and `anabranch chat MODEL` talks to one"},
    {"quantize", "`anabranch convert SOURCE OUTPUT --bits 4` quantises a model"},
    {"version", "`anabranch --version` prints it"},
};

// vLLM's flag takes several values of NAME=PATH. Ours is given for each, so this repeats it.
void repeat_lora_modules(std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--lora-modules";
  bool follows = false;  // the word comes after the flag and perhaps values of it
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with('-')) {
      follows = words[i] == kFlag;
    } else if (follows && words[i - 1] != kFlag && words[i].find('=') != std::string::npos) {
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i), std::string(kFlag));
      ++i;
    }
  }
}

}  // namespace

void use_our_names(std::vector<std::string>& words) {
  repeat_lora_modules(words);
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

std::vector<std::string> foreign_flags_of(std::string_view command) {
  std::vector<std::string> flags;
  for (const Alias& alias : kAliases)
    if (alias.theirs.starts_with("--") && belongs_to(alias, command)) flags.emplace_back(alias.theirs);
  return flags;
}

std::string_view instead_of(std::string_view word) {
  for (const Instead& known : kInstead)
    if (known.word == word) return known.advice;
  return "";
}

}  // namespace anabranch::cli
