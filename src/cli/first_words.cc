#include "cli/first_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/locate.h"

namespace anabranch::cli {
namespace {

constexpr std::pair<std::string_view, std::string_view> kCommands[] = {
    {"list", "ls"}, {"ps", "status"}, {"server", "serve"}, {"download", "pull"}, {"remove", "rm"}};
// Sub-commands that may be followed by a model without its flag.
constexpr std::string_view kWithModel[] = {"chat", "serve",     "mcp",    "bench",
                                           "eval", "calibrate", "verify", "doctor"};

bool is_flag(const std::string& word) {
  return word.starts_with('-') && word.size() > 1;
}

// The sub-command's place: after the program's own flags.
size_t command_at(const std::vector<std::string>& words) {
  size_t at = 0;
  while (at < words.size() && is_flag(words[at])) at += words[at] == "--config" ? 2 : 1;
  return std::min(at, words.size());
}

// `run MODEL` becomes `chat`, `run MODEL "PROMPT"` becomes `generate`.
void use_run(std::vector<std::string>& words, size_t at) {
  const bool model = at + 1 < words.size() && !is_flag(words[at + 1]);
  const bool prompt = model && at + 2 < words.size() && !is_flag(words[at + 2]);
  words[at] = prompt ? "generate" : "chat";
  if (prompt) words.insert(words.begin() + static_cast<ptrdiff_t>(at) + 1, "--model");
}

void use_help(std::vector<std::string>& words, size_t at) {
  words.erase(words.begin() + static_cast<ptrdiff_t>(at));
  words.push_back("--help");
}

// A model on this machine, by the shortest name that finds it.
std::string a_model() {
  if (const auto stored = stored_models())
    for (const auto& model : *stored)
      if (model.problem.empty()) return model.name;
  const auto own = model_of_clone();
  return own ? own->name : "";
}

}  // namespace

std::vector<std::string> take_passed_on(std::vector<std::string>& words) {
  const size_t at = command_at(words);
  const auto mark = std::find(words.begin() + static_cast<ptrdiff_t>(at), words.end(), "--");
  if (at == words.size() || words[at] != "launch" || mark == words.end()) return {};
  std::vector<std::string> rest(mark + 1, words.end());
  words.erase(mark, words.end());
  return rest;
}

void use_our_commands(std::vector<std::string>& words) {
  const size_t at = command_at(words);
  if (at == words.size()) return;
  for (const auto& [theirs, ours] : kCommands)
    if (words[at] == theirs) words[at] = ours;
  if (words[at] == "help") return use_help(words, at);
  if (words[at] == "run") use_run(words, at);
  const bool takes_model = std::ranges::find(kWithModel, words[at]) != std::end(kWithModel);
  if (takes_model && at + 1 < words.size() && !is_flag(words[at + 1]))
    words.insert(words.begin() + static_cast<ptrdiff_t>(at) + 1, "--model");
}

std::string first_steps() {
  std::string model = a_model(), out;
  if (model.empty()) {
    model = "mlx-community/Qwen3.5-0.8B-4bit";
    out = "There is no model on this machine yet. This offers some that suit it:\n  anabranch chat\n\n";
  }
  return out + fmt::format(
                   "Talk to a model:        anabranch chat {0}\n"
                   "Answer one question:    anabranch run {0} \"Why is the sky blue?\"\n"
                   "Serve page and APIs:    anabranch serve {0}\n"
                   "Models that are here:   anabranch ls\n"
                   "All commands:           anabranch help\n",
                   model);
}

}  // namespace anabranch::cli
