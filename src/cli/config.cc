// Where the values of flags come from: the configuration's part of a command line, and `config show`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/json.h"
#include "cli/first_words.h"
#include "cli/foreign_flags.h"
#include "cli/print.h"
#include "cli/program.h"
#include "cli/serve_flags.h"
#include "cli/tuning.h"

namespace anabranch::cli {
namespace {

// Adds flags after the other flags but before "--", because words after it are not flags.
void add_flags(std::vector<std::string>& words, const std::vector<std::string>& flags) {
  words.insert(std::ranges::find(words, "--"), flags.begin(), flags.end());
}

// Parses the user's own arguments. Errors are ignored here; the real parse reports them.
void parse_leniently(Program& program, const std::vector<std::string>& words) {
  const auto relax = [](CLI::App* app) {
    app->require_subcommand(0);
    for (CLI::Option* option : app->get_options()) option->required(false);
  };
  relax(&program.app);
  for (CLI::App* command : program.app.get_subcommands({})) relax(command);
  try {
    program.app.parse(words_to_parse(words));
  } catch (const CLI::Error&) {
  }
}

std::string model_of(const CLI::App& command) {
  const CLI::Option* model = command.get_option_no_throw("--model");
  return model && model->count() > 0 ? model->results().front() : "";
}

std::vector<std::string> files_of(const Program& given) {
  std::vector<std::string> files;
  if (std::string user = user_settings_file(); !user.empty()) files.push_back(std::move(user));
  const char* variable = std::getenv("ANABRANCH_CONFIG");
  if (std::string named = given.settings_file.empty() && variable ? variable : given.settings_file;
      !named.empty())
    files.push_back(std::move(named));
  return files;
}

// The settings for the command's flags, including those of the model. If `model` is empty, it is the model
// that a configuration file or the environment names.
SettingTable settings_for(const CLI::App& command, const Settings& settings, std::string model) {
  if (model.empty())
    if (const auto table = settings_of(command, settings, ""); table.contains("model"))
      model = table.at("model").values.front();
  return settings_of(command, settings, model);
}

// The settings that `doctor --tune` found for a model on this machine.
SettingTable tuned_for(const std::string& model, const Settings& settings, const std::string& device) {
  if (model.empty()) return {};
  const auto named = settings.models.find(model);
  const auto path = locate_model(named == settings.models.end() ? model : named->second.path,
                                 hub::Purpose::model, IfMissing::refuse);
  return path ? read_tuning(tuning_file(*path, device)) : SettingTable();
}

// Whether its value may hold a key or a password.
bool is_secret(const std::string& flag) {
  return flag == "api-key" || flag == "otlp";
}

struct Shown {
  std::string flag, value, origin;
};

std::vector<Shown> shown_values(const ConfigOptions& options, const std::string& file) {
  Program program(true);
  program.settings_file = file;
  std::vector<Shown> out;
  const auto settings = read_settings(files_of(program), program.app);
  if (!settings) return out;
  const CLI::App& serve = *program.app.get_subcommand("serve");
  const SettingTable table = settings_for(serve, *settings, options.model);
  const std::string device = table.contains("device") ? table.at("device").values.front() : "cpu";
  SettingTable found = machine_settings(device);
  for (auto& [flag, setting] : tuned_for(options.model, *settings, device)) found[flag] = std::move(setting);
  for (const CLI::Option* option : serve.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    const std::string& flag = option->get_lnames().front();
    if (const auto set = table.find(flag); set != table.end())
      out.push_back({flag,
                     is_secret(flag) ? "(not shown)" : fmt::format("{}", fmt::join(set->second.values, ", ")),
                     set->second.origin});
    else if (const auto here = found.find(flag); here != found.end())
      out.push_back({flag, here->second.values.front(), here->second.origin});
    else
      out.push_back({flag, option->get_default_str(), "default"});
  }
  return out;
}

struct FlagNames {
  std::vector<std::string> with_value, without_value;
};

// The flags of `serve` that describe the model of the command line, with their dashes.
FlagNames names_of_model_flags() {
  ServeOptions unused;
  FlagNames out;
  for (const FlagGroup& group : serve_flags(unused))
    for (const Flag& flag : group.flags)
      if (flag.of_model)
        for (const std::string& name : CLI::detail::split_names(flag.names))
          (flag.is_switch ? out.without_value : out.with_value).push_back(name);
  return out;
}

}  // namespace

std::vector<std::string> words_to_parse(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  const auto last_flag = std::ranges::find(words, "--");
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool empty_value = word < last_flag && word->starts_with("--") && word->size() > 3 &&
                             word->find('=') == word->size() - 1;
    out.push_back(empty_value ? word->substr(0, word->size() - 1) : *word);
    if (empty_value) out.emplace_back();
  }
  std::ranges::reverse(out);
  return out;
}

Result<Arguments> with_settings(int argc, const char* const* argv) {
  Arguments out;
  out.own = {argv + std::min(argc, 1), argv + argc};
  out.passed_on = take_passed_on(out.own);
  use_our_commands(out.own);
  use_our_names(out.own);
  out.words = out.own;
  Program given;
  parse_leniently(given, out.words);
  TRY(out.settings, read_settings(files_of(given), given.app));
  for (const Program::Command& command : given.commands) {
    if (!*command.app) continue;
    out.used = settings_for(*command.app, out.settings, model_of(*command.app));
    const CLI::App* chosen = command.app;
    while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
    add_flags(out.words, as_arguments(out.used, *chosen));
  }
  return out;
}

std::vector<std::string> serve_words(const Arguments& arguments, const std::string& model) {
  const FlagNames of_model = names_of_model_flags();
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.own.size(); i++) {
    const std::string& word = arguments.own[i];
    if (std::ranges::find(of_model.without_value, word) != of_model.without_value.end()) continue;
    if (std::ranges::find(of_model.with_value, word) != of_model.with_value.end()) {
      i++;  // skips its value
      continue;
    }
    const bool attached = std::ranges::any_of(of_model.with_value, [&](const std::string& flag) {
      return flag.starts_with("--") ? word.starts_with(flag + "=")
                                    : word.starts_with(flag) && !word.starts_with("--");
    });
    if (!attached) words.push_back(word);
  }
  add_flags(words, {"--model=" + model});
  Program given;
  parse_leniently(given, words);
  const CLI::App& serve = *given.app.get_subcommand("serve");
  SettingTable table = settings_of(serve, arguments.settings, model);
  // An adapter has one model: those of [server] and of the environment belong to the model of the command
  // line.
  table.erase("lora");
  if (const auto own = arguments.settings.models.find(model); own != arguments.settings.models.end())
    if (const auto lora = own->second.flags.find("lora"); lora != own->second.flags.end())
      table.insert(*lora);
  add_flags(words, as_arguments(table, serve));
  return words;
}

int run_config(const ConfigOptions& options, const std::string& settings_file) {
  const auto rows = shown_values(options, settings_file);
  if (options.json) {
    Json all = Json::object();
    for (const auto& [flag, value, origin] : rows) all[flag] = {{"value", value}, {"origin", origin}};
    say_json(all, 2);
    return 0;
  }
  for (const auto& [flag, value, origin] : rows)
    say("{:<28} {:<32} {}\n", flag, value.empty() ? "-" : value, origin);
  return 0;
}

}  // namespace anabranch::cli
