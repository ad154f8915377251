
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "base/nearest.h"
#include "cli/choose_model.h"
#include "cli/conversation.h"
#include "cli/first_words.h"
#include "cli/flags.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/tuning.h"

namespace anabranch::cli {
namespace {

// Adds a hint if a configured model has a similar name.
Error with_models(Error error, const std::string& name, const Settings& settings) {
  std::vector<std::string> names;
  for (const auto& [known, model] : settings.models) names.push_back(known);
  error.message += did_you_mean(name, names);
  return error;
}

// Replaces names of [model.NAME] by their paths, then every model by the path to open.
Result<void> locate(Program& program, const Program::Command& command, const Settings& settings) {
  for (const Program::Located& located : command.locates) {
    if (located.model->empty()) continue;
    if (const auto named = settings.models.find(*located.model); named != settings.models.end()) {
      if (located.model == &program.serve.engine.model_path && program.serve.engine.model_name.empty())
        program.serve.engine.model_name = named->first;
      *located.model = named->second.path;
    }
    auto path = locate_model(*located.model, located.purpose, located.missing);
    if (!path) return with_models(path.error(), *located.model, settings);
    *located.model = std::move(*path);
  }
  return {};
}

// Without --model: offers models, and sets --model and --device as the choice says.
Result<void> offer_models(const Program::Command& command) {
  if (!command.choice || command.app->get_option("--model")->count() > 0) return {};
  EngineOptions& engine = *command.choice->engine;
  const bool any_device = command.app->get_option("--device")->count() == 0;
  TRY(const ModelChoice choice,
      choose_model(command.app->get_name(), engine.device, any_device, *command.choice->yes));
  engine.model_path = choice.model;
  set_unset_flags(*command.app, {{"device", {{choice.device}, "this machine"}}});
  return {};
}

// Uses the results of `doctor --tune` for flags that nobody has set.
void use_tuning(const Program& program, const Program::Command& command) {
  const CLI::Option* model = command.app->get_option_no_throw("--model");
  const CLI::Option* device = command.app->get_option_no_throw("--device");
  const std::string name = command.app->get_name();
  if (program.no_auto_tune || !model || !device || (name != "serve" && name != "chat" && name != "generate"))
    return;
  const std::string& path = *command.locates.front().model;
  if (path.empty()) return;
  const std::string on = device->count() > 0 ? device->results().front() : "cpu";
  set_unset_flags(*command.app, read_tuning(tuning_file(path, on)));
}

// Sets flags that nobody has set as --lean says. Runs before use_tuning(), so --lean takes precedence.
void use_lean_settings(const Program& program, const Program::Command& command) {
  if (program.serve.lean) set_unset_flags(*command.app, lean_settings());
}

// Makes the options that ServeOptions::for_model returns.
Result<ServeOptions> options_for_model(const Arguments& arguments, const std::string& name) {
  Program program;
  try {
    program.app.parse(words_to_parse(serve_words(arguments, name)));
  } catch (const CLI::ParseError& error) {
    return make_error(ErrorKind::invalid, "the settings of {}: {}", name, error.what());
  }
  for (Program::Command& command : program.commands) {
    if (!*command.app) continue;
    for (Program::Located& located : command.locates) located.missing = IfMissing::refuse;
    TRY_VOID(locate(program, command, arguments.settings));
    use_lean_settings(program, command);
    use_tuning(program, command);
  }
  program.serve.engine.model_name = name;
  return program.serve;
}

// If an error is about a flag that the user did not type, says where its value comes from.
void name_origins(std::string_view message, const Arguments& arguments) {
  for (const auto& [flag, setting] : arguments.used) {
    const std::string word = "--" + flag;
    const size_t at = message.find(word);
    if (at == message.npos) continue;
    const char after = at + word.size() < message.size() ? message[at + word.size()] : ' ';
    const bool own =
        std::ranges::any_of(arguments.own, [&](const std::string& one) { return one.starts_with(word); });
    if (!own && after != '-' && !std::isalnum(static_cast<unsigned char>(after)))
      say(stderr, "{} is set by {}\n", word, setting.origin);
  }
}

int run(int argc, char** argv) {
  if (argc < 2) {
    say_lines(first_steps());
    return 0;
  }
  auto arguments = with_settings(argc, argv);
  if (!arguments) return fail(arguments.error());
  Program program;
  try {
    program.app.parse(words_to_parse(arguments->words));
  } catch (const CLI::ParseError& error) {
    const int status = explain(program.app, error);
    if (status != 0) name_origins(error.what(), *arguments);
    return status;
  }
  const auto usual = program.app.got_subcommand("serve") ? LogLevel::info : LogLevel::warning;
  set_log_level(program.quiet ? LogLevel::error : program.verbose ? LogLevel::debug : usual);
  if (program.serve.log_format == "json") set_log_format(LogFormat::json);
  for (const std::string& unknown : unknown_variables(program.app)) log_warning("{}", unknown);
  if (program.offline) go_offline();
  program.launch.arguments = arguments->passed_on;
  for (const Program::Command& command : program.commands) {
    if (!*command.app) continue;
    if (command.check)
      if (const auto fine = command.check(); !fine) return fail(fine.error());
    if (program.chat.url.empty() && program.mcp.url.empty()) {  // else the model is another program's
      if (const auto offered = offer_models(command); !offered) return fail(offered.error());
      if (const auto located = locate(program, command, arguments->settings); !located)
        return fail(located.error());
      use_lean_settings(program, command);
      use_tuning(program, command);
    }
    for (const auto& [name, model] : arguments->settings.models) program.serve.configured.push_back(name);
    program.serve.for_model = [&](const std::string& name) { return options_for_model(*arguments, name); };
    return command.run();
  }
  return 1;  // not reached: one sub-command is required
}

}  // namespace
}  // namespace anabranch::cli

int main(int argc, char** argv) {
  anabranch::cli::end_with_a_message();
  try {
    return anabranch::cli::finish_output(anabranch::cli::run(argc, argv));
  } catch (const std::exception& e) {
    return anabranch::cli::failed_by(e);
  }
}
