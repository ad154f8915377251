#include "cli/launch_programs.h"

#include <algorithm>
#include <regex>

#include "base/json_text.h"

namespace anabranch::cli {
namespace {

constexpr int kAnswerShare = 4;  // an answer may take a quarter of the context

// Merged with the user's own configuration, and with that of the project.
constexpr const char* kOpencode =
    R"({"model": "anabranch/{model}", "small_model": "anabranch/{model}", "provider": {"anabranch": )"
    R"({"npm": "@ai-sdk/openai-compatible", "name": "Anabranch", )"
    R"("options": {"baseURL": "{url}/v1", "apiKey": "{key}"}, )"
    R"("models": {"{model}": {"name": "{model}", "tool_call": true, )"
    R"("limit": {"context": {context}, "output": {output}}}}}}})";

// The key is always in a variable, because others can read command lines.
std::vector<LaunchProgram> make_programs() {
  return {
      {.name = "claude",
       .command = "claude",
       .title = "Claude Code",
       .least_version = "2.0.0",
       .install = "npm install -g @anthropic-ai/claude-code",
       // The user's own ANTHROPIC_API_KEY would be sent to our server.
       .variables = {{"ANTHROPIC_BASE_URL", "{url}"},
                     {"ANTHROPIC_AUTH_TOKEN", "{key}"},
                     {"ANTHROPIC_API_KEY", ""},
                     {"ANTHROPIC_MODEL", "{model}"},
                     {"ANTHROPIC_DEFAULT_OPUS_MODEL", "{model}"},
                     {"ANTHROPIC_DEFAULT_SONNET_MODEL", "{model}"},
                     {"ANTHROPIC_DEFAULT_HAIKU_MODEL", "{model}"},
                     {"CLAUDE_CODE_SUBAGENT_MODEL", "{model}"},
                     {"CLAUDE_CODE_MAX_CONTEXT_TOKENS", "{context}"},
                     // It keeps room for an answer (and 13,000 tokens), and compacts when the rest is full.
                     {"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "{output}"},
                     {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"}}},
      {.name = "codex",
       .command = "codex",
       .title = "Codex",
       .least_version = "0.50.0",
       .install = "npm install -g @openai/codex",
       .variables = {{"ANABRANCH_LAUNCH_KEY", "{key}"}},
       .words = {"-c", R"(model="{model}")", "-c", "model_context_window={context}", "-c",
                 R"(model_provider="anabranch")", "-c", R"(model_providers.anabranch.name="Anabranch")", "-c",
                 R"(model_providers.anabranch.base_url="{url}/v1")", "-c",
                 R"(model_providers.anabranch.wire_api="responses")", "-c",
                 R"(model_providers.anabranch.env_key="ANABRANCH_LAUNCH_KEY")"},
       .repeated = {"-c", "--config"}},
      {.name = "opencode",
       .command = "opencode",
       .title = "opencode",
       .least_version = "1.0.0",
       .install = "npm install -g @opencode/cli",
       .variables = {{"OPENCODE_CONFIG_CONTENT", kOpencode}}},
      {.name = "qwen",
       .command = "qwen",
       .title = "Qwen Code",
       .least_version = "0.5.0",
       .install = "npm install -g @qwen-code/qwen-code",
       .variables = {{"OPENAI_BASE_URL", "{url}/v1"},
                     {"OPENAI_API_KEY", "{key}"},
                     {"OPENAI_MODEL", "{model}"}},
       .words = {"--auth-type", "openai", "--model", "{model}"}},
      {.name = "aider",
       .command = "aider",
       .title = "aider",
       .least_version = "0.60.0",
       .install = "python -m pip install aider-install && aider-install",
       .variables = {{"OPENAI_API_BASE", "{url}/v1"}, {"OPENAI_API_KEY", "{key}"}},
       .words = {"--model", "openai/{model}", "--no-show-model-warnings"}},
  };
}

std::vector<int> numbers_of(const std::string& version) {
  std::vector<int> numbers;
  static const std::regex number("[0-9]+");
  for (std::sregex_iterator at(version.begin(), version.end(), number), end; at != end; ++at)
    numbers.push_back(std::stoi(at->str()));
  return numbers;
}

// The user's arguments with `words` before them, or before each group of the user's own `repeated` options.
std::vector<std::string> joined(const std::vector<std::string>& words,
                                const std::vector<std::string>& repeated,
                                const std::vector<std::string>& arguments) {
  std::vector<std::string> all;
  bool any = false, in_group = false, ended = false;
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::string& argument = arguments[i];
    ended = ended || argument == "--";
    const bool own =
        !ended && std::ranges::any_of(repeated, [&](const auto& name) { return argument.starts_with(name); });
    if (own && !in_group) all.insert(all.end(), words.begin(), words.end());
    any = any || own;
    in_group = own;
    all.push_back(argument);
    const bool has_value = own && std::ranges::find(repeated, argument) != repeated.end();
    if (has_value && i + 1 < arguments.size()) all.push_back(arguments[++i]);
  }
  if (!any) all.insert(all.begin(), words.begin(), words.end());
  return all;
}

}  // namespace

const std::vector<LaunchProgram>& launch_programs() {
  static const std::vector<LaunchProgram> programs = make_programs();
  return programs;
}

std::vector<std::string> launch_names() {
  std::vector<std::string> names;
  for (const LaunchProgram& program : launch_programs()) names.push_back(program.name);
  return names;
}

std::string fill_places(std::string_view text, const LaunchValues& values) {
  const std::pair<std::string_view, std::string> places[] = {
      {"{url}", values.url},
      {"{key}", values.key},
      {"{model}", values.model},
      {"{context}", std::to_string(values.context)},
      {"{output}", std::to_string(values.context / kAnswerShare)},
  };
  std::string out;
  bool quoted = false;
  while (!text.empty()) {
    const auto place = std::ranges::find_if(places, [&](const auto& p) { return text.starts_with(p.first); });
    if (place == std::end(places)) {
      quoted ^= text.front() == '"';
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::string escaped = json_string(place->second);
    out += quoted ? escaped.substr(1, escaped.size() - 2) : place->second;
    text.remove_prefix(place->first.size());
  }
  return out;
}

LaunchProgram with_values(LaunchProgram program, const LaunchValues& values,
                          const std::vector<std::string>& arguments) {
  for (auto& [name, value] : program.variables) value = fill_places(value, values);
  for (std::string& word : program.words) word = fill_places(word, values);
  program.words = joined(program.words, program.repeated, arguments);
  return program;
}

std::string version_in(const std::string& output) {
  static const std::regex version(R"([0-9]{1,9}(\.[0-9]{1,9})+)");
  std::smatch found;
  return std::regex_search(output, found, version) ? found.str() : "";
}

bool is_older(const std::string& version, const std::string& than) {
  std::vector<int> left = numbers_of(version), right = numbers_of(than);
  const size_t size = std::max(left.size(), right.size());
  left.resize(size);  // 2.0 is 2.0.0
  right.resize(size);
  return left < right;
}

}  // namespace anabranch::cli
